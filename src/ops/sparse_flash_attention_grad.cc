// SPDX-License-Identifier: Apache-2.0
// Gradients of attention in which every query row chose its keys, the same for
// all its heads; there is one kv head. Formula and limits are in
// docs/operators/sparse_flash_attention_grad.md.
#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "acl/environment.h"
#include "aclnnop/aclnn_sparse_flash_attention_grad.h"
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
  kGradOut,
  kOut,
  kSoftmaxMax,
  kSoftmaxSum,
  kQueryLengths,
  kKeyLengths,
  kQueryRope,
  kKeyRope,
  kGradQuery,
  kGradKey,
  kGradValue,
  kGradQueryRope,
  kGradKeyRope
};

constexpr Argument Gradient(std::string_view name,
                            Need need = Need::kOptional) {
  return {.name = name, .need = need, .dtypes = acl::kHalves, .output = true};
}

constexpr Argument kArguments[] = {
    {.name = "query", .need = Need::kRequired, .dtypes = acl::kHalves},
    {.name = "key", .need = Need::kRequired, .dtypes = acl::kHalves},
    // Both absent: the value is the key, and dKeyOut takes both gradients.
    {.name = "value", .dtypes = acl::kHalves},
    {.name = "sparseIndices", .need = Need::kRequired, .dtypes = acl::kIndices},
    {.name = "dOut", .need = Need::kRequired, .dtypes = acl::kHalves},
    {.name = "out", .need = Need::kRequired, .dtypes = acl::kHalves},
    {.name = "softmaxMax", .need = Need::kRequired, .dtypes = acl::kF32Only},
    {.name = "softmaxSum", .need = Need::kRequired, .dtypes = acl::kF32Only},
    {.name = "actualSeqLengthsQueryOptional", .dtypes = acl::kIndices},
    {.name = "actualSeqLengthskvOptional", .dtypes = acl::kIndices},
    {.name = "queryRopeOptional", .dtypes = acl::kHalves},
    {.name = "keyRopeOptional", .dtypes = acl::kHalves},
    Gradient("dQueryOut", Need::kRequired),
    Gradient("dKeyOut", Need::kRequired),
    Gradient("dValueOut"),
    Gradient("dQueryRopeOutOptional"),
    Gradient("dKeyRopeOutOptional"),
};

