// SPDX-License-Identifier: Apache-2.0
// Attention backward for training, in all versions. The operators' files name
// their arguments and call Plan.
#pragma once

#include <cstdint>

#include "acl/executor.h"
#include "aclnn/acl_meta.h"
#include "ops/training_gradients.h"

namespace flashacl::ops::backward {

// The tensors of one call; null for what its version lacks.
struct Tensors {
  const aclTensor* query;
  const aclTensor* query_rope = nullptr;
  const aclTensor* key;
  const aclTensor* key_rope = nullptr;
  const aclTensor* value;
  const aclTensor* dy;
  const aclTensor* pse;
  const aclTensor* drop_mask;
  const aclTensor* padding_mask;
  const aclTensor* atten_mask;
  const aclTensor* softmax_max;
  const aclTensor* softmax_sum;
  const aclTensor* softmax_in;
  const aclTensor* attention_in;
  const aclTensor* sink = nullptr;
  const aclTensor* dq;
  const aclTensor* dq_rope = nullptr;
  const aclTensor* dk;
  const aclTensor* dk_rope = nullptr;
  const aclTensor* dv;
  const aclTensor* dpse;
  const aclTensor* dsink = nullptr;
};

// Everything else, with what holds where a version does not say.
struct Args {
  bool dense = false;
  bool strict_in_layout = false;  // refuses unknown texts: V4 alone
  const aclIntArray* prefix;
  const aclIntArray* actual_seq_q_len = nullptr;
  const aclIntArray* actual_seq_kv_len = nullptr;
  const aclIntArray* q_start_idx = nullptr;
  const aclIntArray* kv_start_idx = nullptr;
  double scale_value;
  double keep_prob;
  int64_t pre_tokens;
  int64_t next_tokens;
  int64_t head_num;
  const char* input_layout;
  int64_t sparse_mode;
  int64_t pse_type = 1;
  const char* softmax_in_layout = nullptr;
};

// Phase 1 of any version.
aclnnStatus Plan(const acl::Operator& op, const Tensors& tensors, const Args& a,
                 acl::PhaseOne answer) noexcept;

// The same of packed sequences, with a workspace that is large enough for any
// lengths. Refuses a drop mask, whose size depends on them.
aclnnStatus PlanMost(const acl::Operator& op, const Tensors& tensors,
                     const Args& a, acl::PhaseOne answer) noexcept;

}  // namespace flashacl::ops::backward
