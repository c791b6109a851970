// SPDX-License-Identifier: Apache-2.0
// What every version of decode is told, in CANN's names, and what is known of
// a call while it is being lowered.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "acl/arguments.h"
#include "ops/canonical.h"
#include "ops/inference_cache.h"
#include "problem/lengths.h"
#include "problem/tensor_spec.h"

namespace flashacl::ops {

// Everything but tensors. What a version lacks has the value it stands for.
struct IncreArgs {
  const aclIntArray* actualSeqLengths;
  int64_t numHeads;
  double scaleValue;
  const char* inputLayout;
  int64_t numKeyValueHeads;
  int64_t blockSize = 0;
  int64_t innerPrecise = 1;
};

// What is known of a call while it is being lowered.
struct Incre {
  // Rows of the table of arguments.
  enum Row {
    kQuery,
    kKey,
    kValue,
    kPse,
    kMask,
    kDequantScale1,
    kQuantScale1,
    kDequantScale2,
    kQuantScale2,
    kQuantOffset2,
    kAntiquantScale,
    kAntiquantOffset,
    kBlockTable,
    kKvPadding,
    kOut,
    kRowCount,
  };

  const acl::Arguments& arguments;
  const IncreArgs& args;
  Layout layout = kBsh;
  int64_t kv_heads = 0;
  TensorSpec query = {};
  Cache cache = {};
  std::vector<Sequence> sequences = {};
  int64_t most_keys = 0;     // valid ones, of the longest sequence
  bool left_padded = false;  // keys stand before kvPaddingSize unused rows

  const acl::Tensor& operator[](int row) const { return arguments[row]; }
  bool has(int row) const {
    return arguments.has(row) &&
           arguments.table()[row].need != acl::Need::kIgnored;
  }
  std::string_view name(int row) const { return arguments.name(row); }
  bool paged() const { return cache.source.rows == KvSource::Rows::kPaged; }
  DType key_type() const { return arguments.list(kKey)[0]->dtype(); }
};

}  // namespace flashacl::ops
