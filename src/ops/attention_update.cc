// SPDX-License-Identifier: Apache-2.0
// Merging parts of attention by log-sum-exp: aclnnAttentionUpdate. Rules and
// limits are in docs/operators/attention_update.md.
#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "acl/environment.h"
#include "aclnnop/aclnn_attention_update.h"
#include "merge/merge.h"
#include "ops/entry.h"
#include "ops/operators.h"

namespace flashacl::ops {
namespace {

using acl::Argument;
using acl::Arguments;
using acl::Entry;
using acl::Need;
using acl::Tensor;

enum Row { kLse, kLocalOut, kOut, kLseOut, kRowCount };

constexpr std::array<Argument, kRowCount> kTable{{
    {.name = "lse",
     .need = Need::kRequired,
     .dtypes = acl::kF32Only,
     .list = true},
    {.name = "localOut",
     .need = Need::kRequired,
     .dtypes = acl::kFloats,
     .list = true},
    Output("out", acl::kFloats),
    // Null, or a tensor: one without rows is none that is absent.
    {.name = "lseOut",
     .need = Need::kMayBeEmpty,
     .dtypes = acl::kF32Only,
     .output = true},
}};

// CANN looks at updateType before it looks for nulls: of a call whose
// updateType is wrong nothing else is looked at.
constexpr std::array<Argument, kRowCount> kUnseen{{
    {.name = "lse", .need = Need::kIgnored, .list = true},
    {.name = "localOut", .need = Need::kIgnored, .list = true},
    {.name = "out", .need = Need::kIgnored, .output = true},
    {.name = "lseOut", .need = Need::kIgnored, .output = true},
}};

struct Args {
  int64_t update_type;
  bool lse_out;  // given

