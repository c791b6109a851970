// SPDX-License-Identifier: Apache-2.0
// Heads and extents of inference, and its tensors' places in a problem.
#include "ops/inference.h"

#include <algorithm>
#include <utility>

namespace flashacl::ops {

bool StartsWith(const char* text, std::string_view prefix) {
  for (const char expected : prefix) {
    if (*text++ != expected) return false;
  }
  return true;
}

bool Equals(const char* text, std::string_view whole) {
  return StartsWith(text, whole) && text[whole.size()] == '\0';
}

Result<int64_t> KeyHeads(int64_t num_heads, int64_t num_key_value_heads,
                         int64_t most_group) {
  const int64_t kv_heads =
      num_key_value_heads == 0 ? num_heads : num_key_value_heads;
  if (num_heads > kMaxHeads) {
    return Contradiction("numHeads: {}, expected at most {}", num_heads,
                         kMaxHeads);
  }
  if (kv_heads < 0 || num_heads % kv_heads != 0) {
    return Contradiction(
        "numKeyValueHeads: {} does not divide numHeads {} evenly", kv_heads,
        num_heads);
  }
  if (num_heads / kv_heads > most_group) {
    return Contradiction(
        "numKeyValueHeads: {} query heads share {} key heads, expected at most "
        "{} to one",
        num_heads, kv_heads, most_group);
  }
  return kv_heads;
}

Status CheckExtents(std::string_view name, const TensorSpec& spec,
                    const Expected& expected) {
  struct Axis {
    std::string_view what;
    int64_t expected;
  };
  const Axis axes[] = {{"sequences", expected.sequences},
                       {"rows", expected.rows},
                       {"heads", expected.heads},
                       {"channels per head", expected.dim}};
  for (size_t axis = 0; axis < 4; ++axis) {
    const int64_t wanted = axes[axis].expected;
    const int64_t given = axis == 3 ? spec.channels() : spec.dims[axis];
    if (wanted < 0 || given == wanted) continue;
    return Contradiction("{}: {} {}, expected {}", name, given, axes[axis].what,
                         wanted);
  }
  return {};
}

HeadTerms HeadTermsOf(const InferenceCall& call) {
  return {.num_heads = call.args.numHeads,
          .num_key_value_heads = call.args.numKeyValueHeads,
          .dim = call.query.dims[3],
          .folded = call.layout.folded_heads};
}

bool SameShape(const acl::Tensor& a, const acl::Tensor& b) {
  return std::ranges::equal(a.shape(), b.shape());
}

void PlaceQuery(const InferenceCall& call, acl::Lowered& lowered) {
  AttentionProblem& problem = lowered.problem;
  problem.heads = call.args.numHeads;
  problem.kv_heads = call.kv_heads;
  problem.qk_dim = call.query.dims[3];
  problem.v_dim = call.v_dim();
  problem.lengths.sequences = call.sequences;
  problem.score.scale = static_cast<float>(call.args.scaleValue);
  problem[Slot::kQuery] = call.query;
  // Odd: high performance; 2 and 3 say what else rows are that see nothing.
  const bool quantised = IsQuantised(call.cache.key.dtype);
  problem.score.half_probs = call.args.innerPrecise % 2 == 1 &&
                             (call.query.dtype == DType::kBf16 ||
                              (call.query.dtype == DType::kF16 && quantised));
  lowered.Bind(call.arguments, InferenceCall::kQuery, Slot::kQuery);
}

void PlaceKeys(const InferenceCall& call, acl::Lowered& lowered) {
  using Call = InferenceCall;
  AttentionProblem& problem = lowered.problem;
  problem.kv = call.cache.source;
  problem[Slot::kKey] = call.cache.key;
  problem[Slot::kValue] = call.cache.value;
  for (const auto& [row, slot] : {std::pair{Call::kKey, Slot::kKey},
                                  std::pair{Call::kValue, Slot::kValue}}) {
    if (problem.kv.rows == KvSource::Rows::kList) {
      lowered.BindList(call.arguments, row, slot);
      continue;
    }
    const int64_t offset = call.arguments.given(row)->offset_bytes();
    lowered.uses.push_back({row, 0, slot, false, offset});
  }
  if (call.paged()) {
    problem[Slot::kBlockTable] = call.cache.block_table;
    lowered.Bind(call.arguments, Call::kBlockTable, Slot::kBlockTable);
  }
  if (call.queries_left_padded) {
    problem[Slot::kQueryPadding] = DenseSpec(DType::kI64, {1, 1, 1, 1});
    lowered.Bind(call.arguments, Call::kQueryPadding, Slot::kQueryPadding);
  }
  if (call.left_padded) {
    problem[Slot::kKeyPadding] = DenseSpec(DType::kI64, {1, 1, 1, 1});
    lowered.Bind(call.arguments, Call::kKvPadding, Slot::kKeyPadding);
  }
}

}  // namespace flashacl::ops
