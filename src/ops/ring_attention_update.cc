// SPDX-License-Identifier: Apache-2.0
// Merging two parts of attention by max and sum: aclnnRingAttentionUpdate, V2.
// Rules and limits are in docs/operators/ring_attention_update.md.
#include <array>
#include <string_view>
#include <utility>

#include "acl/environment.h"
#include "aclnnop/aclnn_ring_attention_update.h"
#include "aclnnop/aclnn_ring_attention_update_v2.h"
#include "merge/merge.h"
#include "ops/entry.h"
#include "ops/operators.h"

namespace flashacl::ops {
namespace {

using acl::Argument;
using acl::Arguments;
using acl::Tensor;

enum Row {
  kPrevOut,
  kPrevMax,
  kPrevSum,
  kCurOut,
  kCurMax,
  kCurSum,
  kEnds,
  kOut,
  kMaxOut,
  kSumOut,
  kRowCount
};
constexpr Row kAttention[] = {kPrevOut, kCurOut, kOut};
constexpr Row kStatistics[] = {kPrevMax, kPrevSum, kCurMax,
                               kCurSum,  kMaxOut,  kSumOut};

constexpr std::array<Argument, kRowCount> kPacked{{
    Required("prevAttnOut", acl::kFloats),
    Required("prevSoftmaxMax", acl::kF32Only),
    Required("prevSoftmaxSum", acl::kF32Only),
    Required("curAttnOut", acl::kFloats),
    Required("curSoftmaxMax", acl::kF32Only),
    Required("curSoftmaxSum", acl::kF32Only),
    Required("actualSeqQlenOptional", acl::Bit(DType::kI64)),
    Output("attnOutOut", acl::kFloats),
    Output("softmaxMaxOut", acl::kF32Only),
    Output("softmaxSumOut", acl::kF32Only),
}};

// Of a batch nobody looks at where sequences end.
constexpr std::array<Argument, kRowCount> kBatched = Ignoring(kPacked, kEnds);

struct Args {
  std::string_view layout;  // of what the caller passed; null is ""
  std::string_view softmax_layout;

