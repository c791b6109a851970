// SPDX-License-Identifier: Apache-2.0
// Numbers to positions.
#include "cpu/topk/work_items.h"

#include <algorithm>

namespace flashacl::cpu {

WorkItems::WorkItems(const AttentionProblem& problem,
                     std::span<const Sequence> sequences, int64_t heads)
    : kv_heads_(problem.kv_heads),
      group_(problem.group()),
      heads_(heads),
      items_per_list_(CeilDiv(group_, std::max<int64_t>(heads, 1))) {
  first_.push_back(0);
  for (const Sequence& sequence : sequences) {
    first_.push_back(first_.back() +
                     sequence.rows() * kv_heads_ * items_per_list_);
  }
}

WorkItem WorkItems::At(int64_t number) const {
  const auto next = std::upper_bound(first_.begin(), first_.end(), number);
  const int64_t first = next[-1];
  const int64_t lists = (*next - first) / items_per_list_;
  const int64_t positions = lists / kv_heads_;
  const int64_t list = (number - first) / items_per_list_;
  const int64_t head = (number - first) % items_per_list_ * heads_;
  const int64_t position = positions - 1 - list % positions;
  const int64_t row = position * group_;
  return {.owner = {next - first_.begin() - 1, list / positions, position},
          .rows = {row + head, row + std::min(head + heads_, group_)}};
}

}  // namespace flashacl::cpu
