// SPDX-License-Identifier: Apache-2.0
// What every version of prefill is told, in CANN's names, and what is known of
// a call while it is being lowered.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "acl/arguments.h"
#include "ops/canonical.h"
#include "problem/lengths.h"
#include "problem/tensor_spec.h"

namespace flashacl::ops {

// Everything but tensors. What a version lacks has the value it stands for.
struct PromptArgs {
  const aclIntArray* actualSeqLengths;
  const aclIntArray* actualSeqLengthsKv = nullptr;
  int64_t numHeads;
  double scaleValue;
  int64_t preTokens;
  int64_t nextTokens;
  const char* inputLayout;
  int64_t numKeyValueHeads;
  int64_t sparseMode = 0;
  int64_t innerPrecise = 1;
  bool first_version = false;  // no lengths of keys, no scales
};

struct Prompt {
  // Rows of the table of arguments.
  enum Row {
    kQuery,
    kKey,
    kValue,
    kPse,
    kMask,
    kDeqScale1,
    kQuantScale1,
    kDeqScale2,
    kQuantScale2,
    kQuantOffset2,
    kOut,
    kRows
  };

  const acl::Arguments& arguments;
  const PromptArgs& args;
  Layout layout = kBsh;
  Layout out_layout = kBsh;
  int64_t kv_heads = 0;
  std::vector<Sequence> sequences = {};
  TensorSpec query = {};
  TensorSpec key = {};
  TensorSpec value = {};

  const acl::Tensor& operator[](int row) const { return arguments[row]; }
  bool has(int row) const {
    return arguments.has(row) &&
           arguments.table()[row].need != acl::Need::kIgnored;
  }
  std::string_view name(int row) const { return arguments.name(row); }
  int64_t count() const { return static_cast<int64_t>(sequences.size()); }

  // Rows of sequences lie one behind the other: SH, TND and NTD. The last two
  // are told where sequences end, SH how long they are.
  bool packed() const { return layout.axes[0] == kOne && !Is(kNsd); }
  bool Is(const Layout& other) const { return layout.name == other.name; }
  bool int8() const { return arguments[kQuery].dtype() == DType::kI8; }
};

}  // namespace flashacl::ops