  bool fits() const { return update_type == (lse_out ? 1 : 0); }
};

Status CheckUpdateType(const Args& args) {
  if (args.update_type != 0 && args.update_type != 1) {
    return Invalid("updateType: {}, expected 0 or 1", args.update_type);
  }
  return Invalid("lseOut: {}, expected {} for updateType {}",
                 args.lse_out ? "a tensor" : "null",
                 args.lse_out ? "null" : "a tensor", args.update_type);
}

std::string NameOf(const Arguments& arguments, const Entry& entry) {
  const acl::Argument& row =
      arguments.table()[static_cast<size_t>(entry.argument)];
  return row.list ? Str("{}[{}]", row.name, entry.member)
                  : std::string(row.name);
}

Status CheckShape(const Arguments& arguments, const Entry& entry,
                  std::span<const int64_t> expected, std::string_view whose) {
  if (std::ranges::equal(entry->shape(), expected)) return {};
  return Invalid("{}: shape {}, expected [{}]{}", NameOf(arguments, entry),
                 ShapeText(*entry.tensor), Join(expected, ", "), whose);
}

Status CheckShapes(const Arguments& arguments) {
  const Tensor& first = *arguments.list(kLocalOut)[0].tensor;
  if (first.rank != 2) {
    return Invalid("localOut[0]: shape {}, expected 2 axes", ShapeText(first));
  }
  constexpr std::string_view kWhose = " as localOut[0]";
  for (const int row : {kLocalOut, kOut}) {
    for (const Entry& entry : arguments.list(row)) {
      FLASHACL_RETURN_IF_ERROR(
          CheckShape(arguments, entry, first.shape(), kWhose));
    }
  }
  for (const int row : {kLse, kLseOut}) {
    for (const Entry& entry : arguments.list(row)) {
      if (entry.tensor == nullptr) continue;
      FLASHACL_RETURN_IF_ERROR(CheckShape(
          arguments, entry, first.shape().first(1), ", the rows of localOut"));
    }
  }
  return {};
}

Status CheckParts(const Arguments& arguments) {
  const auto lse = arguments.list(kLse);
  const auto parts = arguments.list(kLocalOut);
  if (parts.empty()) return Invalid("localOut: no members, expected some");
  if (lse.size() != parts.size()) {
    return Invalid("lse: {} members, expected {} as localOut", lse.size(),
                   parts.size());
  }
  for (const Entry& part : parts) {
    if (part->acl_dtype == parts[0]->acl_dtype) continue;
    return Invalid("{}: data type {}, expected {} as localOut[0]",
                   NameOf(arguments, part), acl::TypeText(part->acl_dtype),
                   acl::TypeText(parts[0]->acl_dtype));
  }
  return {};
}

// What the NPU refuses although it has a meaning. Strict mode only.
Status CheckHardwareLimits(const Arguments& arguments) {
  if (!acl::TheEnvironment().strict) return {};
  const auto parts = arguments.list(kLocalOut);
  const int64_t channels = parts[0]->dims[1];
  if (parts.size() > 128) {
    return Invalid("localOut: {} members, expected at most 128 (strict mode)",
                   parts.size());
  }
  if (channels % 8 != 0 || channels > 512) {
    return Invalid(
        "localOut: {} channels, expected multiples of 8 up to 512 (strict "
        "mode)",
        channels);
  }
  if (arguments[kOut].acl_dtype == parts[0]->acl_dtype) return {};
  return Invalid("out: data type {}, expected {} as localOut (strict mode)",
                 acl::TypeText(arguments[kOut].acl_dtype),
                 acl::TypeText(parts[0]->acl_dtype));
}

merge::Rows RowsOf(const Arguments& arguments, const Entry& entry) {
  const Tensor& tensor = *entry.tensor;
  return {
      .argument = static_cast<size_t>(&entry - arguments.entries().data()),
      .dtype = tensor.dtype(),
      .offset = tensor.offset,
      .stride = tensor.strides[0],
      .step = tensor.rank == 2 && tensor.dims[1] > 1 ? tensor.strides[1] : 1};
}

MadeComputation Lower(const Arguments& arguments, const Args& args) {
  if (!args.fits()) return CheckUpdateType(args);
  FLASHACL_RETURN_IF_ERROR(arguments.CheckTypes());
  FLASHACL_RETURN_IF_ERROR(CheckParts(arguments));
  FLASHACL_RETURN_IF_ERROR(CheckShapes(arguments));
  FLASHACL_RETURN_IF_ERROR(CheckHardwareLimits(arguments));
  const auto parts = arguments.list(kLocalOut);
  merge::LseMerge merge;
  merge.rows = parts[0]->dims[0];
  merge.channels = parts[0]->dims[1];
  if (merge.rows == 0) return std::shared_ptr<const Computation>();
  for (const Entry& entry : arguments.list(kLse)) {
    merge.lse.push_back(RowsOf(arguments, entry));
  }
  for (const Entry& entry : parts) {
    merge.parts.push_back(RowsOf(arguments, entry));
  }
  merge.out = RowsOf(arguments, arguments.list(kOut)[0]);
  if (args.lse_out) {
    merge.lse_out = RowsOf(arguments, arguments.list(kLseOut)[0]);
  }
  return merge::MakeLseMerge(std::move(merge));
}

const acl::Operator kWrongUpdateType{"aclnnAttentionUpdate", kUnseen, 161002};

}  // namespace

const acl::Operator kAttentionUpdate{"aclnnAttentionUpdate", kTable, 161002};

}  // namespace flashacl::ops

using namespace flashacl::ops;

extern "C" aclnnStatus aclnnAttentionUpdateGetWorkspaceSize(
    const aclTensorList* lse, const aclTensorList* localOut, int64_t updateType,
    aclTensor* out, aclTensor* lseOut, uint64_t* workspaceSize,
    aclOpExecutor** executor) {
  const Args args{updateType, lseOut != nullptr};
  return Prepare(args.fits() ? kAttentionUpdate : kWrongUpdateType,
                 {lse, localOut, out, lseOut}, args, Lower,
                 {workspaceSize, executor});
}

FLASHACL_PHASE_TWO(aclnnAttentionUpdate)
