// SPDX-License-Identifier: Apache-2.0
// The calls of prefill and decode, all versions.
#include "aclnnop/aclnn_incre_flash_attention.h"
#include "aclnnop/aclnn_incre_flash_attention_v2.h"
#include "aclnnop/aclnn_incre_flash_attention_v3.h"
#include "aclnnop/aclnn_incre_flash_attention_v4.h"
#include "aclnnop/aclnn_prompt_flash_attention.h"
#include "aclnnop/aclnn_prompt_flash_attention_v2.h"
#include "aclnnop/aclnn_prompt_flash_attention_v3.h"
#include "tests/testing/call_handles.h"

namespace flashacl::testing {
namespace {

std::vector<TensorArgument> PrefillTensors() {
  return {
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
  };
}

// Without those in [first, last), which the version lacks.
void Remove(std::vector<TensorArgument>& tensors, int first, int last) {
  tensors.erase(tensors.begin() + first, tensors.begin() + last);
}

OperatorCall PrefillV2() {
  return {
      .name = "aclnnPromptFlashAttentionV2",
      .tensors = PrefillTensors(),
      .arrays = {{{2, 3}}, {{5, 4}}},
      .reals = {0.5},
      .integers = {4, 5, 5, 2, 0},
      .texts = {"BNSD"},
      .first_output = 10,
      .prepare =
          [](const OperatorCall& c, const CallHandles& h, uint64_t* size,
             aclOpExecutor** executor) {
            const auto& t = h.tensors;
            return aclnnPromptFlashAttentionV2GetWorkspaceSize(
                t[0], t[1], t[2], t[3], t[4], h.arrays[0], h.arrays[1], t[5],
                t[6], t[7], t[8], t[9], c.integers[0], c.reals[0],
                c.integers[1], c.integers[2], h.Text(0), c.integers[3],
                c.integers[4], t[10], size, executor);
          },
      .launch = aclnnPromptFlashAttentionV2,
  };
}

OperatorCall PrefillV3() {
  return {
      .name = "aclnnPromptFlashAttentionV3",
      .tensors = PrefillTensors(),
      .arrays = {{{2, 3}}, {{5, 4}}},
      .reals = {0.5},
      .integers = {4, 5, 5, 2, 0, 1},
      .texts = {"BNSD"},
      .first_output = 10,
      .prepare =
          [](const OperatorCall& c, const CallHandles& h, uint64_t* size,
             aclOpExecutor** executor) {
            const auto& t = h.tensors;
            return aclnnPromptFlashAttentionV3GetWorkspaceSize(
                t[0], t[1], t[2], t[3], t[4], h.arrays[0], h.arrays[1], t[5],
                t[6], t[7], t[8], t[9], c.integers[0], c.reals[0],
                c.integers[1], c.integers[2], h.Text(0), c.integers[3],
                c.integers[4], c.integers[5], t[10], size, executor);
          },
      .launch = aclnnPromptFlashAttentionV3,
  };
}

// The last version's, without what the given one lacks.
OperatorCall DecodeBefore(int version) {
  OperatorCall call = Decode();
  Remove(call.tensors, 13, 14);  // kvPaddingSize
  if (version < 3) {
    Remove(call.tensors, 10, 13);  // antiquant tensors, blocktable
    call.tensors[1].dims = call.tensors[2].dims = {2, 2, 32, 8};
    call.integers = {4, 2};
  }
  if (version < 2) {
    Remove(call.tensors, 5, 10);  // scales
    call.tensors.back().type = ACL_FLOAT16;
  }
  call.first_output = call.tensors.size() - 1;
  return call;
}

OperatorCall DecodeV1() {
  OperatorCall call = DecodeBefore(1);
  call.name = "aclnnIncreFlashAttention";
  call.prepare = [](const OperatorCall& c, const CallHandles& h, uint64_t* size,
                    aclOpExecutor** executor) {
    const auto& t = h.tensors;
    return aclnnIncreFlashAttentionGetWorkspaceSize(
        t[0], h.List(1), h.List(2), t[3], t[4], h.arrays[0], c.integers[0],
        c.reals[0], h.Text(0), c.integers[1], t[5], size, executor);
  };
  call.launch = aclnnIncreFlashAttention;
  return call;
}

OperatorCall DecodeV2() {
  OperatorCall call = DecodeBefore(2);
  call.name = "aclnnIncreFlashAttentionV2";
  call.prepare = [](const OperatorCall& c, const CallHandles& h, uint64_t* size,
                    aclOpExecutor** executor) {
    const auto& t = h.tensors;
    return aclnnIncreFlashAttentionV2GetWorkspaceSize(
        t[0], h.List(1), h.List(2), t[3], t[4], h.arrays[0], t[5], t[6], t[7],
        t[8], t[9], c.integers[0], c.reals[0], h.Text(0), c.integers[1], t[10],
        size, executor);
  };
  call.launch = aclnnIncreFlashAttentionV2;
  return call;
}

OperatorCall DecodeV3() {
  OperatorCall call = DecodeBefore(3);
  call.name = "aclnnIncreFlashAttentionV3";
  call.prepare = [](const OperatorCall& c, const CallHandles& h, uint64_t* size,
                    aclOpExecutor** executor) {
    const auto& t = h.tensors;
    return aclnnIncreFlashAttentionV3GetWorkspaceSize(
        t[0], h.List(1), h.List(2), t[3], t[4], h.arrays[0], t[5], t[6], t[7],
        t[8], t[9], t[10], t[11], t[12], c.integers[0], c.reals[0], h.Text(0),
        c.integers[1], c.integers[2], c.integers[3], t[13], size, executor);
  };
  call.launch = aclnnIncreFlashAttentionV3;
  return call;
}

}  // namespace

OperatorCall Prefill() {
  OperatorCall call{
      .name = "aclnnPromptFlashAttention",
      .tensors = PrefillTensors(),
      .arrays = {{{2, 3}}},
      .reals = {0.5},
      .integers = {4, 5, 5, 2},
      .texts = {"BNSD"},
      .first_output = 5,
      .prepare =
          [](const OperatorCall& c, const CallHandles& h, uint64_t* size,
             aclOpExecutor** executor) {
            const auto& t = h.tensors;
            return aclnnPromptFlashAttentionGetWorkspaceSize(
                t[0], t[1], t[2], t[3], t[4], h.arrays[0], c.integers[0],
                c.reals[0], c.integers[1], c.integers[2], h.Text(0),
                c.integers[3], t[5], size, executor);
          },
      .launch = aclnnPromptFlashAttention,
  };
  Remove(call.tensors, 5, 10);  // scales
  call.tensors.back().type = ACL_FLOAT16;
  return call;
}

OperatorCall Decode() {
  return {
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
      .prepare =
          [](const OperatorCall& c, const CallHandles& h, uint64_t* size,
             aclOpExecutor** executor) {
            const auto& t = h.tensors;
            return aclnnIncreFlashAttentionV4GetWorkspaceSize(
                t[0], h.List(1), h.List(2), t[3], t[4], h.arrays[0], t[5], t[6],
                t[7], t[8], t[9], t[10], t[11], t[12], t[13], c.integers[0],
                c.reals[0], h.Text(0), c.integers[1], c.integers[2],
                c.integers[3], t[14], size, executor);
          },
      .launch = aclnnIncreFlashAttentionV4,
  };
}

std::vector<OperatorCall> OtherInferenceCalls() {
  return {PrefillV2(), PrefillV3(), DecodeV1(), DecodeV2(), DecodeV3()};
}

}  // namespace flashacl::testing