  bool packed() const { return layout == "TND"; }
};

Status CheckLayout(const Args& args) {
  if (args.packed() || args.layout == "SBH") return {};
  return Invalid("inputLayoutOptional: \"{}\", expected \"SBH\" or \"TND\"",
                 args.layout);
}

Status CheckSoftmaxLayout(const Args& args) {
  const std::string_view text = args.softmax_layout;
  if (!args.packed() || text.empty() || text == "SBH" || text == "TND") {
    return {};
  }
  return Contradiction(
      "inputSoftmaxLayoutOptional: \"{}\", expected \"\", \"SBH\" or \"TND\"",
      text);
}

Status CheckOne(const Arguments& arguments, int row, size_t rank) {
  const Tensor& tensor = arguments[row];
  if (tensor.rank != rank) {
    return Invalid("{}: shape {}, expected {} axes", arguments.name(row),
                   ShapeText(tensor), rank);
  }
  if (tensor.empty()) {
    return Invalid("{}: shape {} has no elements", arguments.name(row),
                   ShapeText(tensor));
  }
  return {};
}

// What is wrong with a tensor by itself.
Status CheckEach(const Arguments& arguments, const Args& args) {
  for (const Row row : kAttention) {
    FLASHACL_RETURN_IF_ERROR(CheckOne(arguments, row, 3));
    if (arguments[row].acl_dtype == arguments[kPrevOut].acl_dtype) continue;
    return Invalid("{}: data type {}, expected {} as prevAttnOut",
                   arguments.name(row), acl::TypeText(arguments[row].acl_dtype),
                   acl::TypeText(arguments[kPrevOut].acl_dtype));
  }
  for (const Row row : kStatistics) {
    FLASHACL_RETURN_IF_ERROR(CheckOne(arguments, row, args.packed() ? 3 : 4));
    const Tensor& tensor = arguments[row];
    if (tensor.dims[tensor.rank - 1] == merge::kCopies) continue;
    return Invalid("{}: shape {}, expected a last axis of {}",
                   arguments.name(row), ShapeText(tensor), merge::kCopies);
  }
  if (!args.packed()) return {};
  return CheckOne(arguments, kEnds, 1);
}

Status CheckShape(const Arguments& arguments, int row,
                  std::span<const int64_t> expected, std::string_view whose) {
  if (std::ranges::equal(arguments[row].shape(), expected)) return {};
  return Contradiction("{}: shape {}, expected [{}]{}", arguments.name(row),
                       ShapeText(arguments[row]), Join(expected, ", "), whose);
}

// Whether shapes match; the heads are those of prevSoftmaxMax.
Status CheckTogether(const Arguments& arguments, const Args& args) {
  const auto attention = arguments[kPrevOut].shape();
  for (const Row row : kAttention) {
    FLASHACL_RETURN_IF_ERROR(
        CheckShape(arguments, row, attention, " as prevAttnOut"));
  }
  const int64_t heads = arguments[kPrevMax].dims[1];
  const int64_t packed[] = {attention[0], attention[1], merge::kCopies};
  const int64_t batched[] = {attention[1], heads, attention[0], merge::kCopies};
  const std::span<const int64_t> statistics =
      args.packed() ? std::span<const int64_t>(packed)
                    : std::span<const int64_t>(batched);
  for (const Row row : kStatistics) {
    FLASHACL_RETURN_IF_ERROR(
        CheckShape(arguments, row, statistics, " beside prevAttnOut"));
  }
  if (args.packed() || attention[2] % heads == 0) return {};
  return Contradiction(
      "prevAttnOut: shape {}, whose last axis is not a multiple of the {} "
      "heads of prevSoftmaxMax",
      ShapeText(arguments[kPrevOut]), heads);
}

// What the NPU refuses although it has a meaning. Strict mode only.
Status CheckHardwareLimits(const Arguments& arguments, const Args& args) {
  if (!acl::TheEnvironment().strict || !args.packed()) return {};
  const Tensor& out = arguments[kPrevOut];
  if (out.dims[1] > 256) {
    return Invalid("prevAttnOut: {} heads, expected at most 256 (strict mode)",
                   out.dims[1]);
  }
  if (out.dims[2] % 64 == 0 && out.dims[2] <= 768) return {};
  return Invalid(
      "prevAttnOut: {} channels, expected multiples of 64 up to 768 (strict "
      "mode)",
      out.dims[2]);
}

merge::HeadRows RowsOf(const Arguments& arguments, Row row, const Args& args,
                       int64_t channels) {
  const Tensor& tensor = arguments[row];
  const auto& strides = tensor.strides;
  merge::HeadRows rows{.argument = static_cast<size_t>(row),
                       .dtype = tensor.dtype(),
                       .offset = tensor.offset,
                       .token_stride = strides[0],
                       .step = strides[2]};
  if (args.packed()) {
    rows.head_stride = strides[1];
  } else {
    rows.sequence_stride = strides[1];
    rows.head_stride = channels * strides[2];
  }
  if (channels == 1) rows.step = 1;
  return rows;
}

// Its axes are counted from the last one.
merge::Statistic StatisticOf(const Arguments& arguments, Row row) {
  const Tensor& tensor = arguments[row];
  merge::Statistic statistic{.argument = static_cast<size_t>(row),
                             .offset = tensor.offset};
  for (size_t axis = 0; axis < tensor.rank; ++axis) {
    statistic.strides[4 - tensor.rank + axis] = tensor.strides[axis];
  }
  return statistic;
}

merge::MaxSumMerge MergeOf(const Arguments& arguments, const Args& args) {
  const Tensor& out = arguments[kPrevOut];
  merge::MaxSumMerge merge;
  merge.tokens = out.dims[0];
  if (args.packed()) {
    merge.heads = out.dims[1];
    merge.channels = out.dims[2];
    merge.order = args.softmax_layout == "TND" ? merge::StatisticOrder::kTokens
                                               : merge::StatisticOrder::kBlocks;
    const Tensor& ends = arguments[kEnds];
    merge.ends = {kEnds, ends.dims[0], ends.offset, ends.strides[0]};
  } else {
    merge.batch = out.dims[1];
    merge.heads = arguments[kPrevMax].dims[1];
    merge.channels = out.dims[2] / merge.heads;
  }
  merge.parts = {RowsOf(arguments, kPrevOut, args, merge.channels),
                 RowsOf(arguments, kCurOut, args, merge.channels)};
  merge.out = RowsOf(arguments, kOut, args, merge.channels);
  merge.max = {StatisticOf(arguments, kPrevMax),
               StatisticOf(arguments, kCurMax)};
  merge.sum = {StatisticOf(arguments, kPrevSum),
               StatisticOf(arguments, kCurSum)};
  merge.max_out = StatisticOf(arguments, kMaxOut);
  merge.sum_out = StatisticOf(arguments, kSumOut);
  return merge;
}

MadeComputation Lower(const Arguments& arguments, const Args& args) {
  FLASHACL_RETURN_IF_ERROR(CheckLayout(args));
  FLASHACL_RETURN_IF_ERROR(arguments.CheckTypes());
  FLASHACL_RETURN_IF_ERROR(CheckEach(arguments, args));
  FLASHACL_RETURN_IF_ERROR(CheckSoftmaxLayout(args));
  FLASHACL_RETURN_IF_ERROR(CheckTogether(arguments, args));
  FLASHACL_RETURN_IF_ERROR(CheckHardwareLimits(arguments, args));
  return merge::MakeMaxSumMerge(MergeOf(arguments, args));
}

constexpr aclnnStatus kContradiction = 561002;
const acl::Operator kBatch{"aclnnRingAttentionUpdate", kBatched,
                           kContradiction};
const acl::Operator kBatchV2{"aclnnRingAttentionUpdateV2", kBatched,
                             kContradiction};

}  // namespace

const acl::Operator kRingAttentionUpdate{"aclnnRingAttentionUpdate", kPacked,
                                         kContradiction};
const acl::Operator kRingAttentionUpdateV2{"aclnnRingAttentionUpdateV2",
                                           kPacked, kContradiction};

}  // namespace flashacl::ops

