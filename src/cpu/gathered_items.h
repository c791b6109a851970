// SPDX-License-Identifier: Apache-2.0
// Positions as items of work over gathered keys, by number.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "cpu/gathered_columns.h"
#include "plan/backend.h"
#include "problem/attention_problem.h"

namespace flashacl::cpu {

// Ok, or what of the problem no kernel over gathered keys takes.
Status SupportsLists(const AttentionProblem& problem);

struct GatheredItem {
  ListOwner owner;
  Range rows;  // packed, of its sequence and kv head
};

// Sequence by sequence, kv head by kv head, the last positions first: with a
// causal mask they see most.
class GatheredItems {
 public:
  // Of at most `rows` heads each.
  GatheredItems(const AttentionProblem& problem,
                std::span<const Sequence> sequences, int64_t rows);

  int64_t count() const { return first_.back(); }
  GatheredItem At(int64_t number) const;

 private:
  int64_t kv_heads_;
  int64_t group_;
  int64_t rows_;
  int64_t shares_;              // items of one position and kv head
  std::vector<int64_t> first_;  // item of every sequence, and the count
};

// Calls work(slot, take) on as many workers as there are slots; take() hands
// out the numbers in [0, count), then `count`.
template <typename Work>
void ForEachSlot(Workers& workers, int64_t slots, int64_t count, Work work) {
  std::atomic<int64_t> next{0};
  workers.ForEach(std::min(slots, count), [&](int64_t slot) {
    work(slot, [&] { return std::min(next++, count); });
  });
}

}  // namespace flashacl::cpu
