// SPDX-License-Identifier: Apache-2.0
// A program's own definitions of these functions come before those of the C
// library, for every library that it loads.
#include "tests/faults/injector.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>

// The C library's names for what it does itself.
extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* at, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void* at);
}

namespace flashacl::testing {
namespace {

constexpr int kNone = -1;

struct State {
  std::atomic<int> kind{kNone};
  std::atomic<int64_t> left{0};  // calls until the one that fails; 0: past it
  std::atomic<bool> lasting{false};
  std::atomic<int64_t> seen{0};
  std::atomic<int64_t> failed{0};
  std::atomic<int64_t> all_failed{0};
  std::atomic<int64_t> live{0};
};

constinit State state;

bool Fails(Fault fault) {
  if (state.kind.load() != static_cast<int>(fault)) return false;
  const int64_t number = state.seen.fetch_add(1) + 1;
  const int64_t n = state.left.load();
  if (n == 0 || number < n || (number > n && !state.lasting.load())) {
    return false;
  }
  state.failed.fetch_add(1);
  state.all_failed.fetch_add(1);
  return true;
}

bool NoMemory() {
  if (!Fails(Fault::kAllocation)) return false;
  errno = ENOMEM;
  return true;
}

void* Counted(void* at) {
  if (at != nullptr) state.live.fetch_add(1);
  return at;
}

bool DiskFails() {
  if (!Fails(Fault::kFile)) return false;
  errno = ENOSPC;
  return true;
}

// The next definition of a function: the C library's.
template <typename F>
F* Real(F*, const char* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

Injected::Injected(Fault fault, int64_t n, bool lasting) {
  state.left = n;
  state.lasting = lasting;
  state.seen = state.failed = 0;
  state.kind = static_cast<int>(fault);
}

Injected::~Injected() { state.kind = kNone; }

int64_t Injected::seen() const { return state.seen.load(); }
int64_t Injected::failed() const { return state.failed.load(); }

int64_t LiveBlocks() {
  int64_t live = -1;
  for (int still = 0; still < 10;) {
    const int64_t now = state.live.load();
    still = now == live ? still + 1 : 0;
    live = now;
    usleep(20000);
  }
  return live;
}

bool Leaks(FunctionRef<void()> body) {
  for (int tries = 0; tries < 4; ++tries) {
    const int64_t live = LiveBlocks();
    body();
    if (LiveBlocks() <= live) return false;
  }
  return true;
}

int64_t InjectedFaults() { return state.all_failed.load(); }

}  // namespace flashacl::testing

namespace t = flashacl::testing;

extern "C" {

void* malloc(size_t bytes) {
  return t::NoMemory() ? nullptr : t::Counted(__libc_malloc(bytes));
}

void* calloc(size_t count, size_t bytes) {
  return t::NoMemory() ? nullptr : t::Counted(__libc_calloc(count, bytes));
}

void* realloc(void* at, size_t bytes) {
  if (t::NoMemory()) return nullptr;
  void* const moved = __libc_realloc(at, bytes);
  return at == nullptr ? t::Counted(moved) : moved;
}

void* memalign(size_t alignment, size_t bytes) {
  return t::NoMemory() ? nullptr
                       : t::Counted(__libc_memalign(alignment, bytes));
}

void* aligned_alloc(size_t alignment, size_t bytes) {
  return memalign(alignment, bytes);
}

int posix_memalign(void** at, size_t alignment, size_t bytes) {
  void* const made = memalign(alignment, bytes);
  if (made == nullptr) return ENOMEM;
  *at = made;
  return 0;
}

void free(void* at) {
  if (at != nullptr) t::state.live.fetch_sub(1);
  __libc_free(at);
}

void* mmap(void* at, size_t bytes, int protection, int flags, int file,
           off_t offset) noexcept {
  if (t::NoMemory()) return MAP_FAILED;
  return reinterpret_cast<void*>(
      syscall(SYS_mmap, at, bytes, protection, flags, file, offset));
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                   void* (*start)(void*), void* argument) noexcept {
  static auto* const real = t::Real(&pthread_create, "pthread_create");
  if (t::Fails(t::Fault::kThread)) return EAGAIN;
  return real(thread, attributes, start, argument);
}

FILE* fopen(const char* path, const char* mode) {
  static auto* const real = t::Real(&fopen, "fopen");
  return t::DiskFails() ? nullptr : real(path, mode);
}

size_t fread(void* to, size_t size, size_t count, FILE* file) {
  static auto* const real = t::Real(&fread, "fread");
  return t::DiskFails() ? 0 : real(to, size, count, file);
}

size_t fwrite(const void* from, size_t size, size_t count, FILE* file) {
  static auto* const real = t::Real(&fwrite, "fwrite");
  return t::DiskFails() ? 0 : real(from, size, count, file);
}

ssize_t read(int file, void* to, size_t bytes) {
  return t::DiskFails() ? -1 : syscall(SYS_read, file, to, bytes);
}

ssize_t write(int file, const void* from, size_t bytes) {
  return t::DiskFails() ? -1 : syscall(SYS_write, file, from, bytes);
}

ssize_t writev(int file, const iovec* parts, int count) {
  return t::DiskFails() ? -1 : syscall(SYS_writev, file, parts, count);
}

int open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const int mode = va_arg(more, int);
  va_end(more);
  if (t::DiskFails()) return -1;
  return static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}

}  // extern "C"
