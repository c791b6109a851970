// SPDX-License-Identifier: Apache-2.0
#include "plan/host_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/once.h"

namespace flashacl {
namespace {

constexpr size_t kAlignmentBytes = 64;
constexpr size_t kHugePageBytes = size_t{2} << 20;

// Debug builds end all memory at a page that cannot be touched. The address
// sanitizer does better with memory from the heap.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kHeapOnly = true;
constexpr bool kGuardPages = false;
#elif defined(FLASHACL_DCHECKS)
constexpr bool kHeapOnly = false;
constexpr bool kGuardPages = true;
#else
constexpr bool kHeapOnly = false;
constexpr bool kGuardPages = false;
#endif

size_t RoundUpTo(size_t bytes, size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

size_t PageBytes() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

std::byte* Map(size_t bytes) {
  void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return at == MAP_FAILED ? nullptr : static_cast<std::byte*>(at);
}

// Pages of zeros stay holes of the file: much of a block is never written.
void CopyPages(std::byte* to, const std::byte* from, size_t bytes) {
  const size_t page = PageBytes();
  for (size_t at = 0; at < bytes; at += page) {
    const std::byte* const first = from + at;
    const bool zeros = first[0] == std::byte{0} &&
                       std::memcmp(first, first + 1, page - 1) == 0;
    if (!zeros) std::memcpy(to + at, first, page);
  }
}

// What one request got. Released when destroyed.
struct HostBytes {
  std::byte* base = nullptr;
  std::byte* mapping = nullptr;  // null: from the heap, at `base`,
  void* from_heap = nullptr;     // or, if not null, here
  size_t mapped = 0;

  HostBytes() = default;
  HostBytes(const HostBytes&) = delete;
  HostBytes& operator=(const HostBytes&) = delete;
  ~HostBytes() {
    if (mapping != nullptr) {
      munmap(mapping, mapped);
    } else {
      std::free(from_heap != nullptr ? from_heap : base);
    }
  }

  // Each leaves `base` null on failure.
  void FromHeap(size_t bytes);
  void FromHeapPages(size_t bytes);
  void FromHugePages(size_t bytes);
  void BeforeGuardPage(size_t bytes);
};

void HostBytes::FromHeap(size_t bytes) {
  base = static_cast<std::byte*>(
      std::aligned_alloc(kAlignmentBytes, RoundUpTo(bytes, kAlignmentBytes)));
}

// The heap's pages are warm: those of a mapping are new each time, which is 13
// times as long for 256 KiB that are written once. Not by aligned_alloc, which
// makes the C library map each such request.
void HostBytes::FromHeapPages(size_t bytes) {
  const size_t page = PageBytes();
  from_heap = std::malloc(RoundUpTo(bytes, page) + page);
  if (from_heap == nullptr) return;
  const auto at = reinterpret_cast<uintptr_t>(from_heap);
  base = static_cast<std::byte*>(from_heap) + (page - at % page);
}

// The system backs a range with huge pages only where it is aligned to them, so
// one page more is mapped and what sticks out is given back.
void HostBytes::FromHugePages(size_t bytes) {
  const size_t wanted = RoundUpTo(bytes, PageBytes());
  const size_t all = wanted + kHugePageBytes;
  std::byte* const start = Map(all);
  if (start == nullptr) return;
  const size_t skip =
      (kHugePageBytes - reinterpret_cast<uintptr_t>(start) % kHugePageBytes) %
      kHugePageBytes;
  if (skip > 0) munmap(start, skip);
  munmap(start + skip + wanted, all - skip - wanted);
  base = mapping = start + skip;
  mapped = wanted;
}

void HostBytes::BeforeGuardPage(size_t bytes) {
  const size_t used = RoundUpTo(bytes, kAlignmentBytes);
  const size_t pages = RoundUpTo(used, PageBytes());
  std::byte* const start = Map(pages + PageBytes());
  if (start == nullptr) return;
  mapping = start;
  mapped = pages + PageBytes();
  mprotect(start + pages, PageBytes(), PROT_NONE);
  base = start + pages - used;
}

}  // namespace

HostMemory& HostMemory::Get() {
  static constinit MadeOnce<HostMemory> memory;
  return memory.Get([] { return HostMemory(); });
}

std::shared_ptr<std::byte> HostMemory::Allocate(const MemoryRequest& request) {
  auto bytes = std::make_shared<HostBytes>();
  const size_t all = request.bytes + request.zeros;
  if (kGuardPages) bytes->BeforeGuardPage(all);
  const bool aligned =
      all >= kHugePageBytes || (request.huge_pages && all > kHugePageBytes / 2);
  if (bytes->base == nullptr && aligned && !kHeapOnly) {
    bytes->FromHugePages(all);
    if (bytes->base != nullptr && request.huge_pages) {
      madvise(bytes->mapping, bytes->mapped, MADV_HUGEPAGE);
    }
  }
  if (bytes->base == nullptr) {
    request.own_pages ? bytes->FromHeapPages(all) : bytes->FromHeap(all);
  }
  std::byte* const base = bytes->base;
  if (base == nullptr) return nullptr;
  if (bytes->mapping == nullptr) {
    std::memset(base + request.bytes, 0, request.zeros);
  }
  return {std::move(bytes), base};
}

// memmove is as fast as memcpy. Of nothing, addresses may be null.
void HostMemory::Copy(std::byte* to, const std::byte* from, size_t bytes) {
  if (bytes > 0) std::memmove(to, from, bytes);
}

void HostMemory::Fill(std::byte* at, std::byte value, size_t bytes) {
  if (bytes > 0) std::memset(at, std::to_integer<int>(value), bytes);
}

void HostMemory::FillWords(std::byte* at, uint32_t value, size_t words) {
  std::fill_n(reinterpret_cast<uint32_t*>(at), words, value);
}

uint64_t HostMemory::LoadWord(const std::byte* at) {
  return __atomic_load_n(reinterpret_cast<const uint64_t*>(at),
                         __ATOMIC_SEQ_CST);
}

void HostMemory::StoreWord(std::byte* at, uint64_t value) {
  __atomic_store_n(reinterpret_cast<uint64_t*>(at), value, __ATOMIC_SEQ_CST);
}

namespace {

// The whole pages that bytes lie in.
struct Pages {
  std::byte* first;
  size_t offset, bytes;

