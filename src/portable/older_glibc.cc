// SPDX-License-Identifier: Apache-2.0
// What code that is linked into packages takes from glibc 2.35, for 2.34:
// hidden definitions of the same names, which the linker prefers to glibc's.
// Packages alone have them (FLASHACL_PORTABLE); docs/notes/0043 says why these
// are all.
#include <dlfcn.h>
#include <link.h>

#include <cstdint>

#define FLASHACL_HIDDEN extern "C" __attribute__((visibility("hidden")))

#if __GLIBC_PREREQ(2, 35)
namespace {

struct Search {
  uintptr_t address;
  dl_find_object* found;
};

// The end of the search if `object` has the address in a segment; `found` then
// says where, and where its unwind tables are.
int LookInto(dl_phdr_info* object, size_t, void* argument) {
  const Search& search = *static_cast<Search*>(argument);
  uintptr_t first = UINTPTR_MAX, end = 0, tables = 0;
  bool inside = false;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = object->dlpi_phdr[i];
    const uintptr_t at = object->dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_GNU_EH_FRAME) tables = at;
    if (segment.p_type != PT_LOAD) continue;
    first = at < first ? at : first;
    end = at + segment.p_memsz > end ? at + segment.p_memsz : end;
    // Below a segment this wraps to more than any segment has.
    inside |= search.address - at < segment.p_memsz;
  }
  if (!inside) return 0;
  search.found->dlfo_map_start = reinterpret_cast<void*>(first);
  search.found->dlfo_map_end = reinterpret_cast<void*>(end);
  search.found->dlfo_eh_frame = reinterpret_cast<void*>(tables);
  return 1;
}

}  // namespace

// What GCC's unwinder asks for each frame, of whose answer it reads only
// dlfo_eh_frame. That of glibc looks in a table and takes no lock; this takes
// the one of dlopen, as unwinders did before. 0, or -1 if no object that can be
// unwound has the address. dlfo_link_map stays null: nothing here knows it.
FLASHACL_HIDDEN int _dl_find_object(void* address,
                                    dl_find_object* result) noexcept {
  *result = {};
  Search search = {reinterpret_cast<uintptr_t>(address), result};
  dl_iterate_phdr(LookInto, &search);
  return result->dlfo_eh_frame == nullptr ? -1 : 0;
}
#endif

// glibc 2.35 gave hypot a version that leaves errno alone; the first, which
// every glibc has, answers the same. Compilers know a function hypot, so ours
// has that name for the linker alone.
extern "C" double FlashaclFirstHypot(double x, double y);
#if defined(__x86_64__)
__asm__(".symver FlashaclFirstHypot, hypot@GLIBC_2.2.5");
#elif defined(__aarch64__)
__asm__(".symver FlashaclFirstHypot, hypot@GLIBC_2.17");
#else
#error "packages are made for x86-64 and 64-bit ARM"
#endif
FLASHACL_HIDDEN double FlashaclHypot(double x, double y) __asm__("hypot");
double FlashaclHypot(double x, double y) { return FlashaclFirstHypot(x, y); }
