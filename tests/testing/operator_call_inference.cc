// SPDX-License-Identifier: Apache-2.0
// The calls of prefill, decode and both in one, all versions.
#include "tests/testing/operator_call.h"

namespace flashacl::testing {
namespace {

// Without tensors in [first, last), which the version lacks.
void Remove(OperatorCall& call, int first, int last) {
  auto& tensors = call.tensors;
  tensors.erase(tensors.begin() + first, tensors.begin() + last);
  call.first_output = tensors.size() - 1;
}

OperatorCall Prefill(int version) {
  OperatorCall call{
      .name = "aclnnPromptFlashAttentionV3",
      .tensors =
          {
              {{2, 4, 3, 8}, ACL_FLOAT16},  // query
              {{2, 2, 5, 8}, ACL_FLOAT16},  // key
              {{2, 2, 5, 8}, ACL_FLOAT16},  // value
              {{2, 4, 3, 5}, ACL_FLOAT16},  // pseShift
              {{2, 1, 3, 5}, ACL_BOOL},     // attenMask
              {{1}, ACL_FLOAT, false},      // deqScale1
              {{1}, ACL_FLOAT, false},      // quantScale1
              {{1}, ACL_FLOAT, false},      // deqScale2
              {{1}, ACL_FLOAT},             // quantScale2
              {{1}, ACL_FLOAT},             // quantOffset2
              {{2, 4, 3, 8}, ACL_INT8},     // attentionOut
          },
      .arrays = {{{2, 3}}, {{5, 4}}},
      .reals = {0.5},
      .integers = {4, 5, 5, 2, 0, 1},
      .texts = {"BNSD"},
      .first_output = 10,
  };
  if (version == 3) return call;
  call.name = "aclnnPromptFlashAttentionV2";
  call.integers = {4, 5, 5, 2, 0};
  if (version == 2) return call;
  call.name = "aclnnPromptFlashAttention";
  call.arrays = {{{2, 3}}};
  call.integers = {4, 5, 5, 2};
  Remove(call, 5, 10);  // scales
  call.tensors.back().type = ACL_FLOAT16;
  return call;
}

OperatorCall Decode(int version) {
  OperatorCall call{
      .name = "aclnnIncreFlashAttentionV4",
      .tensors =
          {
              {{2, 4, 1, 8}, ACL_FLOAT16},    // query
              {{4, 16, 2 * 8}, ACL_FLOAT16},  // key, in pages
              {{4, 16, 2 * 8}, ACL_FLOAT16},  // value, in pages
              {{2, 4, 1, 32}, ACL_FLOAT16},   // pseShift
              {{2, 32}, ACL_INT8},            // attenMask
              {{1}, ACL_FLOAT, false},        // dequantScale1
              {{1}, ACL_FLOAT, false},        // quantScale1
              {{1}, ACL_FLOAT, false},        // dequantScale2
              {{32}, ACL_FLOAT},              // quantScale2
              {{32}, ACL_FLOAT},              // quantOffset2
              {{2, 16}, ACL_FLOAT16, false},  // antiquantScale
              {{2, 16}, ACL_FLOAT16, false},  // antiquantOffset
              {{2, 2}, ACL_INT32},            // blocktable
              {{1}, ACL_INT64},               // kvPaddingSize
              {{2, 4, 1, 8}, ACL_INT8},       // attentionOut
          },
      .arrays = {{{20, 32}}},
      .reals = {0.5},
      .integers = {4, 2, 16, 1},
      .texts = {"BNSD"},
      .first_output = 14,
  };
  call.tensors[1].list = call.tensors[2].list = true;
  if (version == 4) return call;
  call.name = "aclnnIncreFlashAttentionV3";
  Remove(call, 13, 14);  // kvPaddingSize
  if (version == 3) return call;
  call.name = "aclnnIncreFlashAttentionV2";
  Remove(call, 10, 13);  // antiquant tensors, blocktable
  call.tensors[1].dims = call.tensors[2].dims = {2, 2, 32, 8};
  call.integers = {4, 2};
  if (version == 2) return call;
  call.name = "aclnnIncreFlashAttention";
  Remove(call, 5, 10);  // scales
  call.tensors.back().type = ACL_FLOAT16;
  return call;
}

// Tensors that every version has before those of its results.
std::vector<TensorArgument> FusedInputs(const TensorArgument& query,
                                        const TensorArgument& key,
                                        const TensorArgument& pse,
                                        const TensorArgument& mask) {
  const TensorArgument none{{1}, ACL_FLOAT, false};
  std::vector<TensorArgument> tensors{query, key, key, pse, mask};
  // deqScale1, quantScale1, deqScale2, quantScale2, quantOffset2,
  // antiquantScale, antiquantOffset, blockTable, queryPaddingSize,
  // kvPaddingSize
  tensors.insert(tensors.end(), 10, none);
  tensors[1].list = tensors[2].list = true;
  return tensors;
}

void Append(OperatorCall& call, const std::vector<TensorArgument>& tensors) {
  call.tensors.insert(call.tensors.end(), tensors.begin(), tensors.end());
}

// Prefill of INT8 keys between two paddings.
OperatorCall FusedPadded() {
  OperatorCall call{
      .name = "aclnnFusedInferAttentionScore",
      .tensors = FusedInputs({{2, 4, 3, 8}}, {{2, 2, 5, 8}, ACL_INT8},
                             {{2, 4, 3, 5}}, {{2, 1, 3, 5}, ACL_BOOL}),
      .arrays = {{{2, 3}}, {{5, 4}}},
      .reals = {0.5},
      .integers = {4, 5, 5, 2, 0, 1, 0, 0, 1},
      .texts = {"BNSD"},
      .first_output = 15,
  };
  call.tensors[10] = {{2, 16}};         // antiquantScale
  call.tensors[11] = {{2, 16}};         // antiquantOffset
  call.tensors[13] = {{1}, ACL_INT64};  // queryPaddingSize
  call.tensors[14] = {{1}, ACL_INT64};  // kvPaddingSize
  Append(call, {{{2, 4, 3, 8}}, {{2, 4, 3, 1}, ACL_FLOAT}});
  return call;
}

// Decode of a list of INT4 after a prefix.
OperatorCall FusedPrefix() {
  const TensorArgument none{{1}, ACL_FLOAT16, false};
  const TensorArgument prefix{{1, 2, 2}, ACL_INT32};
  OperatorCall call{
      .name = "aclnnFusedInferAttentionScoreV2",
      .tensors = FusedInputs({{2, 1, 32}}, {{1, 5, 2}, ACL_INT32},
                             {{1, 4, 1, 7}}, {{2, 7}, ACL_UINT8}),
      .arrays = {{{1}}, {{5, 4}}, {{2}}},
      .reals = {0.5},
      .integers = {4, 5, 5, 2, 0, 1, 0, 0, 1, 0, 0},
      .texts = {"BSH"},
      .first_output = 21,
  };
  call.tensors[1].members = call.tensors[2].members = 2;
  Append(call, {{{16}}, none, {{16}}, none});  // key and value scales
  Append(call, {prefix, prefix});
  Append(call, {{{2, 1, 32}}, {{2, 4, 1, 1}, ACL_FLOAT}});
  return call;
}

// Packed rows over pages, with rope; from V4 on with a sink, and queries and
// keys of 8 bits.
OperatorCall FusedRope(int version) {
  const TensorArgument none{{1}, ACL_FLOAT16, false};
  OperatorCall call{
      .name = version == 3 ? "aclnnFusedInferAttentionScoreV3"
                           : "aclnnFusedInferAttentionScoreV4",
      .tensors = FusedInputs(
          {{3, 4, 8}}, {{4, 16, 16}}, none,
          {.dims = {2048, 2048}, .type = ACL_INT8, .strides = {0, 0}}),
      .arrays = {{{1, 3}}, {{20, 32}}, std::nullopt},
      .reals = {0.5},
      .integers = {4, 5, 5, 2, 3, 1, 16, 0, 1, 0, 0},
      .texts = {version == 3 ? "TND_NTD" : "TND"},
      .first_output = 24,
  };
  call.tensors[12] = {{2, 2}, ACL_INT32};  // blockTable
  call.tensors.insert(call.tensors.end(), 6, none);
  Append(call, {{{3, 4, 4}}, {{4, 16, 8}}, none});  // rope
  if (version == 3) {
    Append(call, {{{4, 3, 8}}, {{3, 4, 1}, ACL_FLOAT}});
    return call;
  }
  for (const size_t n : {0, 1, 2}) call.tensors[n].type = ACL_INT8;
  for (const size_t n : {15, 17}) call.tensors[n] = {{1}, ACL_FLOAT};  // scales
  for (const size_t n : {21, 22}) call.tensors[n].type = ACL_BF16;     // rope
  Append(call, {{{3, 4}, ACL_FLOAT}, {{4}, ACL_BF16}});  // of queries; sinks
  Append(call, {{{3, 4, 8}, ACL_BF16}, {{3, 4, 1}, ACL_FLOAT}});
  call.integers.push_back(3);  // queryQuantMode
  call.first_output = 26;
  return call;
}

// All that goes together.
OperatorCall FusedNewest() {
  const TensorArgument none{{1}, ACL_FLOAT16, false};
  OperatorCall call{
      .name = "aclnnFusedInferAttentionScoreV5",
      .tensors = FusedInputs({{2, 3, 4, 8}}, {{2, 5, 2, 8}, ACL_INT8},
                             {{2, 4, 3, 7}}, {{2, 3, 7}, ACL_BOOL}),
      .arrays = {{{2, 3}}, {{5, 4}}, {{2}}, {{0}}, {{0}}},
      .reals = {0.5},
      .integers = {4, 5, 5, 2, 0, 1, 0, 0, 1, 0, 0, 0, 0},
      .texts = {"BSND"},
      .first_output = 26,
  };
  call.tensors[8] = {{1}, ACL_FLOAT};                  // quantScale2
  call.tensors[9] = {{1}, ACL_FLOAT};                  // quantOffset2
  call.tensors.insert(call.tensors.end(), 4, {{16}});  // of keys and values
  call.tensors.insert(call.tensors.end(), 2, {{1, 2, 2, 8}, ACL_INT8});
  Append(call, {none, none, none, {{2, 3, 4}, ACL_FLOAT, false}, {{4}}});
  Append(call, {{{2, 3, 4, 8}, ACL_INT8}, {{2, 4, 3, 1}, ACL_FLOAT}});
  call.tensors[25].type = ACL_BF16;  // learnableSink
  return call;
}

}  // namespace

std::vector<OperatorCall> InferenceOperatorCalls() {
  return {Prefill(1),    Decode(4),    Prefill(2),   Prefill(3),
          Decode(1),     Decode(2),    Decode(3),    FusedPadded(),
          FusedPrefix(), FusedRope(3), FusedRope(4), FusedNewest()};
}

}  // namespace flashacl::testing
