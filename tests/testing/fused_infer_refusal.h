// SPDX-License-Identifier: Apache-2.0
// Changes that make a call of aclnnFusedInferAttentionScore one to refuse.
#pragma once

#include <utility>
#include <vector>

#include "tests/testing/fused_infer_call.h"
#include "tests/testing/refusal.h"

namespace flashacl::testing::fused {

inline constexpr aclnnStatus kContradiction = 561002;

using C = FusedInferCall;
using Refusals = std::vector<Refusal<C>>;

inline Change<C> Keys(Form key, Form value) {
  return [=](C& c) {
    c.keys = {c.caller.Input(key)};
    c.values = {c.caller.Input(value)};
  };
}

inline Change<C> Keys(std::vector<int64_t> dims) {
  return Keys({.dims = dims}, {.dims = dims});
}

inline Change<C> Array(const aclIntArray* C::*member,
                       std::vector<int64_t> values) {
  return [=](C& c) { c.*member = c.caller.Array(values); };
}

inline Change<C> Rows(std::vector<int64_t> values) {
  return Array(&C::lengths, std::move(values));
}

inline Change<C> Columns(std::vector<int64_t> values) {
  return Array(&C::kv_lengths, std::move(values));
}

inline FusedInferCase Packed() {
  return {.layout = "TND", .lengths = {2, 1}, .kv_lengths = {3, 2}};
}

inline Change<C> Mask(std::vector<int64_t> dims) {
  return Formed(&C::mask, {.type = ACL_BOOL, .dims = std::move(dims)});
}

inline Change<C> Bias(std::vector<int64_t> dims) {
  return Formed(&C::pse, {.dims = std::move(dims)});
}

inline Change<C> Mode(int64_t mode) { return Set(&C::sparse_mode, mode); }

inline Change<C> Tokens(int64_t pre, int64_t next) {
  return [=](C& c) {
    c.pre_tokens = pre;
    c.next_tokens = next;
  };
}

inline FusedInferCase Paged() {
  return {.columns = 64,
          .kv_lengths = {40, 3},
          .keys = FusedKeys::kPagesOfRows,
          .block_size = 32};
}

}  // namespace flashacl::testing::fused
