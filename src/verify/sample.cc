// SPDX-License-Identifier: Apache-2.0
// Memory of samples, and what may have been written in it.
#include "verify/sample.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "plan/plan.h"
#include "verify/fill.h"

namespace flashacl {
namespace {

constexpr int64_t kGuardBytes = 64;  // on each side
constexpr int64_t kMaxBytes = int64_t{1} << 36;

// 0x7FFF in 16 bits, 0x7FFF7FFF in 32: NaN as f16, bf16 and f32.
constexpr std::byte PatternAt(int64_t index) {
  return index % 2 == 0 ? std::byte{0xFF} : std::byte{0x7F};
}

// Four bytes of it that start at an even index.
constexpr uint32_t kPatternWord = std::bit_cast<uint32_t>(
    std::array{PatternAt(0), PatternAt(1), PatternAt(2), PatternAt(3)});

// Reading large memory takes a fifth less time from huge pages (18 against 23
// GB/s on one Zen 3 core), so operands that are timed have them, as device
// memory has.
constexpr int64_t kMinHugeBytes = int64_t{4} << 20;

bool HasPattern(const std::byte* at, int64_t first, int64_t count) {
  for (int64_t n = first; n < first + count; ++n) {
    if (at[n] != PatternAt(n)) return false;
  }
  return true;
}

// FNV-1a over words, then over what is left.
uint64_t Hash(std::span<const std::byte> bytes, uint64_t hash) {
  constexpr uint64_t kPrime = 0x100000001B3u;
  size_t n = 0;
  for (; n + 8 <= bytes.size(); n += 8) {
    uint64_t word;
    std::memcpy(&word, bytes.data() + n, sizeof(word));
    hash = (hash ^ word) * kPrime;
    hash ^= hash >> 29;
  }
  for (; n < bytes.size(); ++n) {
    hash = (hash ^ static_cast<uint64_t>(bytes[n])) * kPrime;
  }
  return hash;
}

// Marks every byte of a strided tensor that belongs to an element.
std::vector<bool> OwnedBytes(const TensorSpec& spec, size_t axes,
                             int64_t bytes) {
  std::vector<bool> owned(static_cast<size_t>(bytes), false);
  if (bytes == 0) return owned;
  const int64_t size = SizeOf(spec.dtype);
  std::array<int64_t, 4> counts{1, 1, 1, 1};
  for (size_t axis = 0; axis < axes; ++axis) {
    if (spec.strides[axis] != 0) counts[axis] = spec.dims[axis];
  }
  for (int64_t a = 0; a < counts[0]; ++a) {
    for (int64_t b = 0; b < counts[1]; ++b) {
      for (int64_t c = 0; c < counts[2]; ++c) {
        for (int64_t e = 0; e < counts[3]; ++e) {
          const int64_t first = spec.At(a, b, c, e) * size;
          std::fill_n(owned.begin() + first, size, true);
        }
      }
    }
  }
  return owned;
}

bool GapsUntouched(const GuardedBytes& memory, const TensorSpec& spec,
                   size_t axes) {
  if (spec.placement != Placement::kStrided &&
      spec.placement != Placement::kTensorRows) {
    return true;
  }
  const auto bytes = static_cast<int64_t>(memory.bytes().size());
  const std::vector<bool> owned = OwnedBytes(spec, axes, bytes);
  for (int64_t n = 0; n < bytes; ++n) {
    if (!owned[static_cast<size_t>(n)] && !memory.Untouched(n, 1)) return false;
  }
  return true;
}

bool IsGradient(Slot slot) { return slot > Slot::kGradOut; }

}  // namespace

bool IsOutput(Direction direction, Slot slot) {
  if (direction == Direction::kBackward) return IsGradient(slot);
  return slot == Slot::kOut || IsRowResult(slot);
}

AttentionProblem ForwardOf(const AttentionProblem& backward) {
  AttentionProblem forward = backward;
  forward.direction = Direction::kForward;
  for (size_t index = static_cast<size_t>(Slot::kGradOut); index < kSlots;
       ++index) {
    forward.tensors[index] = {};
  }
  return forward;
}

AttentionProblem WithWideResults(const AttentionProblem& problem) {
  AttentionProblem wide = problem;
  for (size_t index = 0; index < kSlots; ++index) {
    const bool output = IsOutput(problem.direction, static_cast<Slot>(index));
    if (output && IsFloat(problem.tensors[index].dtype)) {
      wide.tensors[index].dtype = DType::kF32;
    }
  }
  return wide;
}

GuardedBytes GuardedBytes::Allocate(Memory& memory, int64_t bytes) {
  GuardedBytes guarded;
  const int64_t total = RoundUp(bytes + 2 * kGuardBytes, sizeof(kPatternWord));
  guarded.storage_ = memory.Allocate({.bytes = static_cast<size_t>(total),
                                      .huge_pages = total >= kMinHugeBytes});
  guarded.memory_ = &memory;
  guarded.bytes_ = bytes;
  if (!guarded.present()) return guarded;
  memory.FillWords(guarded.storage_.get(), kPatternWord,
                   static_cast<size_t>(total) / sizeof(kPatternWord));
  return guarded;
}

std::byte* GuardedBytes::data() const { return storage_.get() + kGuardBytes; }

void GuardedBytes::FillWithPattern() {
  const int64_t words = bytes_ / static_cast<int64_t>(sizeof(kPatternWord));
  memory_->FillWords(data(), kPatternWord, static_cast<size_t>(words));
  for (int64_t n = words * static_cast<int64_t>(sizeof(kPatternWord));
       n < bytes_; ++n) {
    memory_->Fill(data() + n, PatternAt(n), 1);
  }
}

bool GuardedBytes::GuardsIntact() const {
  std::array<std::byte, kGuardBytes> guard;
  for (const int64_t first : {-kGuardBytes, bytes_}) {
    memory_->Copy(guard.data(), data() + first, guard.size());
    for (int64_t n = 0; n < kGuardBytes; ++n) {
      if (guard[static_cast<size_t>(n)] != PatternAt(first + n)) return false;
    }
  }
  return true;
}

bool GuardedBytes::Untouched(int64_t first, int64_t count) const {
  return HasPattern(data(), first, count);
}

Result<Sample> Sample::Make(const AttentionProblem& problem, uint64_t seed,
                            const Backend& backend) {
  FLASHACL_RETURN_IF_ERROR(CheckProblem(problem));
  Sample sample(problem, backend);
  FLASHACL_RETURN_IF_ERROR(sample.Allocate());
  FLASHACL_RETURN_IF_ERROR(backend.queue->OnHost([&](Workers&) -> Status {
    FillInputs(sample.problem_, sample.bindings_, seed);
    return {};
  }));
  if (problem.direction == Direction::kBackward) {
    FLASHACL_RETURN_IF_ERROR(sample.RunForward(backend));
  }
  FLASHACL_RETURN_IF_ERROR(backend.queue->OnHost([&](Workers&) -> Status {
    sample.input_hash_ = sample.InputHash();
    return {};
  }));
  return sample;
}

Status Sample::Allocate() {
  int64_t total = 0;
  for (size_t index = 0; index < kSlots; ++index) {
    if (!problem_.tensors[index].present()) continue;
    const auto slot = static_cast<Slot>(index);
    const int64_t bytes = BytesOf(problem_, slot);
    total += bytes < kMaxBytes ? bytes : kMaxBytes;
    if (total < kMaxBytes) {
      memory_[index] = GuardedBytes::Allocate(*device_memory_, bytes);
    }
    if (!memory_[index].present()) {
      return {Code::kOutOfMemory,
              Str("{}: no memory for {} bytes", Name(slot), bytes)};
    }
    bindings_[slot] = memory_[index].data();
  }
  FLASHACL_RETURN_IF_ERROR(
      AllocateList(problem_.kv.key_list, key_list_, bindings_.key_list));
  return AllocateList(problem_.kv.value_list, value_list_,
                      bindings_.value_list);
}

Status Sample::AllocateList(const std::vector<TensorSpec>& specs,
                            std::vector<GuardedBytes>& memory,
                            std::vector<std::byte*>& bindings) {
  for (const TensorSpec& spec : specs) {
    const int64_t bytes = BytesOf(spec);
    GuardedBytes one;
    if (bytes < kMaxBytes) {
      one = GuardedBytes::Allocate(*device_memory_, bytes);
    }
    if (!one.present()) {
      return {Code::kOutOfMemory,
              Str("list of keys: no memory for {} bytes", bytes)};
    }
    bindings.push_back(one.data());
    memory.push_back(std::move(one));
  }
  return {};
}

Status Sample::RunForward(const Backend& backend) {
  Choice last;
  last.only = backend.implementations.back().name;
  Result<Plan> plan = MakePlan(backend, ForwardOf(problem_), last);
  if (!plan.ok()) return plan.status();
  const GuardedBytes workspace =
      GuardedBytes::Allocate(*device_memory_, plan->workspace.bytes());
  if (!workspace.present()) {
    return {Code::kOutOfMemory,
            Str("workspace: no memory for {} bytes", plan->workspace.bytes())};
  }
  return Run(*queue_, *plan, bindings_, workspace.data());
}

void Sample::ResetOutputs() {
  for (size_t index = 0; index < kSlots; ++index) {
    const bool output = IsOutput(problem_.direction, static_cast<Slot>(index));
    if (output && memory_[index].present()) memory_[index].FillWithPattern();
  }
}

std::vector<std::byte> Sample::Outputs() const {
  std::vector<std::byte> all;
  for (size_t index = 0; index < kSlots; ++index) {
    const auto slot = static_cast<Slot>(index);
    if (!IsOutput(problem_.direction, slot)) continue;
    const std::span<std::byte> one = bytes(slot);
    const size_t before = all.size();
    all.resize(before + one.size());
    device_memory_->Copy(all.data() + before, one.data(), one.size());
  }
  return all;
}

uint64_t Sample::InputHash() const {
  uint64_t hash = 0xCBF29CE484222325u;
  for (size_t index = 0; index < kSlots; ++index) {
    const auto slot = static_cast<Slot>(index);
    if (!IsOutput(problem_.direction, slot)) hash = Hash(bytes(slot), hash);
  }
  for (const auto* list : {&key_list_, &value_list_}) {
    for (const GuardedBytes& one : *list) hash = Hash(one.bytes(), hash);
  }
  return hash;
}

Status Sample::CheckUntouched() const {
  return queue_->OnHost([this](Workers&) { return CheckUntouchedOnHost(); });
}

Status Sample::CheckUntouchedOnHost() const {
  for (size_t index = 0; index < kSlots; ++index) {
    if (!memory_[index].present()) continue;
    const auto slot = static_cast<Slot>(index);
    if (!memory_[index].GuardsIntact()) {
      return Internal("{}: written outside of the tensor", Name(slot));
    }
    if (IsOutput(problem_.direction, slot) &&
        !GapsUntouched(memory_[index], problem_.tensors[index],
                       AxisCount(problem_, slot))) {
      return Internal("{}: written between its elements", Name(slot));
    }
  }
  for (const auto* list : {&key_list_, &value_list_}) {
    for (const GuardedBytes& one : *list) {
      if (!one.GuardsIntact()) {
        return Internal("list of keys: written outside of a tensor");
      }
    }
  }
  if (InputHash() != input_hash_) return Internal("an input was written");
  return {};
}

}  // namespace flashacl
