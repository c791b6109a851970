// SPDX-License-Identifier: Apache-2.0
// Attention in which every query row chose its keys, the same for all its
// heads; there is one kv head, perhaps in pages: aclnnSparseFlashAttention, V2.
// Formula and limits are in docs/operators/sparse_flash_attention.md.
#include <array>
#include <string_view>

#include "acl/environment.h"
#include "aclnnop/aclnn_sparse_flash_attention.h"
#include "aclnnop/aclnn_sparse_flash_attention_v2.h"
#include "ops/canonical.h"
#include "ops/entry.h"
#include "ops/operators.h"
#include "ops/sparse.h"

namespace flashacl::ops {
namespace {

using acl::Argument;
using acl::Arguments;
using acl::Lowered;
using acl::Need;
using acl::Tensor;

enum Row {
  kQuery,
  kKey,
  kValue,
  kIndices,
  kBlockTable,
  kQueryLengths,
  kKeyLengths,
  kQueryRope,
  kKeyRope,
  kSinks,
  kOut,
  kSoftmaxMax,
  kSoftmaxSum,
  kRowCount
};

constexpr std::array<Argument, kRowCount> kTable{{
    {.name = "query", .need = Need::kRequired, .dtypes = acl::kHalves},
    {.name = "key", .need = Need::kRequired, .dtypes = acl::kHalves},
    {.name = "value", .dtypes = acl::kHalves},  // absent: the key
    {.name = "sparseIndices", .need = Need::kRequired, .dtypes = acl::kIndices},
    {.name = "blockTableOptional", .dtypes = acl::Bit(DType::kI32)},
    {.name = "actualSeqLengthsQueryOptional", .dtypes = acl::kIndices},
    {.name = "actualSeqLengthsKvOptional", .dtypes = acl::kIndices},
    {.name = "queryRopeOptional", .dtypes = acl::kHalves},
    {.name = "keyRopeOptional", .dtypes = acl::kHalves},
    {.name = "sinksOptional", .dtypes = acl::kF32Only},
    {.name = "attentionOut",
     .need = Need::kRequired,
     .dtypes = acl::kHalves,
     .output = true},
    {.name = "softmaxMaxOut", .dtypes = acl::kF32Only, .output = true},
    {.name = "softmaxSumOut", .dtypes = acl::kF32Only, .output = true},
}};
constexpr std::array<Argument, kRowCount> kFirst = Without(kTable, {kSinks});

struct Args {
  double scaleValue;
  int64_t sparseBlockSize;
  const char* layoutQuery;
  const char* layoutKv;
  int64_t sparseMode;
  int64_t preTokens;
  int64_t nextTokens;
  int64_t attentionMode;
  bool returnSoftmaxLse;
};

constexpr SparseTable kSparse{.query = kQuery,
                              .key = kKey,
                              .value = kValue,
                              .indices = kIndices,
                              .query_lengths = kQueryLengths,
                              .key_lengths = kKeyLengths,
                              .query_rope = kQueryRope,
                              .key_rope = kKeyRope};

struct Call : SparseCall {
  const Args& args;
};

Status CheckScalars(const Args& args) {
  if (args.sparseMode != 0 && args.sparseMode != 3) {
    return Invalid("sparseMode: {}, expected 0 or 3", args.sparseMode);
  }
  if (args.sparseBlockSize < 1) {
    return Invalid("sparseBlockSize: {}, expected a power of two up to 128",
                   args.sparseBlockSize);
  }
  FLASHACL_RETURN_IF_ERROR(CheckTokens("preTokens", args.preTokens));
  FLASHACL_RETURN_IF_ERROR(CheckTokens("nextTokens", args.nextTokens));
  if (args.attentionMode == 2) return {};
  return Invalid("attentionMode: {}, expected 2", args.attentionMode);
}

Status Missing(const Call& call, int row, std::string_view when) {
  return NullArgument("The {} cannot be nullptr {}.", call.name(row), when);
}

// What must be there because of something else, or must not.
Status CheckCompanions(Call& call) {
  call.merged = !call.given(kValue);
  const bool rope = HasRope(call, kQueryRope);
  call.rope = rope && HasRope(call, kKeyRope);
  if (rope != HasRope(call, kKeyRope)) {
    return Missing(call, rope ? kKeyRope : kQueryRope,
                   "when the other rope is given");
  }
  FLASHACL_RETURN_IF_ERROR(CheckLengthsGiven(call));
  if (call.paged != call.has(kBlockTable)) {
    return Invalid("blockTableOptional: {}, but layoutKv is {}PA_BSND",
                   call.paged ? "absent" : "given", call.paged ? "" : "not ");
  }
  if (call.paged && call.has(kSinks)) {
    return Invalid("sinksOptional: given, but keys are in pages");
  }
  if (!call.args.returnSoftmaxLse) return {};
  for (const int row : {kSoftmaxMax, kSoftmaxSum}) {
    if (!call.given(row)) {
      return Missing(call, row, "when returnSoftmaxLse is true");
    }
  }
  if (!call.paged) return {};
  return Invalid("returnSoftmaxLse: true, but keys are in pages");
}

Status CheckShapes(const Call& call) {
  FLASHACL_RETURN_IF_ERROR(CheckKey(call));
  const Result<int64_t> v_dim = ReadValueDim(call);
  if (!v_dim.ok()) return v_dim.status();
  FLASHACL_RETURN_IF_ERROR(CheckLike(call, kOut, kQuery, *v_dim));
  FLASHACL_RETURN_IF_ERROR(CheckRope(call));
  FLASHACL_RETURN_IF_ERROR(CheckIndices(call));
  FLASHACL_RETURN_IF_ERROR(CheckLengths(call));
  if (call.has(kSinks)) {
    const Tensor& sinks = call[kSinks];
    if (sinks.rank != 1 || sinks.dims[0] != call.heads()) {
      return Invalid("sinksOptional: shape {}, expected [{}]", ShapeText(sinks),
                     call.heads());
    }
  }
  if (!call.args.returnSoftmaxLse) return {};
  FLASHACL_RETURN_IF_ERROR(CheckStatistics(call, kSoftmaxMax));
  return CheckStatistics(call, kSoftmaxSum);
}

// What the NPU refuses although it has a meaning. Strict mode only.
Status CheckHardwareLimits(const Call& call) {
  if (!acl::TheEnvironment().strict) return {};
  const int64_t heads = call.heads();
  const int64_t block = call.args.sparseBlockSize;
  const int64_t page = call.paged ? call.key_rows() : 16 * block;
  const int64_t rope_dim = call.has(kQueryRope) ? call.rope_dim() : 64;
  const bool pages = page % 16 == 0 && page % block == 0;
  return CheckLimits(std::to_array<SparseLimit>({
      {IsPowerOfTwo(heads) && heads <= 128, "query", heads, "heads",
       "powers of two up to 128"},
      {call.dim() == 512, "query", call.dim(), "channels", "512"},
      {rope_dim == 64, "queryRopeOptional", rope_dim, "channels", "64"},
      {IsPowerOfTwo(block) && block <= 128, "sparseBlockSize", block, "rows",
       "powers of two up to 128"},
      {!call.paged || (pages && page <= 1024), "key", page, "rows of a block",
       "multiples of 16 and of sparseBlockSize up to 1024"},
  }));
}

Lowered LowerChecked(const Call& call) {
  Lowered lowered;
  AttentionProblem& problem = lowered.problem;
  PlaceProblem(call, lowered);
  problem.v_dim = call.ChannelsOf(kOut);
  problem.score.scale = static_cast<float>(call.args.scaleValue);
  if (call.args.sparseMode == 3) problem.mask.rules = {Causal()};
  PlaceLikeKey(call, {kKey, Slot::kKey}, lowered);
  if (!call.merged) PlaceLikeKey(call, {kValue, Slot::kValue}, lowered);
  if (call.rope) PlaceLikeKey(call, {kKeyRope, Slot::kKeyRope}, lowered);
  if (call.paged) PlacePages(call, kBlockTable, lowered);
  PlaceLikeQuery(call, {kQuery, Slot::kQuery}, lowered);
  PlaceLikeQuery(call, {kIndices, Slot::kTopK}, lowered);
  PlaceLikeQuery(call, {kOut, Slot::kOut}, lowered);
  if (call.rope) PlaceLikeQuery(call, {kQueryRope, Slot::kQueryRope}, lowered);
  if (call.has(kSinks)) {
    PlaceAs(
        call, {kSinks, Slot::kSink},
        Strided(call[kSinks], {0, kOne, kOne, kOne}, {call.heads(), 1, 1, 1}),
        lowered);
  }
  lowered.nothing = call[kOut].empty();
  if (!call.args.returnSoftmaxLse) return lowered;
  for (const Place place :
       {Place{kSoftmaxMax, Slot::kRowMax}, Place{kSoftmaxSum, Slot::kRowSum}}) {
    PlaceStatistics(call, place, lowered);
    lowered.nothing &= call[place.row].empty();
  }
  return lowered;
}

Result<Lowered> Lower(const Arguments& arguments, const Args& args) {
  Call call{
      {.arguments = arguments, .table = kSparse, .block = args.sparseBlockSize},
      args};
  FLASHACL_RETURN_IF_ERROR(arguments.CheckTypes());
  FLASHACL_RETURN_IF_ERROR(ReadLayouts({"layoutQuery", args.layoutQuery},
                                       {"layoutKv", args.layoutKv}, call));
  FLASHACL_RETURN_IF_ERROR(CheckScalars(args));
  FLASHACL_RETURN_IF_ERROR(CheckCompanions(call));
  FLASHACL_RETURN_IF_ERROR(CheckOneType(call));
  FLASHACL_RETURN_IF_ERROR(CheckShapes(call));
  FLASHACL_RETURN_IF_ERROR(ReadColumns(kBlockTable, call));
  FLASHACL_RETURN_IF_ERROR(CheckHardwareLimits(call));
  return LowerChecked(call);
}

}  // namespace

const acl::Operator kSparseFlashAttention{"aclnnSparseFlashAttention", kFirst,
                                          161002};
const acl::Operator kSparseFlashAttentionV2{"aclnnSparseFlashAttentionV2",
                                            kTable, 161002};

}  // namespace flashacl::ops

