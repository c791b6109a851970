// SPDX-License-Identifier: Apache-2.0
// Tensors of attention backward.
#include "ops/training_gradients.h"

#include <algorithm>

#include "ops/canonical.h"

namespace flashacl::ops::backward {
namespace {

using acl::Arguments;
using acl::Tensor;

Status CheckTypes(const Arguments& args) {
  FLASHACL_RETURN_IF_ERROR(args.CheckTypes());
  for (const int row : {kKey, kValue, kDy, kAttentionIn, kDq, kDk, kDv}) {
    FLASHACL_RETURN_IF_ERROR(CheckTypeOfQuery(args, kQuery, row));
  }
  return {};
}

Status CheckShapes(const Arguments& args, const Layout& layout,
                   int64_t head_num) {
  for (const int row : {kQuery, kKey, kValue, kDy, kAttentionIn}) {
    const bool keys = row == kKey || row == kValue;
    FLASHACL_RETURN_IF_ERROR(
        CheckRank(args.name(row), args[row], layout, keys ? 1 : head_num));
  }
  const auto rank = static_cast<size_t>(layout.rank);
  FLASHACL_RETURN_IF_ERROR(CheckShape(args, kValue, kKey, rank - 1));
  FLASHACL_RETURN_IF_ERROR(CheckShape(args, kDy, kQuery, rank - 1));
  FLASHACL_RETURN_IF_ERROR(CheckShape(args, kAttentionIn, kDy, rank));
  FLASHACL_RETURN_IF_ERROR(CheckShape(args, kDq, kQuery, rank));
  FLASHACL_RETURN_IF_ERROR(CheckShape(args, kDk, kKey, rank));
  return CheckShape(args, kDv, kValue, rank);
}

// A gradient without sink is left alone, a sink without gradient is fine.
Status CheckSink(const Arguments& args, int64_t head_num) {
  if (!args.has(kSink)) return {};
  for (const int row : {kSink, kDsink}) {
    if (!args.has(row)) continue;
    if (args[row].rank != 1 || args[row].dims[0] != head_num) {
      return Invalid("{}: shape {}, expected [{}]", args.name(row),
                     ShapeText(args[row]), head_num);
    }
  }
  return {};
}

}  // namespace

bool NothingToWrite(const Arguments& args) {
  const bool sink = args.has(kSink) && args.has(kDsink);
  return args[kDq].empty() && args[kDk].empty() && args[kDv].empty() &&
         !args.has(kDpse) && !sink;
}

Result<TrainingRows> CheckTensors(const Arguments& args,
                                  const Scalars& scalars) {
  const int64_t head_num = scalars.head_num;
  if (head_num <= 0) {
    return Invalid("headNum: {}, expected at least 1", head_num);
  }
  FLASHACL_RETURN_IF_ERROR(CheckTypes(args));
  const Layout* layout = &kTnd;
  if (scalars.dense) {
    const Result<const Layout*> dense = ReadDenseLayout(scalars.layout);
    if (!dense.ok()) return dense.status();
    layout = *dense;
  }
  FLASHACL_RETURN_IF_ERROR(CheckShapes(args, *layout, head_num));
  FLASHACL_RETURN_IF_ERROR(CheckSink(args, head_num));
  TrainingRows rows{*layout, args[kQuery], args[kKey], args[kValue], "keyIn"};
  FLASHACL_RETURN_IF_ERROR(ReadExtents(rows, head_num));
  const int64_t dy_dim = ExtentsOf(args[kDy], *layout, head_num).dim;
  if (dy_dim != rows.of_value.dim) {
    return Invalid("dy: head dim {} does not match value head dim {}", dy_dim,
                   rows.of_value.dim);
  }
  FLASHACL_RETURN_IF_ERROR(
      CheckRope(args, kRope, {kNames, scalars.keep_prob, scalars.sparse_mode}));
  return rows;
}

}  // namespace flashacl::ops::backward
