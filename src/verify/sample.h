// SPDX-License-Identifier: Apache-2.0
// Random data for a problem: every tensor it has, in guarded memory, the same
// for the same seed. What tests, the verifier and benchmarks run on.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "plan/backend.h"
#include "plan/bindings.h"
#include "problem/attention_problem.h"

namespace flashacl {

// True for the slots an implementation writes in this direction.
bool IsOutput(Direction direction, Slot slot);

// The forward problem whose results a backward problem takes.
AttentionProblem ForwardOf(const AttentionProblem& backward);

// The same problem with results in f32 where they are 16-bit floats: the
// reference then tells the truth before its last rounding. A sample of it has
// the same inputs.
AttentionProblem WithWideResults(const AttentionProblem& problem);

// Memory of a device with a pattern in and around it that is a NaN in every
// float type.
class GuardedBytes {
 public:
  // Null if there is not so much memory.
  static GuardedBytes Allocate(Memory& memory, int64_t bytes);

  bool present() const { return storage_ != nullptr; }
  std::byte* data() const;  // aligned to 64 bytes
  std::span<std::byte> bytes() const {
    return {data(), static_cast<size_t>(bytes_)};
  }
  void FillWithPattern();

  // The pattern is still around the memory.
  bool GuardsIntact() const;
  // It is still at one place in it; for work on the host (Queue::OnHost).
  bool Untouched(int64_t first, int64_t count) const;

 private:
  Memory* memory_ = nullptr;
  std::shared_ptr<std::byte> storage_;
  int64_t bytes_ = 0;
};

// Realistic contents:
//  - rows outside of every sequence, unused page rows and unused page ids hold
//    what must not be read: NaN, or -1;
//  - masks hide a quarter, some rows whole; top-k lists are distinct, visible,
//    end in -1, and some short ones are empty; pages are shuffled;
//  - 8-bit rows have powers of two for scales and integers for offsets, so
//    that they decode exactly;
//  - lengths on the device are anything they may be, 0 included;
//  - backward takes the results of its forward problem.
// Outputs hold the pattern until somebody writes them.
class Sample {
 public:
  // In the memory of `backend`, whose queue and memory must outlive the sample.
  // Fails where the problem is impossible or too large to allocate, and where
  // the forward problem of a backward one fails on the last implementation of
  // `backend`.
  static Result<Sample> Make(const AttentionProblem& problem, uint64_t seed,
                             const Backend& backend);

  const AttentionProblem& problem() const { return problem_; }
  const Bindings& bindings() const { return bindings_; }

  // Where a slot is on the device; empty if it is absent or a list.
  std::span<std::byte> bytes(Slot slot) const {
    const GuardedBytes& memory = memory_[static_cast<size_t>(slot)];
    return memory.present() ? memory.bytes() : std::span<std::byte>();
  }

  // Refills outputs with the pattern.
  void ResetOutputs();

  // A copy of all outputs, one slot after the other: two runs are the same if
  // these are.
  std::vector<std::byte> Outputs() const;

  // Ok, or which tensor was written where it must not be: around it, between
  // the elements its strides name, or at all if it is an input.
  Status CheckUntouched() const;

 private:
  Sample(const AttentionProblem& problem, const Backend& backend)
      : problem_(problem),
        device_memory_(backend.memory),
        queue_(backend.queue) {}
  Status Allocate();
  Status AllocateList(const std::vector<TensorSpec>& specs,
                      std::vector<GuardedBytes>& memory,
                      std::vector<std::byte*>& bindings);
  Status RunForward(const Backend& backend);
  // For work on the host.
  uint64_t InputHash() const;
  Status CheckUntouchedOnHost() const;

  AttentionProblem problem_;
  // Pointers, for samples are assigned.
  Memory* device_memory_;
  Queue* queue_;
  std::array<GuardedBytes, kSlots> memory_;
  std::vector<GuardedBytes> key_list_;
  std::vector<GuardedBytes> value_list_;
  Bindings bindings_;
  uint64_t input_hash_ = 0;
};

}  // namespace flashacl