using namespace flashacl::ops;

extern "C" aclnnStatus aclnnSparseFlashAttentionGetWorkspaceSize(
    const aclTensor* query, const aclTensor* key, const aclTensor* value,
    const aclTensor* sparseIndices, const aclTensor* blockTableOptional,
    const aclTensor* actualSeqLengthsQueryOptional,
    const aclTensor* actualSeqLengthsKvOptional,
    const aclTensor* queryRopeOptional, const aclTensor* keyRopeOptional,
    double scaleValue, int64_t sparseBlockSize, char* layoutQuery,
    char* layoutKv, int64_t sparseMode, int64_t preTokens, int64_t nextTokens,
    int64_t attentionMode, bool returnSoftmaxLse, const aclTensor* attentionOut,
    const aclTensor* softmaxMaxOut, const aclTensor* softmaxSumOut,
    uint64_t* workspaceSize, aclOpExecutor** executor) {
  return Prepare(
      kSparseFlashAttention,
      {query, key, value, sparseIndices, blockTableOptional,
       actualSeqLengthsQueryOptional, actualSeqLengthsKvOptional,
       queryRopeOptional, keyRopeOptional, attentionOut, softmaxMaxOut,
       softmaxSumOut},
      Args{scaleValue, sparseBlockSize, layoutQuery, layoutKv, sparseMode,
           preTokens, nextTokens, attentionMode, returnSoftmaxLse},
      Lower, {workspaceSize, executor});
}