using namespace flashacl::ops;

extern "C" aclnnStatus aclnnRingAttentionUpdateGetWorkspaceSize(
    const aclTensor* prevAttnOut, const aclTensor* prevSoftmaxMax,
    const aclTensor* prevSoftmaxSum, const aclTensor* curAttnOut,
    const aclTensor* curSoftmaxMax, const aclTensor* curSoftmaxSum,
    const aclTensor* actualSeqQlenOptional, char* inputLayoutOptional,
    aclTensor* attnOutOut, aclTensor* softmaxMaxOut, aclTensor* softmaxSumOut,
    uint64_t* workspaceSize, aclOpExecutor** executor) {
  const Args args{flashacl::acl::TextOf(inputLayoutOptional), ""};
  return Prepare(args.packed() ? kRingAttentionUpdate : kBatch,
                 {prevAttnOut, prevSoftmaxMax, prevSoftmaxSum, curAttnOut,
                  curSoftmaxMax, curSoftmaxSum, actualSeqQlenOptional,
                  attnOutOut, softmaxMaxOut, softmaxSumOut},
                 args, Lower, {workspaceSize, executor});
}

extern "C" aclnnStatus aclnnRingAttentionUpdateV2GetWorkspaceSize(
    const aclTensor* prevAttnOut, const aclTensor* prevSoftmaxMax,
    const aclTensor* prevSoftmaxSum, const aclTensor* curAttnOut,
    const aclTensor* curSoftmaxMax, const aclTensor* curSoftmaxSum,
    const aclTensor* actualSeqQlenOptional, char* inputLayoutOptional,
    char* inputSoftmaxLayoutOptional, aclTensor* attnOutOut,
    aclTensor* softmaxMaxOut, aclTensor* softmaxSumOut, uint64_t* workspaceSize,
    aclOpExecutor** executor) {
  const Args args{flashacl::acl::TextOf(inputLayoutOptional),
                  flashacl::acl::TextOf(inputSoftmaxLayoutOptional)};
  return Prepare(args.packed() ? kRingAttentionUpdateV2 : kBatchV2,
                 {prevAttnOut, prevSoftmaxMax, prevSoftmaxSum, curAttnOut,
                  curSoftmaxMax, curSoftmaxSum, actualSeqQlenOptional,
                  attnOutOut, softmaxMaxOut, softmaxSumOut},
                 args, Lower, {workspaceSize, executor});
}

FLASHACL_PHASE_TWO(aclnnRingAttentionUpdate)

FLASHACL_PHASE_TWO(aclnnRingAttentionUpdateV2)