// The scalars of a call. Tokens and `deterministic` have no effect: the modes
// offered do not look at tokens, and the result always is deterministic.
struct Args {
  double scaleValue;
  int64_t sparseBlockSize;
  const char* layoutOptional;
  int64_t sparseMode;
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

Status CheckValues(Call& call) {
  const Args& args = call.args;
  const std::string layout = acl::ReadText(args.layoutOptional);
  if (layout == "TND") {
    call.layout = call.key_layout = kTnd;
  } else if (args.layoutOptional != nullptr && layout != "BSND") {
    return Invalid("layoutOptional: \"{}\", expected BSND or TND", layout);
  }
  if (args.sparseMode != 0 && args.sparseMode != 3) {
    return Invalid("sparseMode: {}, expected 0 or 3", args.sparseMode);
  }
  if (args.sparseBlockSize < 1) {
    return Invalid("sparseBlockSize: {}, expected 1, 8, 16, 32 or 64",
                   args.sparseBlockSize);
  }
  return {};
}

// Value and its gradient come together or not at all.
Status CheckValuePair(Call& call) {
  const bool value = call.given(kValue);
  if (value != call.given(kGradValue)) {
    return NullArgument("The {} cannot be nullptr when the {} is given.",
                        value ? "dValueOut" : "value",
                        value ? "value" : "dValueOut");
  }
  call.merged = !value;
  return {};
}

// What must be there because of something else. One rope alone counts as none,
// as on the device.
Status CheckCompanions(Call& call) {
  const Arguments& arguments = call.arguments;
  call.rope = HasRope(call, kQueryRope) && HasRope(call, kKeyRope);
  for (const int row : {kGradQueryRope, kGradKeyRope}) {
    if (call.rope && !HasRope(call, row)) {
      return NullArgument("The {} cannot be nullptr when rope is given.",
                          arguments.name(row));
    }
  }
  for (const int row : {kQueryLengths, kKeyLengths}) {
    if (!call.packed()) continue;
    if (!call.given(row) || call[row].rank == 0) {
      return NullArgument("The {} cannot be nullptr in layout TND.",
                          arguments.name(row));
    }
  }
  return {};
}

Status CheckShapes(const Call& call) {
  FLASHACL_RETURN_IF_ERROR(CheckKey(call));
  FLASHACL_RETURN_IF_ERROR(CheckLike(call, kGradQuery, kQuery));
  FLASHACL_RETURN_IF_ERROR(CheckLike(call, kGradKey, kKey));
  const Result<int64_t> v_dim = ReadValueDim(call);
  if (!v_dim.ok()) return v_dim.status();
  if (!call.merged) {
    FLASHACL_RETURN_IF_ERROR(CheckLike(call, kGradValue, kValue));
  }
  FLASHACL_RETURN_IF_ERROR(CheckLike(call, kGradOut, kQuery, *v_dim));
  FLASHACL_RETURN_IF_ERROR(CheckLike(call, kOut, kGradOut));
  FLASHACL_RETURN_IF_ERROR(CheckRope(call));
  if (call.rope) {
    FLASHACL_RETURN_IF_ERROR(CheckLike(call, kGradQueryRope, kQueryRope));
    FLASHACL_RETURN_IF_ERROR(CheckLike(call, kGradKeyRope, kKeyRope));
  }
  FLASHACL_RETURN_IF_ERROR(CheckIndices(call));
  FLASHACL_RETURN_IF_ERROR(CheckStatistics(call, kSoftmaxMax));
  FLASHACL_RETURN_IF_ERROR(CheckStatistics(call, kSoftmaxSum));
  return CheckLengths(call);
}

// What the NPU refuses although it has a meaning. Strict mode only.
Status CheckHardwareLimits(const Call& call) {
  if (!acl::TheEnvironment().strict) return {};
  const int64_t sequences = call.sequences();
  const int64_t rope = call.rope ? call.rope_dim() : 64;
  // Of one sequence; how many packed ones have is not known yet.
  const int64_t most =
      call.packed() ? 0 : std::max(call.rows(), call.key_rows());
  constexpr std::array<int64_t, 5> kBlocks{1, 8, 16, 32, 64};
  return CheckLimits(std::to_array<SparseLimit>({
      {sequences <= 256, "query", sequences, "sequences", "up to 256"},
      {most <= 128 * 1024, "query or key", most, "rows", "up to 131072"},
      {IsPowerOfTwo(call.heads()) && call.heads() <= 128, "query", call.heads(),
       "heads", "powers of two up to 128"},
      {call.dim() == 512, "query", call.dim(), "channels", "512"},
      {rope == 64, "queryRopeOptional", rope, "channels", "64"},
      {std::ranges::count(kBlocks, call.block) > 0, "sparseBlockSize",
       call.block, "rows", "1, 8, 16, 32 or 64"},
  }));
}

void PlaceTensors(const Call& call, Lowered& lowered) {
  PlaceLikeQuery(call, {kQuery, Slot::kQuery}, lowered);
  PlaceLikeKey(call, {kKey, Slot::kKey}, lowered);
  PlaceLikeQuery(call, {kIndices, Slot::kTopK}, lowered);
  PlaceLikeQuery(call, {kGradOut, Slot::kGradOut}, lowered);
  PlaceLikeQuery(call, {kOut, Slot::kOut}, lowered);
  PlaceLikeQuery(call, {kGradQuery, Slot::kGradQuery}, lowered);
  PlaceLikeKey(call, {kGradKey, Slot::kGradKey}, lowered);
  if (!call.merged) {
    PlaceLikeKey(call, {kValue, Slot::kValue}, lowered);
    PlaceLikeKey(call, {kGradValue, Slot::kGradValue}, lowered);
  }
  if (call.rope) {
    PlaceLikeQuery(call, {kQueryRope, Slot::kQueryRope}, lowered);
    PlaceLikeKey(call, {kKeyRope, Slot::kKeyRope}, lowered);
    PlaceLikeQuery(call, {kGradQueryRope, Slot::kGradQueryRope}, lowered);
    PlaceLikeKey(call, {kGradKeyRope, Slot::kGradKeyRope}, lowered);
  }
  PlaceStatistics(call, {kSoftmaxMax, Slot::kRowMax}, lowered);
  PlaceStatistics(call, {kSoftmaxSum, Slot::kRowSum}, lowered);
}

// A query without elements attends to nothing: what is left are the zeros of
// rows that no sequence has. If it has no heads, a head of no rows writes them.
void LowerNoQueries(AttentionProblem& problem) {
  for (Sequence& sequence : problem.lengths.sequences) sequence = {};
  problem.lengths.queries = problem.lengths.keys = Lengths::Device::kNone;
  problem[Slot::kQueryLengths] = {};
  problem[Slot::kKeyLengths] = {};
  if (problem.heads > 0) return;
  problem.heads = 1;
  for (const Slot slot :
       {Slot::kQuery, Slot::kQueryRope, Slot::kGradOut, Slot::kOut,
        Slot::kGradQuery, Slot::kGradQueryRope, Slot::kRowMax, Slot::kRowSum}) {
    if (!problem.has(slot)) continue;
    const bool grid = slot == Slot::kRowMax || slot == Slot::kRowSum;
    problem[slot].dims[grid ? 1 : 2] = 1;
    problem[slot].dims[grid ? 2 : 1] = 0;
  }
}

Lowered LowerChecked(const Call& call) {
  Lowered lowered;
  AttentionProblem& problem = lowered.problem;
  problem.direction = Direction::kBackward;
  PlaceProblem(call, lowered);
  problem.v_dim = call.ChannelsOf(kOut);
  problem.score.scale = static_cast<float>(call.args.scaleValue);
  if (call.args.sparseMode == 3) problem.mask.rules = {Causal()};
  PlaceTensors(call, lowered);
  if (call[kQuery].empty()) LowerNoQueries(problem);
  lowered.nothing = true;
  for (const int row :
       {kGradQuery, kGradKey, kGradValue, kGradQueryRope, kGradKeyRope}) {
    if (call.given(row)) lowered.nothing &= call[row].empty();
  }
  return lowered;
}

Result<Lowered> Lower(const Arguments& arguments, const Args& args) {
  Call call{{.arguments = arguments,
             .table = kSparse,
             .block = args.sparseBlockSize,
             .min_sequences = 1},
            args};
  FLASHACL_RETURN_IF_ERROR(CheckValuePair(call));
  FLASHACL_RETURN_IF_ERROR(arguments.CheckTypes());
  FLASHACL_RETURN_IF_ERROR(CheckValues(call));
  FLASHACL_RETURN_IF_ERROR(CheckCompanions(call));
  FLASHACL_RETURN_IF_ERROR(CheckOneType(call));
  FLASHACL_RETURN_IF_ERROR(CheckShapes(call));
  call.columns = call.key_rows();
  FLASHACL_RETURN_IF_ERROR(CheckHardwareLimits(call));
  return LowerChecked(call);
}

}  // namespace

