// SPDX-License-Identifier: Apache-2.0
// A block that is handed out from its front. What does not fit is allocated,
// and makes the block larger for the next run.
#include "base/run_memory.h"

#include <algorithm>
#include <memory>
#include <new>

#include "base/once.h"
#include "base/thread_owned.h"

namespace flashacl {
namespace {

constexpr size_t kAlignment = 16;
constexpr size_t kMostKept = size_t{16} << 20;  // of a thread, in bytes

struct Kept {
  std::unique_ptr<std::byte[]> block;
  size_t size = 0;
  size_t used = 0;  // also counts what did not fit
  bool in_run = false;

  bool Owns(const void* at) const {
    const auto* const byte = static_cast<const std::byte*>(at);
    return block != nullptr && block.get() <= byte && byte < block.get() + size;
  }

  void Grow() {
    const size_t wanted = std::min(used, kMostKept);
    if (wanted <= size) return;
    block.reset();
    block.reset(new (std::nothrow) std::byte[wanted]);
    size = block == nullptr ? 0 : wanted;
  }
};

// Null if there is no memory: then nothing is kept.
Kept* TheKept() {
  static constinit MadeOnce<ThreadOwned<Kept>> kept;
  return (*kept).Get();
}

}  // namespace

RunMemoryScope::RunMemoryScope() {
  Kept* const kept = TheKept();
  if (kept == nullptr || kept->in_run) return;
  outermost_ = true;
  kept->in_run = true;
  kept->used = 0;
}

RunMemoryScope::~RunMemoryScope() {
  if (!outermost_) return;
  Kept* const kept = TheKept();
  kept->in_run = false;
  kept->Grow();
}

void* AllocateInRun(size_t bytes) {
  Kept* const kept = TheKept();
  if (kept == nullptr || !kept->in_run) return operator new(bytes);
  const size_t first = kept->used;
  kept->used += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  return kept->used <= kept->size ? kept->block.get() + first :
                                  operator new(bytes);
}

void FreeInRun(void* at) noexcept {
  const Kept* const kept = TheKept();
  if (kept == nullptr || !kept->Owns(at)) operator delete(at);
}

}  // namespace flashacl
