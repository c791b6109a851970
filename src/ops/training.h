// SPDX-License-Identifier: Apache-2.0
// What forward and backward of training are told alike, in CANN's names, read
// once and passed to whoever turns a part of it into the house's words.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "acl/tensor.h"
#include "ops/canonical.h"
#include "ops/training_lengths.h"
#include "problem/band.h"

namespace flashacl::ops {

// How the operator at hand spells what both have.
struct TrainingNames {
  std::string_view pse;
  std::string_view keep_prob;
  std::string_view pre_tokens;
  std::string_view next_tokens;
  std::string_view sparse_mode;
  std::string_view pse_type;
};

// preTokens or nextTokens as a distance; beyond any sequence is open.
constexpr int64_t Tokens(int64_t tokens) {
  return std::clamp(tokens, -Band::kOpen, Band::kOpen);
}

struct Training {
  const TrainingNames* names = nullptr;
  bool backward = false;
  const Layout* layout = &kTnd;  // kTnd: sequences are packed, else all alike
  int64_t head_num = 0;
  Batch batch = {};

  const acl::Tensor* pse = nullptr;         // null: none, as the next two
  const acl::Tensor* drop_mask = nullptr;   // ...
  const acl::Tensor* atten_mask = nullptr;  // without it sparse_mode is nothing
  double keep_prob = 1;
  int64_t pse_type = 1;
  int64_t q_start_idx = 0;
  int64_t kv_start_idx = 0;
  int64_t sparse_mode = 0;
  int64_t pre_tokens = 0;   // within Band::kOpen, so that sums do not overflow
  int64_t next_tokens = 0;  // the same
  std::vector<int64_t> prefix = {};

  bool packed() const { return layout == &kTnd; }
};

}  // namespace flashacl::ops