extern "C" aclnnStatus aclnnSparseFlashAttentionV2GetWorkspaceSize(
    const aclTensor* query, const aclTensor* key, const aclTensor* value,
    const aclTensor* sparseIndices, const aclTensor* blockTableOptional,
    const aclTensor* actualSeqLengthsQueryOptional,
    const aclTensor* actualSeqLengthsKvOptional,
    const aclTensor* queryRopeOptional, const aclTensor* keyRopeOptional,
    const aclTensor* sinksOptional, double scaleValue, int64_t sparseBlockSize,
    char* layoutQuery, char* layoutKv, int64_t sparseMode, int64_t preTokens,
    int64_t nextTokens, int64_t attentionMode, bool returnSoftmaxLse,
    const aclTensor* attentionOut, const aclTensor* softmaxMaxOut,
    const aclTensor* softmaxSumOut, uint64_t* workspaceSize,
    aclOpExecutor** executor) {
  return Prepare(
      kSparseFlashAttentionV2,
      {query, key, value, sparseIndices, blockTableOptional,
       actualSeqLengthsQueryOptional, actualSeqLengthsKvOptional,
       queryRopeOptional, keyRopeOptional, sinksOptional, attentionOut,
       softmaxMaxOut, softmaxSumOut},
      Args{scaleValue, sparseBlockSize, layoutQuery, layoutKv, sparseMode,
           preTokens, nextTokens, attentionMode, returnSoftmaxLse},
      Lower, {workspaceSize, executor});
}

FLASHACL_PHASE_TWO(aclnnSparseFlashAttention)

FLASHACL_PHASE_TWO(aclnnSparseFlashAttentionV2)
