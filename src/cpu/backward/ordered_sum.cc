// SPDX-License-Identifier: Apache-2.0
// Counters, one per step of keys.
#include "cpu/backward/ordered_sum.h"

#include <algorithm>
#include <thread>

#include "base/check.h"
#include "cpu/tuning.h"

namespace flashacl::cpu {
namespace {

// Spins for a while, as turns are short, then lets others run.
template <typename Ready>
void Await(Ready ready) {
  for (int spins = 0; !ready(); ++spins) {
    if (spins > 64) std::this_thread::yield();
  }
}

// As even as the unit of keys allows: a short step costs almost as much as a
// long one.
int64_t StepColumns(int64_t columns, int64_t most) {
  const int64_t steps = std::max<int64_t>(1, CeilDiv(columns, most));
  return std::max(kColumnUnit, RoundUp(CeilDiv(columns, steps), kColumnUnit));
}

}  // namespace

OrderedSum::OrderedSum(const AttentionProblem& problem,
                       std::span<const Sequence> sequences,
                       const Schedule& schedule, const Limits& limits)
    : problem_(problem),
      sequences_(sequences),
      schedule_(schedule),
      limits_(limits) {
  FindGroups(sequences);
  FindUnseen();
  Interleave();
}

void OrderedSum::FindGroups(std::span<const Sequence> sequences) {
  int64_t steps = 0;
  Tile before;
  for (int64_t n = 0; n < schedule_.count(); ++n) {
    const Tile tile = schedule_.At(n);
    const bool same = n > 0 && tile.sequence == before.sequence &&
                      tile.kv_head == before.kv_head;
    before = tile;
    if (same) {
      TileGroup& group = groups_.back();
      if (++group.tiles == 2 && group.steps > 0) {
        group.sums = static_cast<int64_t>(summed_.size());
        summed_.push_back(static_cast<int64_t>(groups_.size()) - 1);
      }
      continue;
    }
    const int64_t columns =
        sequences[static_cast<size_t>(tile.sequence)].columns();
    const int64_t size = StepColumns(columns, limits_.step_columns);
    groups_.push_back({.first = n,
                       .tiles = 1,
                       .first_ticket = steps,
                       .steps = CeilDiv(columns, size),
                       .step_columns = size});
    steps += groups_.back().steps;
  }
  ordered_sum_ =
      std::make_unique<std::atomic<int32_t>[]>(static_cast<size_t>(steps));
  finished_ = std::make_unique<std::atomic<int64_t>[]>(groups_.size());
}

void OrderedSum::FindUnseen() {
  // Keys of sequences without queries are in no tile.
  for (const Sequence& sequence : sequences_) {
    unseen_ |= sequence.rows() == 0 && sequence.columns() > 0;
  }
  for (const TileGroup& group : groups_) {
    for (int64_t s = 0; s < group.steps && !unseen_; ++s) {
      bool seen = false;
      for (int64_t n = 0; n < group.tiles && !seen; ++n) {
        seen = !StepOf(group.first + n, s).empty();
      }
      unseen_ = !seen;
    }
  }
}

// One tile of each of `mixed` groups, then the next of each, until they have no
// more; then the groups behind them.
void OrderedSum::Interleave() {
  order_.reserve(static_cast<size_t>(schedule_.count()));
  const auto count = static_cast<int64_t>(groups_.size());
  for (int64_t first = 0; first < count; first += limits_.interleaved) {
    const int64_t last = std::min(first + limits_.interleaved, count);
    for (int64_t n = 0;; ++n) {
      const size_t was = order_.size();
      for (int64_t g = first; g < last; ++g) {
        const TileGroup& group = groups_[static_cast<size_t>(g)];
        if (n < group.tiles) order_.push_back(group.first + n);
      }
      if (order_.size() == was) break;
    }
  }
}

const TileGroup& OrderedSum::GroupOf(int64_t tile) const {
  const auto behind = std::upper_bound(
      groups_.begin(), groups_.end(), tile,
      [](int64_t n, const TileGroup& group) { return n < group.first; });
  return *(behind - 1);
}

bool OrderedSum::Sees(const Tile& tile, Range cols) const {
  const Sequence& extent = sequences_[static_cast<size_t>(tile.sequence)];
  const Band band =
      problem_.mask.BandOf(tile.sequence, extent.rows(), extent.columns());
  const Range all{std::min(cols.first, extent.columns()),
                  std::min(cols.last, extent.columns())};
  const int64_t group = problem_.group();
  const Range positions{tile.rows.first / group,
                        CeilDiv(tile.rows.last, group)};
  return !all.empty() && band.Classify(positions, all) != TileKind::kEmpty;
}

Range OrderedSum::StepOf(int64_t tile, int64_t step) const {
  const Tile cut = schedule_.At(tile);
  const int64_t columns =
      sequences_[static_cast<size_t>(cut.sequence)].columns();
  const int64_t size = GroupOf(tile).step_columns;
  const Range cols{step * size, std::min((step + 1) * size, columns)};
  return Sees(cut, cols) ? cols : Range{};
}

std::vector<Ticket> OrderedSum::Of(int64_t tile) const {
  const TileGroup& group = GroupOf(tile);
  std::vector<Ticket> tickets(static_cast<size_t>(group.steps));
  for (int64_t s = 0; s < group.steps; ++s) {
    Ticket& ticket = tickets[static_cast<size_t>(s)];
    ticket.cols = StepOf(tile, s);
    if (ticket.cols.empty()) continue;
    ticket.last = true;
    for (int64_t n = group.first; n < group.first + group.tiles; ++n) {
      if (n == tile || StepOf(n, s).empty()) continue;
      ticket.before += n < tile ? 1 : 0;
      ticket.last &= n < tile;
    }
  }
  return tickets;
}

void OrderedSum::WaitForSums(const TileGroup& group) const {
  if (group.sums < limits_.in_flight) return;
  const int64_t number =
      summed_[static_cast<size_t>(group.sums - limits_.in_flight)];
  const int64_t tiles = groups_[static_cast<size_t>(number)].tiles;
  const auto& finished = finished_[static_cast<size_t>(number)];
  Await([&] { return finished.load(std::memory_order_acquire) == tiles; });
}

void OrderedSum::Wait(const TileGroup& group, int64_t step,
                      const Ticket& ticket) const {
  const auto& now =
      ordered_sum_[static_cast<size_t>(group.first_ticket + step)];
  Await([&] { return now.load(std::memory_order_acquire) == ticket.before; });
}

void OrderedSum::Pass(const TileGroup& group, int64_t step,
                      const Ticket& ticket) {
  ordered_sum_[static_cast<size_t>(group.first_ticket + step)].store(
      ticket.before + 1, std::memory_order_release);
}

void OrderedSum::Finish(const TileGroup& group) {
  const auto number = static_cast<size_t>(&group - groups_.data());
  finished_[number].fetch_add(1, std::memory_order_release);
}

}  // namespace flashacl::cpu
