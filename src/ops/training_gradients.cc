// SPDX-License-Identifier: Apache-2.0
// The tensors of the packed backward.
#include "ops/training_gradients.h"

#include <algorithm>
#include <utility>

#include "ops/canonical.h"

namespace flashacl::ops::gradients {
namespace {

using acl::Arguments;
using acl::Need;
using acl::Tensor;

constexpr acl::DTypeSet kMaskTypes =
    acl::Bit(DType::kBool) | acl::Bit(DType::kU8);

Status CheckTypes(const Arguments& args) {
  FLASHACL_RETURN_IF_ERROR(args.CheckTypes());
  for (const int row : {kKey, kValue, kDy, kAttentionIn, kDq, kDk, kDv}) {
    FLASHACL_RETURN_IF_ERROR(CheckTypeOfQuery(args, kQuery, row));
  }
  return {};
}

Status CheckShapes(const Arguments& args, const Scalars& scalars) {
  for (const int row : {kQuery, kKey, kValue, kDy, kAttentionIn}) {
    FLASHACL_RETURN_IF_ERROR(
        CheckRank(args.name(row), args[row], kTnd, scalars.head_num));
  }
  FLASHACL_RETURN_IF_ERROR(CheckShape(args, kValue, kKey, 2));
  FLASHACL_RETURN_IF_ERROR(CheckShape(args, kDy, kQuery, 2));
  FLASHACL_RETURN_IF_ERROR(CheckShape(args, kAttentionIn, kDy, 3));
  FLASHACL_RETURN_IF_ERROR(CheckShape(args, kDq, kQuery, 3));
  FLASHACL_RETURN_IF_ERROR(CheckShape(args, kDk, kKey, 3));
  FLASHACL_RETURN_IF_ERROR(CheckShape(args, kDv, kValue, 3));
  if (args[kDy].dims[2] != args[kValue].dims[2]) {
    return Invalid("dy: head dim {} does not match value head dim {}",
                   args[kDy].dims[2], args[kValue].dims[2]);
  }
  return {};
}

// A gradient without sink is left alone, a sink without gradient is fine.
Status CheckSink(const Arguments& args, const Scalars& scalars) {
  if (!args.has(kSink)) return {};
  for (const int row : {kSink, kDsink}) {
    if (!args.has(row)) continue;
    if (args[row].rank != 1 || args[row].dims[0] != scalars.head_num) {
      return Invalid("{}: shape {}, expected [{}]", args.name(row),
                     ShapeText(args[row]), scalars.head_num);
    }
  }
  return {};
}

// The tensors rope cannot be without.
Status CheckRopeGiven(const Arguments& args) {
  if (!HasRope(args)) return {};
  for (const int row : {kQueryRope, kKeyRope, kAttenMask, kDqRope, kDkRope}) {
    const bool given =
        row == kAttenMask ? PassedIn(args, row) != nullptr : IsRope(args, row);
    if (given) continue;
    return NullArgument("The {} cannot be nullptr when rope is given.",
                        args.name(row));
  }
  return {};
}

Status CheckRopeShape(const Arguments& args, int row, int like) {
  const Tensor& rope = *PassedIn(args, row);
  FLASHACL_RETURN_IF_ERROR(CheckRank(args.name(row), rope, kTnd, 1));
  FLASHACL_RETURN_IF_ERROR(CheckShape(args, row, like, 2));
  if (rope.dtype() != DType::kBf16) {
    return Invalid("{}: data type {}, expected {}", args.name(row),
                   acl::TypeText(rope.acl_dtype), acl::TypeText(ACL_BF16));
  }
  FLASHACL_RETURN_IF_ERROR(CheckTypeOfQuery(args, kQuery, row));
  if (rope.dims[2] > args[kQuery].dims[2]) {
    return Invalid("{}: head dim {} is greater than query head dim {}",
                   args.name(row), rope.dims[2], args[kQuery].dims[2]);
  }
  return {};
}

Status CheckRope(const Arguments& args, const Scalars& scalars) {
  FLASHACL_RETURN_IF_ERROR(CheckRopeGiven(args));
  if (!HasRope(args)) return {};
  for (const int row : {kPse, kDropMask}) {
    if (!args.has(row)) continue;
    return Invalid("{}: given, but there is none with rope", args.name(row));
  }
  if (scalars.keep_prob != 1.0) {
    return Invalid("keepProb: {}, expected 1 with rope", scalars.keep_prob);
  }
  if (scalars.sparse_mode == 6) {
    return Invalid("sparseMode: 6, which there is not with rope");
  }
  FLASHACL_RETURN_IF_ERROR(CheckRopeShape(args, kQueryRope, kQuery));
  FLASHACL_RETURN_IF_ERROR(CheckRopeShape(args, kKeyRope, kKey));
  const int64_t query_dim = PassedIn(args, kQueryRope)->dims[2];
  const int64_t key_dim = PassedIn(args, kKeyRope)->dims[2];
  if (key_dim != query_dim) {
    return Invalid(
        "keyInRope: head dim {} does not match queryRope head dim {}", key_dim,
        query_dim);
  }
  constexpr std::pair<Row, Row> kGradients[] = {{kDqRope, kQueryRope},
                                                {kDkRope, kKeyRope}};
  for (const auto& [gradient, rope] : kGradients) {
    FLASHACL_RETURN_IF_ERROR(CheckShape(args, gradient, rope, 3));
    FLASHACL_RETURN_IF_ERROR(CheckTypeOfQuery(args, kQuery, gradient));
  }
  return {};
}

}  // namespace

constexpr acl::Argument kTable[kRows] = {
    {"query", Need::kRequired, acl::kFloats},      // [T, N, D]
    {"queryRope", Need::kOptional, acl::kFloats},  // [T, N, Dr]
    {"keyIn", Need::kRequired, acl::kFloats},      // [Tkv, Nkv, D]
    {"keyInRope", Need::kOptional, acl::kFloats},  // [Tkv, Nkv, Dr]
    {"value", Need::kRequired, acl::kFloats},      // [Tkv, Nkv, Dv]
    {"dy", Need::kRequired, acl::kFloats},         // [T, N, Dv]
    {"pseShiftOptional", Need::kOptional, acl::kFloats},
    {"dropMaskOptional", Need::kOptional, acl::Bit(DType::kU8)},
    {"paddingMaskOptional", Need::kIgnored},
    {"attenMaskOptional", Need::kOptional, kMaskTypes},
    {"softmaxMaxOptional", Need::kOptional, acl::kF32Only},  // [T, N, 8]
    {"softmaxSumOptional", Need::kOptional, acl::kF32Only},
    {"softmaxInOptional", Need::kIgnored},
    {"attentionInOptional", Need::kRequired, acl::kFloats},  // [T, N, Dv]
    {"sinkInOptional", Need::kOptional, acl::kF32Only},      // [N]
    {"dqOut", Need::kRequired, acl::kFloats, true},
    {"dqRopeOut", Need::kOptional, acl::kFloats, true},
    {"dkOut", Need::kRequired, acl::kFloats, true},
    {"dkRopeOut", Need::kOptional, acl::kFloats, true},
    {"dvOut", Need::kRequired, acl::kFloats, true},
    {"dpseOut", Need::kOptional, acl::kAnyType, true},
    {"dsinkOut", Need::kOptional, acl::kF32Only, true},
};

TrainingRows RowsOf(const Arguments& args) {
  return {args[kQuery], args[kKey], args[kValue], "keyIn"};
}

const Tensor* PassedIn(const Arguments& args, int row) {
  return args.list(row)[0].tensor.get();
}

bool IsRope(const Arguments& args, int row) {
  const Tensor* tensor = PassedIn(args, row);
  if (tensor == nullptr) return false;
  return args.has(row) || (tensor->rank == 3 && tensor->dims[2] > 0);
}

bool HasRope(const Arguments& args) {
  return IsRope(args, kQueryRope) || IsRope(args, kKeyRope);
}

bool NothingToWrite(const Arguments& args) {
  const bool sink = args.has(kSink) && args.has(kDsink);
  return args[kDq].empty() && args[kDk].empty() && args[kDv].empty() &&
         !args.has(kDpse) && !sink;
}

Status CheckShape(const Arguments& args, int row, int like, size_t axes) {
  const Tensor& tensor = *PassedIn(args, row);
  const Tensor& other = *PassedIn(args, like);
  const bool same = tensor.rank == other.rank &&
                    std::equal(tensor.dims.begin(), tensor.dims.begin() + axes,
                               other.dims.begin());
  if (same) return {};
  return Invalid("{}: shape {} does not match shape {} of {}", args.name(row),
                 ShapeText(tensor), ShapeText(other), args.name(like));
}

Status CheckTensors(const Arguments& args, const Scalars& scalars) {
  if (scalars.head_num <= 0) {
    return Invalid("headNum: {}, expected at least 1", scalars.head_num);
  }
  FLASHACL_RETURN_IF_ERROR(CheckTypes(args));
  FLASHACL_RETURN_IF_ERROR(CheckShapes(args, scalars));
  FLASHACL_RETURN_IF_ERROR(CheckSink(args, scalars));
  FLASHACL_RETURN_IF_ERROR(CheckHeadDims(RowsOf(args)));
  return CheckRope(args, scalars);
}

}  // namespace flashacl::ops::gradients
