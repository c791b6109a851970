// SPDX-License-Identifier: Apache-2.0
// The adapter's attention without the adapter's code around it: what it makes
// for each call anew takes longer than attention of one row. Calls that are out
// of the ordinary, and those that the library refuses, stay the adapter's, with
// its checks and its messages. Each function puts kernels over the adapter's,
// where those have the parameters that are known here.
#pragma once

namespace flashacl::bridge {

// npu_fusion_attention, npu_fusion_attention_v2.
void RegisterFusedAttention();

// npu_fusion_attention_grad.
void RegisterFusedGradient();

// npu_fused_infer_attention_score, npu_prompt_flash_attention,
// npu_incre_flash_attention.
void RegisterFusedInference();

}  // namespace flashacl::bridge
