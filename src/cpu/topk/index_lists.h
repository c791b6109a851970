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

// The most keys that any position may list: an index of a list names several.
// Each is counted as often as it is listed, whether or not the position sees
// it.
int64_t MaxListedKeys(const AttentionProblem& problem);

// Whose list.
struct ListOwner {
  int64_t sequence = 0;
  int64_t kv_head = 0;
  int64_t position = 0;  // of the query, in its sequence
};

// The keys that the mask lets its owner see.
int64_t SeenKeys(const AttentionProblem& problem, const ListOwner& owner);

class IndexLists {
 public:
  IndexLists() = default;
  // Bindings must outlive the lists; the problem need not.
  IndexLists(const AttentionProblem& problem, const Bindings& bindings);

  // Writes the columns that these of the owner's listed keys name, that exist
  // and that `band` lets it see, in the order of the list, and returns how many
  // they are: at most listed_keys.size(). A negative index ends the list.
  int64_t Fill(const ListOwner& owner, const Sequence& extent, const Band& band,
               const KvRows& keys, Range listed_keys, int64_t* columns) const;

 private:
  TensorSpec spec_;
  const std::byte* base_ = nullptr;
  int64_t gather_rows_ = 1;
  int64_t keys_per_index_ = 1;
};

}  // namespace flashacl::cpu
