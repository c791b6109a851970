// SPDX-License-Identifier: Apache-2.0
// Where keys and values are: in one tensor, in a list with a tensor
// per sequence, or in pages that a table lists.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "acl/arguments.h"
#include "base/status.h"
#include "ops/canonical.h"
#include "problem/kv_source.h"
#include "problem/tensor_spec.h"

namespace flashacl::ops {

// What a call says about its heads, and what follows of query.
struct HeadTerms {
  int64_t num_heads = 0;
  int64_t num_key_value_heads = 0;  // as given: 0 is as many as heads
  int64_t dim = 0;
  bool folded = false;  // query's last axis is head * channel
};

// kContradiction unless `spec`, which is `key` in canonical order, has query's
// channels per head. `folded`: so is key's last axis. Where a wrong number of
// heads may be to blame, the message has the division by it.
Status CheckKeyDim(const acl::Tensor& key, const TensorSpec& spec, bool folded,
                   const HeadTerms& heads);

// What a call says about its keys and values besides the tensors.
struct CacheTerms {
  Layout layout;
  int64_t sequences = 0;
  int64_t kv_heads = 0;
  HeadTerms heads = {};
  const acl::Tensor* block_table = nullptr;  // null: no pages
  int64_t block_size = 0;
};

struct Cache {
  KvSource source;
  TensorSpec key;
  TensorSpec value;
  TensorSpec block_table;
  int64_t max_columns = 0;       // what a sequence has room for
  std::vector<int64_t> columns;  // the same of each one, where they differ

  int64_t Room(size_t sequence) const {
    return columns.empty() ? max_columns : columns[sequence];
  }
};

// kContradiction, with the argument's name, if the tensors do not fit the terms
// or each other. `keys` and `values` are as the caller listed them.
Result<Cache> ReadCache(std::span<const acl::Entry> keys,
                        std::span<const acl::Entry> values,
                        const CacheTerms& terms);

}  // namespace flashacl::ops
