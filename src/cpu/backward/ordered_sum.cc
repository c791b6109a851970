// SPDX-License-Identifier: Apache-2.0
// Two counters: tiles that have added to a step, and tiles that are done with a
// head.
#include "cpu/backward/ordered_sum.h"

#include <algorithm>
#include <thread>

#include "cpu/tuning.h"

namespace flashacl::cpu {
namespace {

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
  FindHeads();
  FindUnseen();
  Interleave();
}

void OrderedSum::FindHeads() {
  int64_t counters = 0;
  Tile before;
  for (int64_t n = 0; n < schedule_.count(); ++n) {
    const Tile tile = schedule_.At(n);
    const bool same = n > 0 && tile.sequence == before.sequence &&
                      tile.kv_head == before.kv_head;
    before = tile;
    if (same) {
      HeadTiles& head = heads_.back();
      if (++head.tiles == 2 && head.steps > 0) {
        head.accumulator = static_cast<int64_t>(summed_.size());
        summed_.push_back(static_cast<int64_t>(heads_.size()) - 1);
      }
      continue;
    }
    const int64_t columns =
        sequences_[static_cast<size_t>(tile.sequence)].columns();
    const int64_t size = StepColumns(columns, limits_.step_columns);
    heads_.push_back({.first = n,
                      .tiles = 1,
                      .steps = CeilDiv(columns, size),
                      .step_columns = size,
                      .first_counter = counters});
    counters += heads_.back().steps;
  }
  added_ = RunVector<std::atomic<int32_t>>(static_cast<size_t>(counters));
  finished_ = RunVector<std::atomic<int64_t>>(heads_.size());
}

void OrderedSum::FindUnseen() {
  // Keys of sequences without queries are in no tile.
  for (const Sequence& sequence : sequences_) {
    unseen_ |= sequence.rows() == 0 && sequence.columns() > 0;
  }
  for (const HeadTiles& head : heads_) {
    for (int64_t s = 0; s < head.steps && !unseen_; ++s) {
      bool seen = false;
      for (int64_t n = 0; n < head.tiles && !seen; ++n) {
        seen = !SeenStep(head.first + n, s).empty();
      }
      unseen_ = !seen;
    }
  }
}

// One tile of each of `interleaved` heads, then the next of each, until they
// have no more; then the next heads.
void OrderedSum::Interleave() {
  order_.reserve(static_cast<size_t>(schedule_.count()));
  const auto count = static_cast<int64_t>(heads_.size());
  for (int64_t first = 0; first < count; first += limits_.interleaved) {
    const int64_t last = std::min(first + limits_.interleaved, count);
    for (int64_t n = 0;; ++n) {
      const size_t was = order_.size();
      for (int64_t h = first; h < last; ++h) {
        const HeadTiles& head = heads_[static_cast<size_t>(h)];
        if (n < head.tiles) order_.push_back(head.first + n);
      }
      if (order_.size() == was) break;
    }
  }
}

const HeadTiles& OrderedSum::HeadOf(int64_t tile) const {
  const auto next = std::upper_bound(
      heads_.begin(), heads_.end(), tile,
      [](int64_t n, const HeadTiles& head) { return n < head.first; });
  return *(next - 1);
}

Range OrderedSum::SeenStep(int64_t tile, int64_t step) const {
  const Tile at = schedule_.At(tile);
  const Sequence& sequence = sequences_[static_cast<size_t>(at.sequence)];
  const Band band =
      problem_.mask.BandOf(at.sequence, sequence.rows(), sequence.columns());
  const int64_t size = HeadOf(tile).step_columns;
  const Range cols{step * size,
                   std::min((step + 1) * size, sequence.columns())};
  const int64_t group = problem_.group();
  const Range rows{at.rows.first / group, CeilDiv(at.rows.last, group)};
  return band.Classify(rows, cols) == TileKind::kEmpty ? Range{} : cols;
}

// A band's rows that see a step are neighbours, and so are their tiles: of the
// tiles before this one the first that sees it is found by halves.
Ticket OrderedSum::TicketOf(int64_t tile, int64_t step) const {
  const HeadTiles& head = HeadOf(tile);
  int64_t first = head.first, last = tile;
  while (first < last) {
    const int64_t middle = first + (last - first) / 2;
    if (SeenStep(middle, step).empty()) {
      first = middle + 1;
    } else {
      last = middle;
    }
  }
  const int64_t next = tile + 1;
  return {static_cast<int32_t>(tile - first),
          next == head.first + head.tiles || SeenStep(next, step).empty()};
}

// Spins for a while, as waits are short, then lets others run.
template <typename Ready>
bool OrderedSum::Await(Ready ready) const {
  for (int spins = 0; !ready(); ++spins) {
    if (gave_up_.load(std::memory_order_acquire)) return false;
    if (spins > 64) std::this_thread::yield();
  }
  return true;
}

bool OrderedSum::WaitForAccumulator(const HeadTiles& head) const {
  if (head.accumulator < limits_.in_flight) return true;
  const auto owner = static_cast<size_t>(
      summed_[static_cast<size_t>(head.accumulator - limits_.in_flight)]);
  const int64_t tiles = heads_[owner].tiles;
  return Await([&] {
    return finished_[owner].load(std::memory_order_acquire) == tiles;
  });
}

bool OrderedSum::Wait(const HeadTiles& head, int64_t step,
                      const Ticket& ticket) const {
  const auto& added = added_[static_cast<size_t>(head.first_counter + step)];
  return Await(
      [&] { return added.load(std::memory_order_acquire) == ticket.before; });
}

void OrderedSum::Pass(const HeadTiles& head, int64_t step,
                      const Ticket& ticket) {
  added_[static_cast<size_t>(head.first_counter + step)].store(
      ticket.before + 1, std::memory_order_release);
}

void OrderedSum::Finish(const HeadTiles& head) {
  const auto number = static_cast<size_t>(&head - heads_.data());
  finished_[number].fetch_add(1, std::memory_order_release);
}

}  // namespace flashacl::cpu
