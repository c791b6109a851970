// SPDX-License-Identifier: Apache-2.0
// What every operator of inference is told, in CANN's names, and what is known
// of a call while it is being lowered. An operator is a table of its arguments
// and a lowering; lengths, masks, caches and scales are read alike.
// Errors are kContradiction unless said otherwise: 561103 of one operator,
// 561002 of the other.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "acl/arguments.h"
#include "acl/executor.h"
#include "aclnn/acl_meta.h"
#include "ops/canonical.h"
#include "ops/entry.h"
#include "ops/inference_cache.h"
#include "problem/lengths.h"
#include "problem/tensor_spec.h"

namespace flashacl::ops {

inline constexpr int64_t kMaxHeads = 256;
inline constexpr int64_t kMaxGroup = 64;  // query heads that share a kv head
inline constexpr int64_t kMaxDim = 512;
inline constexpr int64_t kMaxSequences = 65536;

// Everything but tensors, in the order of parameters, with what holds where an
// operator or a version does not say.
struct InferenceArgs {
  static constexpr int64_t kAllTokens = INT64_MAX;

  const aclIntArray* actualSeqLengths;    // of queries
  const aclIntArray* actualSeqLengthsKv;  // of keys, whatever it is called
  int64_t numHeads;
  double scaleValue;
  int64_t preTokens;
  int64_t nextTokens;
  const char* inputLayout;
  int64_t numKeyValueHeads;
  int64_t sparseMode = 0;
  int64_t innerPrecise = 1;
  int64_t blockSize = 0;
};

struct InferenceCall {
  // Rows of every operator's table, in the order of parameters.
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
    kAntiquantScale,
    kAntiquantOffset,
    kBlockTable,
    kQueryPadding,
    kKvPadding,
    kKeyAntiquantScale,
    kKeyAntiquantOffset,
    kValueAntiquantScale,
    kValueAntiquantOffset,
    kKeyPrefix,
    kValuePrefix,
    kQueryRope,
    kKeyRope,
    kKeyRopeAntiquantScale,
    kDequantScaleQuery,
    kSink,
    kOut,
    kLse,
    kRows
  };

  const acl::Arguments& arguments;
  const InferenceArgs& args;
  std::string_view key_lengths_name;
  // One query per sequence, of which the documents say other things.
  bool decode = false;
  Layout layout = kBsh;
  Layout out_layout = kBsh;
  int64_t kv_heads = 0;
  TensorSpec query = {};
  Cache cache = {};
  std::vector<Sequence> sequences = {};
  bool has_key_lengths = false;
  bool left_padded = false;  // keys stand before kvPaddingSize unused rows
  bool queries_left_padded = false;  // queries before queryPaddingSize ones

  const acl::Tensor& operator[](int row) const { return arguments[row]; }
  bool has(int row) const { return arguments.has(row); }
  std::string_view name(int row) const { return arguments.name(row); }
  // Whether this version has no such argument.
  bool lacks(int row) const {
    return arguments.table()[row].need == acl::Need::kAbsent;
  }

  // Rows of sequences lie one after the other: SH, TND and NTD. The last two
  // are told where sequences end, SH how long they are.
  bool packed() const { return layout.axes[0] == kOne && !Is(kNsd); }
  bool Is(const Layout& other) const { return layout.name == other.name; }
  bool paged() const { return cache.source.rows == KvSource::Rows::kPaged; }
  int64_t count() const { return static_cast<int64_t>(sequences.size()); }
  int64_t v_dim() const { return cache.value.channels(); }

  // All three inputs are of 8 bits.
  bool int8() const { return arguments[kQuery].dtype() == DType::kI8; }
  bool int8_out() const { return arguments[kOut].dtype() == DType::kI8; }
};

using InferenceTable = std::array<acl::Argument, InferenceCall::kRows>;

// A row that no version of an operator has.
inline constexpr acl::Argument kNoArgument{.name = {},
                                           .need = acl::Need::kAbsent};

// The table of an operator that has but one stage: query to block table, key
// padding and output.
constexpr InferenceTable OneStage(const std::array<acl::Argument, 15>& rows) {
  InferenceTable table{};
  table.fill(kNoArgument);
  for (size_t row = 0; row <= InferenceCall::kBlockTable; ++row) {
    table[row] = rows[row];
  }
  table[InferenceCall::kKvPadding] = rows[InferenceCall::kBlockTable + 1];
  table[InferenceCall::kOut] = rows.back();
  return table;
}

inline constexpr acl::DTypeSet kRowTypes = acl::kHalves | acl::Bit(DType::kI8);
inline constexpr acl::DTypeSet kDeqTypes =
    acl::Bit(DType::kU64) | acl::Bit(DType::kF32);
inline constexpr acl::DTypeSet kScaleTypes =
    acl::Bit(DType::kF32) | acl::Bit(DType::kBf16);

// Compare without reading after the first difference: callers' layout strings
// are not always terminated.
bool StartsWith(const char* text, std::string_view prefix);
bool Equals(const char* text, std::string_view whole);

// How many kv heads there are; numKeyValueHeads 0 means one per query head.
// numHeads is positive; at most `most_group` of them share a kv head.
Result<int64_t> KeyHeads(int64_t num_heads, int64_t num_key_value_heads,
                         int64_t most_group = kMaxGroup);

// The shape a tensor must have where it has `heads` heads of `dim` channels;
// -1 leaves the extent free. For tensors in canonical order.
struct Expected {
  int64_t sequences = -1;
  int64_t rows = -1;
  int64_t heads = -1;
  int64_t dim = -1;
};
Status CheckExtents(std::string_view name, const TensorSpec& spec,
                    const Expected& expected);

// What CheckKeyDim needs of a call whose query is read.
HeadTerms HeadTermsOf(const InferenceCall& call);

bool SameShape(const acl::Tensor& a, const acl::Tensor& b);

// Numbers of the problem, sequences and query.
void PlaceQuery(const InferenceCall& call, acl::Lowered& lowered);

// Keys and values wherever they are.
void PlaceKeys(const InferenceCall& call, acl::Lowered& lowered);

}  // namespace flashacl::ops
