// SPDX-License-Identifier: Apache-2.0
// Fused inference: one operator for prompts and for decode, in every layout.
// Its rows of the table, errors and whatever it shares with the others are in
// inference.h; here is what it alone is told, and the steps of its lowering.
// Errors are kContradiction (561002) unless said otherwise.
#pragma once

#include <cstdint>

#include "acl/executor.h"
#include "ops/inference.h"

namespace flashacl::ops {

struct FusedInferArgs : InferenceArgs {
  const aclIntArray* actualSharedPrefixLen = nullptr;
  int64_t antiquantMode = 0;
  int64_t keyAntiquantMode = 0;
  int64_t valueAntiquantMode = 0;
  int64_t queryQuantMode = 0;
  int64_t pseType = 0;
  bool softmaxLseFlag = false;
  bool any_lengths = false;  // only how many lengths there are counts
};

struct FusedInferCall : InferenceCall {
  const FusedInferArgs& fused;
  TensorSpec query_rope = {};
  TensorSpec key_rope = {};
  TensorSpec key_prefix = {};
  TensorSpec value_prefix = {};
  int64_t prefix = 0;  // keys before every sequence's own

  bool roped() const { return has(kQueryRope); }
  // INT8 queries of latent decode, with a scale per row and head; else INT8
  // queries are those of a prompt.
  bool query_scaled_by_row() const {
    return int8() && (fused.queryQuantMode != 0 || has(kDequantScaleQuery));
  }
  // BSH, BSND, BNSD and BNSD_BSND, with which most of the rest goes; or packed.
  bool has_plain_results() const {
    return out_layout.name == layout.name ||
           (Is(kBnsd) && out_layout.name == kBsnd.name);
  }
  // Keys and values are INT4, eight to a word.
  bool int4() const { return cache.key.dtype == DType::kI4x8; }
  // What masks and biases count in columns.
  int64_t mask_columns() const;
};

// What every version's phase 1 does.
Result<acl::Lowered> LowerFusedInfer(const acl::Arguments& arguments,
                                     const FusedInferArgs& args);

// inputLayout, whole.
Status ReadFusedLayout(FusedInferCall& call);

// Query, its rope and heads.
Status ReadFusedQuery(FusedInferCall& call);

// Keys and values in one tensor, a list or pages, their rope and prefix; then
// also whether the call is decode.
Status ReadFusedKeys(FusedInferCall& call);

// Sequences, and left padding.
Status ReadFusedLengths(FusedInferCall& call);

// Sparse mode, mask and bias.
Status LowerFusedMask(const FusedInferCall& call, acl::Lowered& lowered);

// Scales of keys, values, results and inputs of 8 bits.
Status LowerFusedScales(const FusedInferCall& call, acl::Lowered& lowered);

// Those of an INT8 query that is scaled by row, and of its keys and values.
Status LowerScaledQuery(const FusedInferCall& call, acl::Lowered& lowered);

// attentionOut and softmaxLse: shapes and places.
Status LowerFusedResults(const FusedInferCall& call, acl::Lowered& lowered);

// What the NPU's documents do not list, though it is computed. Strict mode
// only.
Status CheckFusedStrictly(const FusedInferCall& call);

// A problem that only clears the results: no sequence owns any of their rows.
acl::Lowered WithoutKeys(const FusedInferCall& call);

}  // namespace flashacl::ops