const acl::Operator kSparseFlashAttentionGrad{"aclnnSparseFlashAttentionGrad",
                                              kArguments, 161002};

}  // namespace flashacl::ops

using namespace flashacl::ops;

extern "C" aclnnStatus aclnnSparseFlashAttentionGradGetWorkspaceSize(
    const aclTensor* query, const aclTensor* key, const aclTensor* value,
    const aclTensor* sparseIndices, const aclTensor* dOut, const aclTensor* out,
    const aclTensor* softmaxMax, const aclTensor* softmaxSum,
    const aclTensor* actualSeqLengthsQueryOptional,
    const aclTensor* actualSeqLengthskvOptional,
    const aclTensor* queryRopeOptional, const aclTensor* keyRopeOptional,
    double scaleValue, int64_t sparseBlockSize, char* layoutOptional,
    int64_t sparseMode, int64_t /*preTokens*/, int64_t /*nextTokens*/,
    bool /*deterministic*/, const aclTensor* dQueryOut,
    const aclTensor* dKeyOut, const aclTensor* dValueOut,
    const aclTensor* dQueryRopeOutOptional,
    const aclTensor* dKeyRopeOutOptional, uint64_t* workspaceSize,
    aclOpExecutor** executor) {
  return Prepare(
      kSparseFlashAttentionGrad,
      {query, key, value, sparseIndices, dOut, out, softmaxMax, softmaxSum,
       actualSeqLengthsQueryOptional, actualSeqLengthskvOptional,
       queryRopeOptional, keyRopeOptional, dQueryOut, dKeyOut, dValueOut,
       dQueryRopeOutOptional, dKeyRopeOutOptional},
      Args{scaleValue, sparseBlockSize, layoutOptional, sparseMode}, Lower,
      {workspaceSize, executor});
}

FLASHACL_PHASE_TWO(aclnnSparseFlashAttentionGrad)
