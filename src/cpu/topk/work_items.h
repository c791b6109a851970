// SPDX-License-Identifier: Apache-2.0
// Positions as items of work over listed keys, by number.
#pragma once

#include <cstdint>
#include <span>

#include "base/run_memory.h"
#include "cpu/topk/index_lists.h"
#include "problem/attention_problem.h"

namespace flashacl::cpu {

struct WorkItem {
  ListOwner owner;
  Range rows;  // packed, of its sequence and kv head
};

// Sequence by sequence, kv head by kv head, the last positions first: with a
// causal mask they see most.
class WorkItems {
 public:
  // Of at most `heads` heads each.
  WorkItems(const AttentionProblem& problem,
            std::span<const Sequence> sequences, int64_t heads);

  int64_t count() const { return first_.back(); }
  WorkItem At(int64_t number) const;

 private:
  int64_t kv_heads_;
  int64_t group_;
  int64_t heads_;
  int64_t items_per_list_;
  RunVector<int64_t> first_;  // item of every sequence, and the count
};

}  // namespace flashacl::cpu
