// SPDX-License-Identifier: Apache-2.0
// Numbers to positions.
#include "cpu/topk/work_items.h"

#include <algorithm>

namespace flashacl::cpu {

WorkItems::WorkItems(const AttentionProblem& problem,
                     std::span<const Sequence> sequences, int64_t rows)
    : kv_heads_(problem.kv_heads),
      group_(problem.group()),
      rows_(rows),
      shares_(CeilDiv(group_, std::max<int64_t>(rows, 1))) {
  first_.push_back(0);
  for (const Sequence& sequence : sequences) {
    first_.push_back(first_.back() + sequence.rows() * kv_heads_ * shares_);
  }
}

WorkItem WorkItems::At(int64_t number) const {
  const auto behind =
      std::upper_bound(first_.begin(), first_.end(), number) - 1;
  const int64_t sequence = behind - first_.begin();
  const int64_t positions = (behind[1] - behind[0]) / (kv_heads_ * shares_);
  const int64_t local = number - *behind;
  const int64_t share = local % shares_;
  const int64_t ticket = local / shares_ % positions;
  WorkItem item;
  item.owner = {sequence, local / (shares_ * positions),
                positions - 1 - ticket};
  const int64_t first = item.owner.position * group_;
  item.rows = {first + share * rows_,
               first + std::min((share + 1) * rows_, group_)};
  return item;
}

}  // namespace flashacl::cpu
