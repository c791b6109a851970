// SPDX-License-Identifier: Apache-2.0
// The tensors of the packed backward: which there are, and what they must agree
// in before anybody looks at lengths.
#pragma once

#include <cstdint>

#include "acl/arguments.h"
#include "base/status.h"
#include "ops/training_rows.h"

namespace flashacl::ops::gradients {

// The rows of the argument table.
enum Row {
  kQuery,
  kQueryRope,
  kKey,
  kKeyRope,
  kValue,
  kDy,
  kPse,
  kDropMask,
  kPaddingMask,
  kAttenMask,
  kSoftmaxMax,
  kSoftmaxSum,
  kSoftmaxIn,
  kAttentionIn,
  kSink,
  kDq,
  kDqRope,
  kDk,
  kDkRope,
  kDv,
  kDpse,
  kDsink,
  kRows
};

extern const acl::Argument kTable[kRows];

TrainingRows RowsOf(const acl::Arguments& args);

// What the caller passed in a row, also if it has no elements; null if nothing.
const acl::Tensor* PassedIn(const acl::Arguments& args, int row);

// Whether a rope tensor was passed that has channels, if not rows.
bool IsRope(const acl::Arguments& args, int row);
bool HasRope(const acl::Arguments& args);

bool NothingToWrite(const acl::Arguments& args);

// kInvalidArgument unless the shapes in both rows are equal.
Status CheckShape(const acl::Arguments& args, int row, int like, size_t axes);

// The scalars that decide what tensors must look like.
struct Scalars {
  int64_t head_num = 0;
  double keep_prob = 1;
  int64_t sparse_mode = 0;
};

// Types, ranks, shapes, head dims, sink and rope, in the documented order.
Status CheckTensors(const acl::Arguments& args, const Scalars& scalars);

}  // namespace flashacl::ops::gradients
