// SPDX-License-Identifier: Apache-2.0
// Selecting and sorting, which is a few percent of what scores cost.
#include "indexer/candidates.h"

#include <algorithm>
#include <array>
#include <utility>

namespace flashacl::indexer {
namespace {

constexpr auto kBetter = [](Candidate a, Candidate b) {
  return a.rank > b.rank;
};

// Of a few of some candidates, the one that as great a share of them beats as
// `keep` is of all.
uint64_t Pivot(std::span<const Candidate> some, int64_t keep) {
  constexpr int64_t kSample = 9;
  const auto count = static_cast<int64_t>(some.size());
  std::array<Candidate, kSample> sample;
  for (int64_t n = 0; n < kSample; ++n) {
    sample[static_cast<size_t>(n)] =
        some[static_cast<size_t>((2 * n + 1) * count / (2 * kSample))];
  }
  auto* const pivot =
      sample.data() + std::min(keep * kSample / count, kSample - 1);
  std::nth_element(sample.data(), pivot, sample.data() + kSample, kBetter);
  return pivot->rank;
}

// Brings the best `keep` to the front, as nth_element does, but goes through
// candidates without branches that depend on them: 4,096 take a third of the
// time.
void BringBest(std::span<Candidate> all, int64_t keep) {
  constexpr size_t kFew = 64;
  constexpr int kRounds = 24;  // a bad pivot may leave all where they are
  for (int round = 0; round < kRounds && all.size() > kFew; ++round) {
    const uint64_t pivot = Pivot(all, keep);
    size_t better = 0;
    for (Candidate& one : all) {
      const Candidate at = one;
      one = std::exchange(all[better], at);
      better += at.rank > pivot;
    }
    const auto count = static_cast<int64_t>(better);
    if (count == keep) return;
    if (count > keep) {
      all = all.first(better);
    } else {
      all = all.subspan(better);
      keep -= count;
    }
  }
  std::nth_element(all.begin(), all.begin() + (keep - 1), all.end(), kBetter);
}

// Best first, digit by digit from the lowest; `spare` is as much memory. Digits
// that all share, as those of exponents mostly are, cost a count.
void SortByDigits(std::span<Candidate> all, Candidate* spare) {
  constexpr size_t kDigits = 8, kValues = 256;
  const auto digit = [](Candidate one, size_t d) {
    return static_cast<size_t>(~one.rank >> (8 * d) & (kValues - 1));
  };
  std::array<std::array<uint32_t, kValues>, kDigits> places{};
  for (const Candidate one : all) {
    for (size_t d = 0; d < kDigits; ++d) ++places[d][digit(one, d)];
  }
  Candidate* from = all.data();
  Candidate* to = spare;
  for (size_t d = 0; d < kDigits; ++d) {
    if (places[d][digit(from[0], d)] == all.size()) continue;
    uint32_t before = 0;
    for (uint32_t& place : places[d]) {
      before += std::exchange(place, before);
    }
    for (size_t n = 0; n < all.size(); ++n) {
      to[places[d][digit(from[n], d)]++] = from[n];
    }
    std::swap(from, to);
  }
  if (from != all.data()) std::copy_n(from, all.size(), all.data());
}

}  // namespace

int64_t Candidates::CapacityOf(int64_t keep, int64_t most) {
  // Below that selecting would come too often.
  constexpr int64_t kSpare = 256;
  return std::min(keep + std::max(keep, kSpare), std::max<int64_t>(most, 1));
}

void Candidates::Compact() {
  if (count_ < keep_) return;
  BringBest({at_, static_cast<size_t>(count_)}, keep_);
  count_ = keep_;
  const Candidate last = *std::max_element(at_, at_ + keep_, kBetter);
  last_rank_ = last.rank;
  threshold_ = last.ordered();
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
  // Fewer are sorted before their digits are counted.
  constexpr int64_t kMany = 256;
  Compact();
  if (count_ >= kMany && 2 * count_ <= capacity_) {
    SortByDigits({at_, static_cast<size_t>(count_)}, at_ + count_);
  } else {
    std::sort(at_, at_ + count_, kBetter);
  }
  return kept();
}

}  // namespace flashacl::indexer
