// SPDX-License-Identifier: Apache-2.0
// The calls of prefill and decode, all versions.
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

}  // namespace

std::vector<OperatorCall> InferenceOperatorCalls() {
  return {Prefill(1), Decode(4), Prefill(2), Prefill(3),
          Decode(1),  Decode(2), Decode(3)};
}

}  // namespace flashacl::testing
