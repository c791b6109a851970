// SPDX-License-Identifier: Apache-2.0
// The columns that top-k lists name: what a position may attend to.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/range.h"
#include "cpu/kv_rows.h"
#include "plan/bindings.h"
#include "problem/attention_problem.h"
#include "problem/band.h"

namespace flashacl::cpu {

// The most columns any position may list, each counted as often as it is
// listed, with those it does not see. They are its listed keys: an index of a
// list stands for several.
int64_t MaxListedKeys(const AttentionProblem& problem);

// Whose list, and what hides columns from it.
struct ListOwner {
  int64_t sequence = 0;
  int64_t kv_head = 0;
  int64_t position = 0;  // of the query, in its sequence
};

class IndexLists {
 public:
  IndexLists() = default;
  // Bindings must outlive the lists; the problem need not.
  IndexLists(const AttentionProblem& problem, const Bindings& bindings);

  // Writes the columns that `listed keys` of the owner's list name, that exist
  // and that `band` lets it see, in the order of the list, and returns how many
  // they are: at most listed keys.size(). What follows a negative index is not
  // there.
  int64_t Fill(const ListOwner& owner, const Sequence& extent, const Band& band,
               const KvRows& keys, Range listed_keys, int64_t* columns) const;

 private:
  int64_t IndexAt(int64_t offset) const;

  TensorSpec spec_;
  const std::byte* base_ = nullptr;
  int64_t gather_rows_ = 1;
  int64_t keys_per_index = 1;  // listed keys of one index
};

}  // namespace flashacl::cpu
