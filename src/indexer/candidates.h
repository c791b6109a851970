// SPDX-License-Identifier: Apache-2.0
// The best keys of one row among those that came so far. What may be among them
// is appended; when memory is full the best stay, and from then on only what
// beats the last of these comes in. With room for twice as many that happens
// after about e times the keys that came before, and costs few steps for each.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <span>

namespace flashacl::indexer {

// Scores as integers of the same order, with NaN, which has one value, on top
// and without -0. The lowest integer is that of no score.
inline constexpr int32_t kNoScore = std::numeric_limits<int32_t>::min();

constexpr float ScoreOf(int32_t ordered) {
  const int32_t bits = ordered < 0 ? ordered ^ 0x7FFFFFFF : ordered;
  return std::bit_cast<float>(bits);
}

// A key and its score as one number: greater is better.
struct Candidate {
  uint64_t rank = 0;

  static constexpr Candidate Of(int32_t ordered, uint32_t key) {
    const uint64_t high = static_cast<uint32_t>(ordered) ^ 0x80000000u;
    return {high << 32 | (0xFFFFFFFFu - key)};
  }
  constexpr int32_t ordered() const {
    return static_cast<int32_t>(static_cast<uint32_t>(rank >> 32) ^
                                0x80000000u);
  }
  constexpr int32_t key() const {
    return static_cast<int32_t>(0xFFFFFFFFu - static_cast<uint32_t>(rank));
  }
};

class Candidates {
 public:
  Candidates() = default;
  // Memory for CapacityOf(keep, most) of them.
  Candidates(Candidate* at, int64_t capacity, int64_t keep)
      : at_(at), capacity_(capacity), keep_(keep) {}

  // Where `keep` are kept of at most `most`.
  static int64_t CapacityOf(int64_t keep, int64_t most);

  // What a score must exceed to be appended, if keys ascend.
  int32_t threshold() const { return threshold_; }

  // Keys must ascend.
  void Append(int32_t ordered, uint32_t key) {
    if (count_ == capacity_) {
      Compact();
      if (ordered <= threshold_) return;
    }
    at_[count_++] = Candidate::Of(ordered, key);
  }

  // Of others, whose keys are all greater.
  void Take(std::span<const Candidate> others);

  // Leaves the best, in no order.
  void Compact();

  // The same, best first.
  std::span<const Candidate> Sorted();

  std::span<const Candidate> kept() const {
    return {at_, static_cast<size_t>(count_)};
  }

 private:
  Candidate* at_ = nullptr;
  int64_t count_ = 0;
  int64_t capacity_ = 0;
  int64_t keep_ = 0;
  int32_t threshold_ = kNoScore;
  uint64_t last_rank_ = 0;  // of those kept, where there are `keep`
};

}  // namespace flashacl::indexer