  Pages(std::byte* at, size_t size)
      : first(at - reinterpret_cast<uintptr_t>(at) % PageBytes()),
        offset(static_cast<size_t>(at - first)),
        bytes(RoundUpTo(offset + size, PageBytes())) {}
};

}  // namespace

MemoryFile HostMemory::MoveToFile(std::byte* base, size_t bytes) {
  const Pages pages(base, bytes);
  struct Closing {
    int file;
    ~Closing() {
      if (file >= 0) close(file);
    }
  } made{memfd_create("flashacl", MFD_CLOEXEC)};
  if (made.file < 0 ||
      ftruncate(made.file, static_cast<off_t>(pages.bytes)) != 0) {
    return {};
  }
  void* const copy = mmap(nullptr, pages.bytes, PROT_READ | PROT_WRITE,
                          MAP_SHARED, made.file, 0);
  if (copy == MAP_FAILED) return {};
  // Huge pages are a wish here, too.
  if (bytes >= kHugePageBytes) madvise(copy, pages.bytes, MADV_HUGEPAGE);
  CopyPages(static_cast<std::byte*>(copy), pages.first, pages.bytes);
  // At once, and with the pages that are there already.
  if (mremap(copy, pages.bytes, pages.bytes, MREMAP_MAYMOVE | MREMAP_FIXED,
             pages.first) == MAP_FAILED) {
    munmap(copy, pages.bytes);
    return {};
  }
  return {std::exchange(made.file, -1), pages.offset, pages.bytes};
}

// Others may still map the file, and the heap gives the pages out again.
bool HostMemory::LeaveFile(std::byte* base, size_t bytes) {
  const Pages pages(base, bytes);
  return mmap(pages.first, pages.bytes, PROT_READ | PROT_WRITE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
}

bool HostMemory::SetClosed(std::byte* base, size_t bytes, bool closed) {
  const Pages pages(base, bytes);
  return mprotect(pages.first, pages.bytes,
                  closed ? PROT_NONE : PROT_READ | PROT_WRITE) == 0;
}

}  // namespace flashacl
