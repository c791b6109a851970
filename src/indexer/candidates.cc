// SPDX-License-Identifier: Apache-2.0
// Selecting and sorting, which is a few percent of what scores cost.
#include "indexer/candidates.h"

#include <algorithm>

namespace flashacl::indexer {
namespace {

constexpr auto kBetter = [](Candidate a, Candidate b) {
  return a.rank > b.rank;
};

}  // namespace

int64_t Candidates::CapacityOf(int64_t keep, int64_t most) {
  // Below that selecting would come too often.
  constexpr int64_t kSpare = 256;
  return std::min(keep + std::max(keep, kSpare), std::max<int64_t>(most, 1));
}

void Candidates::Compact() {
  if (count_ < keep_) return;
  std::nth_element(at_, at_ + keep_ - 1, at_ + count_, kBetter);
  count_ = keep_;
  last_rank_ = at_[keep_ - 1].rank;
  threshold_ = at_[keep_ - 1].ordered();
}

void Candidates::Take(std::span<const Candidate> others) {
  for (const Candidate other : others) {
    if (other.rank <= last_rank_) continue;
    if (count_ == capacity_) {
      Compact();
      if (other.rank <= last_rank_) continue;
    }
    at_[count_++] = other;
  }
}

std::span<const Candidate> Candidates::Sorted() {
  Compact();
  std::sort(at_, at_ + count_, kBetter);
  return kept();
}

}  // namespace flashacl::indexer
