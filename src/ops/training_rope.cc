// SPDX-License-Identifier: Apache-2.0
// Rope tensors.
#include "ops/training_rope.h"

#include <algorithm>
#include <utility>

#include "ops/canonical.h"
#include "ops/training_rows.h"

namespace flashacl::ops {
namespace {

using acl::Arguments;
using acl::Tensor;

bool IsRope(const Arguments& args, int row) {
  const Tensor* tensor = args.given(row);
  if (tensor == nullptr) return false;
  return args.has(row) || (tensor->rank == 3 && tensor->dims[2] > 0);
}

// A mask of sequences without queries or keys has no elements, but axes.
bool IsMask(const Arguments& args, int row) {
  const Tensor* tensor = args.given(row);
  return args.has(row) || (tensor != nullptr && tensor->rank >= 2);
}

// The tensors rope cannot be without.
Status CheckCompanions(const Arguments& args, const TrainingTable& rows) {
  for (const int row : {rows.query_rope, rows.key_rope, rows.atten_mask,
                        rows.query_rope_gradient, rows.key_rope_gradient}) {
    if (row < 0) continue;
    const bool given =
        row == rows.atten_mask ? IsMask(args, row) : IsRope(args, row);
    if (given) continue;
    return NullArgument("The {} cannot be nullptr when rope is given.",
                        args.name(row));
  }
  return {};
}

Status CheckRopeTensor(const Arguments& args, int row, int like, int query) {
  const Tensor& rope = *args.given(row);
  FLASHACL_RETURN_IF_ERROR(CheckRank(args.name(row), rope, kTnd, 1));
  FLASHACL_RETURN_IF_ERROR(CheckShape(args, row, like, 2));
  if (rope.dtype() != DType::kBf16) {
    return Invalid("{}: data type {}, expected {}", args.name(row),
                   acl::TypeText(rope.acl_dtype), acl::TypeText(ACL_BF16));
  }
  FLASHACL_RETURN_IF_ERROR(CheckTypeOfQuery(args, query, row));
  if (rope.dims[2] > args[query].dims[2]) {
    return Invalid("{}: head dim {} is greater than query head dim {}",
                   args.name(row), rope.dims[2], args[query].dims[2]);
  }
  return {};
}

Status CheckGradients(const Arguments& args, const TrainingTable& rows) {
  const std::pair<int, int> gradients[] = {
      {rows.query_rope_gradient, rows.query_rope},
      {rows.key_rope_gradient, rows.key_rope}};
  for (const auto& [gradient, rope] : gradients) {
    if (gradient < 0) continue;
    FLASHACL_RETURN_IF_ERROR(CheckShape(args, gradient, rope, 3));
    FLASHACL_RETURN_IF_ERROR(CheckTypeOfQuery(args, rows.query, gradient));
  }
  return {};
}

}  // namespace

bool HasRope(const Arguments& args, const TrainingTable& rows) {
  return IsRope(args, rows.query_rope) || IsRope(args, rows.key_rope);
}

Status CheckShape(const Arguments& args, int row, int like, size_t axes) {
  const Tensor& tensor = *args.given(row);
  const Tensor& other = *args.given(like);
  const bool same = tensor.rank == other.rank &&
                    std::equal(tensor.dims.begin(), tensor.dims.begin() + axes,
                               other.dims.begin());
  if (same) return {};
  return Invalid("{}: shape {} does not match shape {} of {}", args.name(row),
                 ShapeText(tensor), ShapeText(other), args.name(like));
}

Status CheckRope(const Arguments& args, const TrainingTable& rows,
                 const TrainingArgs& a) {
  if (!HasRope(args, rows)) return {};
  FLASHACL_RETURN_IF_ERROR(CheckCompanions(args, rows));
  for (const int row : {rows.pse, rows.drop_mask}) {
    if (!args.has(row)) continue;
    return Invalid("{}: given, but there is none with rope", args.name(row));
  }
  if (static_cast<float>(a.keep_prob) != 1.0f) {
    return Invalid("{}: {}, expected 1 with rope", rows.names.keep_prob,
                   a.keep_prob);
  }
  if (a.sparse_mode == 6) {
    return Invalid("{}: 6, which there is not with rope",
                   rows.names.sparse_mode);
  }
  FLASHACL_RETURN_IF_ERROR(
      CheckRopeTensor(args, rows.query_rope, rows.query, rows.query));
  FLASHACL_RETURN_IF_ERROR(
      CheckRopeTensor(args, rows.key_rope, rows.key, rows.query));
  const int64_t query_dim = args.given(rows.query_rope)->dims[2];
  const int64_t key_dim = args.given(rows.key_rope)->dims[2];
  if (key_dim != query_dim) {
    return Invalid("{}: head dim {} does not match queryRope head dim {}",
                   args.name(rows.key_rope), key_dim, query_dim);
  }
  return CheckGradients(args, rows);
}

void StateRope(const Arguments& args, const TrainingTable& rows,
               const Training& training, AttentionProblem& problem) {
  if (!HasRope(args, rows)) return;
  const Tensor& key_rope = *args.given(rows.key_rope);
  const Extents of_key = ExtentsOf(key_rope, kTnd, 1);
  problem.rope_dim = of_key.dim;
  problem[Slot::kQueryRope] = QueryLike(*args.given(rows.query_rope), training);
  problem[Slot::kKeyRope] = KeyLike(key_rope, of_key, training);
  if (rows.query_rope_gradient < 0) return;
  problem[Slot::kGradQueryRope] =
      QueryLike(*args.given(rows.query_rope_gradient), training);
  problem[Slot::kGradKeyRope] =
      KeyLike(*args.given(rows.key_rope_gradient), of_key, training);
}

}  // namespace flashacl::ops
