// SPDX-License-Identifier: Apache-2.0
// Gradients of attention in which every query row chose its keys, the same for
// all its heads; there is one kv head. Formula and limits are in
// docs/operators/sparse_flash_attention_grad.md.
#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

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

constexpr Argument Output(std::string_view name, Need need = Need::kOptional) {
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
    Output("dQueryOut", Need::kRequired),
    Output("dKeyOut", Need::kRequired),
    Output("dValueOut"),
    Output("dQueryRopeOutOptional"),
    Output("dKeyRopeOutOptional"),
};

// The scalars of a call. Tokens and `deterministic` have no effect: the modes
// offered do not look at tokens, and the result always is deterministic.
struct Args {
  double scaleValue;
  int64_t sparseBlockSize;
  const char* layoutOptional;
  int64_t sparseMode;
};

// What is known of a call while it is being lowered.
struct Call {
  const Arguments& arguments;
  const Args& args;
  Layout layout = kBsnd;
  bool merged = false;  // value is key
  bool rope = false;

  const Tensor& operator[](int row) const { return *arguments.given(row); }
  bool packed() const { return layout.rank == 3; }
  // Axes of the caller's tensors.
  size_t row_axis() const { return packed() ? 0 : 1; }
  size_t head_axis() const { return row_axis() + 1; }
  size_t channel_axis() const { return row_axis() + 2; }
};

Status CheckValues(Call& call) {
  const Args& args = call.args;
  const std::string layout = acl::ReadText(args.layoutOptional);
  if (layout == "TND") {
    call.layout = kTnd;
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
  const bool value = call.arguments.given(kValue) != nullptr;
  if (value != (call.arguments.given(kGradValue) != nullptr)) {
    return NullArgument("The {} cannot be nullptr when the {} is given.",
                        value ? "dValueOut" : "value",
                        value ? "value" : "dValueOut");
  }
  call.merged = !value;
  return {};
}

// A rope or its gradient. Callers without rope pass shape [0]; rope of no rows
// has query's rank.
bool GivenRope(const Call& call, int row) {
  if (call.arguments.has(row)) return true;
  if (call.arguments.given(row) == nullptr) return false;
  const Tensor& tensor = call[row];
  return tensor.rank > 1 && tensor.rank == call[kQuery].rank &&
         tensor.dims[tensor.rank - 1] > 0;
}

// What must be there because of something else. One rope alone counts as none,
// as on the device.
Status CheckCompanions(Call& call) {
  const Arguments& arguments = call.arguments;
  call.rope = GivenRope(call, kQueryRope) && GivenRope(call, kKeyRope);
  for (const int row : {kGradQueryRope, kGradKeyRope}) {
    if (call.rope && !GivenRope(call, row)) {
      return NullArgument("The {} cannot be nullptr when rope is given.",
                          arguments.name(row));
    }
  }
  for (const int row : {kQueryLengths, kKeyLengths}) {
    if (!call.packed()) continue;
    if (arguments.given(row) == nullptr || call[row].rank == 0) {
      return NullArgument("The {} cannot be nullptr in layout TND.",
                          arguments.name(row));
    }
  }
  return {};
}

Status CheckOneType(const Call& call) {
  const aclDataType type = call[kQuery].acl_dtype;
  for (int row = 0; row <= kGradKeyRope; ++row) {
    if (kArguments[row].dtypes != acl::kHalves) continue;
    const Tensor* tensor = call.arguments.at(row);
    if (tensor != nullptr && tensor->acl_dtype != type) {
      return Invalid("{}: data type {} does not match query's {}",
                     kArguments[row].name, acl::TypeText(tensor->acl_dtype),
                     acl::TypeText(type));
    }
  }
  return {};
}

Status CheckShapes(const Call& call) {
  for (const int row : {kQuery, kKey}) {
    FLASHACL_RETURN_IF_ERROR(
        CheckRank(kArguments[row].name, call[row], call.layout, 1));
  }
  const Tensor& query = call[kQuery];
  const Tensor& key = call[kKey];
  const size_t channel = call.channel_axis();
  if (key.dims[call.head_axis()] != 1) {
    return Invalid("key: {} heads, expected 1: all query heads share one",
                   key.dims[call.head_axis()]);
  }
  if (query.dims[channel] != key.dims[channel]) {
    return Invalid("key: head dim {} does not match query head dim {}",
                   key.dims[channel], query.dims[channel]);
  }
  if (!call.packed() && query.dims[0] != key.dims[0]) {
    return Invalid("key: batch size {} does not match query's {}", key.dims[0],
                   query.dims[0]);
  }
  FLASHACL_RETURN_IF_ERROR(CheckLike(call.arguments, kGradQuery, kQuery));
  FLASHACL_RETURN_IF_ERROR(CheckLike(call.arguments, kGradKey, kKey));
  int64_t v_dim = key.dims[channel];
  if (!call.merged) {
    const Tensor& value = call[kValue];
    if (value.rank == key.rank) v_dim = value.dims[channel];
    FLASHACL_RETURN_IF_ERROR(CheckLike(call.arguments, kValue, kKey, v_dim));
    FLASHACL_RETURN_IF_ERROR(CheckLike(call.arguments, kGradValue, kValue));
  }
  FLASHACL_RETURN_IF_ERROR(CheckLike(call.arguments, kGradOut, kQuery, v_dim));
  return CheckLike(call.arguments, kOut, kGradOut);
}

Status CheckRope(const Call& call) {
  if (!call.rope) return {};
  const Tensor& rope = call[kQueryRope];
  const bool axes = rope.rank == call[kQuery].rank;
  const int64_t dim = axes ? rope.dims[call.channel_axis()] : -1;
  FLASHACL_RETURN_IF_ERROR(CheckLike(call.arguments, kQueryRope, kQuery, dim));
  FLASHACL_RETURN_IF_ERROR(CheckLike(call.arguments, kKeyRope, kKey, dim));
  FLASHACL_RETURN_IF_ERROR(
      CheckLike(call.arguments, kGradQueryRope, kQueryRope));
  return CheckLike(call.arguments, kGradKeyRope, kKeyRope);
}

Status CheckLists(const Call& call) {
  FLASHACL_RETURN_IF_ERROR(CheckIndices(call.arguments, kIndices, kQuery));
  for (const int row : {kSoftmaxMax, kSoftmaxSum}) {
    FLASHACL_RETURN_IF_ERROR(CheckStatistics(call.arguments, row, kQuery));
  }
  return {};
}

// At least one when packed: without queries there need not be any length.
int64_t SequencesOf(const Call& call) {
  if (!call.packed()) return call[kQuery].dims[0];
  return std::max<int64_t>(1, call[kQueryLengths].elements());
}

Status CheckLengths(const Call& call) {
  const int64_t sequences =
      call.packed() ? call[kQueryLengths].elements() : call[kQuery].dims[0];
  for (const int row : {kQueryLengths, kKeyLengths}) {
    if (!call.packed() && !call.arguments.has(row)) continue;
    FLASHACL_RETURN_IF_ERROR(CheckOneEach(call.arguments, row, sequences));
  }
  const bool none = call.packed() && sequences == 0 && !call[kQuery].empty();
  if (!none && sequences <= kMaxPlanned) return {};
  return Invalid("{}: {} sequences, expected 1 to 2^20",
                 kArguments[call.packed() ? kQueryLengths : kQuery].name,
                 sequences);
}

// What the NPU refuses although it has a meaning. Strict mode only.
Status CheckHardwareLimits(const Call& call) {
  if (!acl::TheEnvironment().strict) return {};
  const int64_t sequences = SequencesOf(call);
  const int64_t heads = call[kQuery].dims[call.head_axis()];
  const int64_t dim = call[kQuery].dims[call.channel_axis()];
  const int64_t rope =
      call.rope ? call[kQueryRope].dims[call.channel_axis()] : 64;
  const int64_t block = call.args.sparseBlockSize;
  // Of one sequence; how many packed ones have is not known yet.
  const int64_t most =
      call.packed() ? 0 : std::max(call[kQuery].dims[1], call[kKey].dims[1]);
  constexpr std::array<int64_t, 5> kBlocks{1, 8, 16, 32, 64};
  const struct {
    bool fits;
    std::string_view name;
    int64_t given;
    std::string_view unit, takes;
  } limits[] = {
      {sequences <= 256, "query", sequences, "sequences", "up to 256"},
      {most <= 128 * 1024, "query or key", most, "rows", "up to 131072"},
      {IsPowerOfTwo(heads) && heads <= 128, "query", heads, "heads",
       "powers of two up to 128"},
      {dim == 512, "query", dim, "channels", "512"},
      {rope == 64, "queryRopeOptional", rope, "channels", "64"},
      {std::ranges::count(kBlocks, block) > 0, "sparseBlockSize", block, "rows",
       "1, 8, 16, 32 or 64"},
  };
  for (const auto& limit : limits) {
    if (limit.fits) continue;
    return Invalid("{}: {} {}, the NPU takes {}", limit.name, limit.given,
                   limit.unit, limit.takes);
  }
  return {};
}

// States that `slot` is the tensor of `row` in canonical order.
void Place(const Call& call, Lowered& lowered, int row, Slot slot) {
  lowered.problem[slot] =
      Canonical(call[row], call.layout, 1, SequencesOf(call));
  lowered.uses.push_back({row, 0, slot, false, call[row].offset_bytes()});
}

void PlaceStatistics(const Call& call, Lowered& lowered, int row, Slot slot) {
  lowered.problem[slot] = StatisticsSpec(call[row], SequencesOf(call));
  lowered.uses.push_back({row, 0, slot, false, call[row].offset_bytes()});
}

void PlaceLengths(const Call& call, Lowered& lowered) {
  AttentionProblem& problem = lowered.problem;
  const Range rows{0, call[kQuery].dims[call.row_axis()]};
  const Range columns{0, call[kKey].dims[call.row_axis()]};
  problem.lengths.sequences.assign(static_cast<size_t>(SequencesOf(call)),
                                   {rows, columns});
  for (const auto& [row, slot] : {std::pair{kQueryLengths, Slot::kQueryLengths},
                                  std::pair{kKeyLengths, Slot::kKeyLengths}}) {
    if (!call.arguments.has(row)) continue;
    Lengths& lengths = problem.lengths;
    (slot == Slot::kQueryLengths ? lengths.queries : lengths.keys) =
        call.packed() ? Lengths::Device::kEnds : Lengths::Device::kCounts;
    problem[slot] =
        Strided(call[row], {0, kOne, kOne, kOne}, {SequencesOf(call), 1, 1, 1});
    lowered.uses.push_back({row, 0, slot, false, call[row].offset_bytes()});
  }
}

void PlaceTensors(const Call& call, Lowered& lowered) {
  Place(call, lowered, kQuery, Slot::kQuery);
  Place(call, lowered, kKey, Slot::kKey);
  Place(call, lowered, kIndices, Slot::kTopK);
  Place(call, lowered, kGradOut, Slot::kGradOut);
  Place(call, lowered, kOut, Slot::kOut);
  Place(call, lowered, kGradQuery, Slot::kGradQuery);
  Place(call, lowered, kGradKey, Slot::kGradKey);
  if (!call.merged) {
    Place(call, lowered, kValue, Slot::kValue);
    Place(call, lowered, kGradValue, Slot::kGradValue);
  }
  if (call.rope) {
    Place(call, lowered, kQueryRope, Slot::kQueryRope);
    Place(call, lowered, kKeyRope, Slot::kKeyRope);
    Place(call, lowered, kGradQueryRope, Slot::kGradQueryRope);
    Place(call, lowered, kGradKeyRope, Slot::kGradKeyRope);
  }
  PlaceStatistics(call, lowered, kSoftmaxMax, Slot::kRowMax);
  PlaceStatistics(call, lowered, kSoftmaxSum, Slot::kRowSum);
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
  const size_t channel = call.channel_axis();
  problem.direction = Direction::kBackward;
  problem.heads = call[kQuery].dims[call.head_axis()];
  problem.kv_heads = 1;
  problem.qk_dim = call[kQuery].dims[channel];
  problem.rope_dim = call.rope ? call[kQueryRope].dims[channel] : 0;
  problem.v_dim = call[kOut].dims[channel];
  problem.kv.selection = KvSource::Selection::kTopK;
  // A block of more rows than there are is all of them.
  problem.kv.gather_rows =
      std::min(call.args.sparseBlockSize,
               std::max<int64_t>(1, call[kKey].dims[call.row_axis()]));
  problem.kv.value_is_key = call.merged;
  problem.score.scale = static_cast<float>(call.args.scaleValue);
  if (call.args.sparseMode == 3) problem.mask.rules = {Causal()};
  PlaceLengths(call, lowered);
  PlaceTensors(call, lowered);
  if (call[kQuery].empty()) LowerNoQueries(problem);
  lowered.nothing = true;
  for (const int row :
       {kGradQuery, kGradKey, kGradValue, kGradQueryRope, kGradKeyRope}) {
    if (call.arguments.given(row) != nullptr)
      lowered.nothing &= call[row].empty();
  }
  return lowered;
}

Result<Lowered> Lower(const Arguments& arguments, const Args& args) {
  Call call{arguments, args};
  FLASHACL_RETURN_IF_ERROR(CheckValuePair(call));
  FLASHACL_RETURN_IF_ERROR(arguments.CheckTypes());
  FLASHACL_RETURN_IF_ERROR(CheckValues(call));
  FLASHACL_RETURN_IF_ERROR(CheckCompanions(call));
  FLASHACL_RETURN_IF_ERROR(CheckOneType(call));
  FLASHACL_RETURN_IF_ERROR(CheckShapes(call));
  FLASHACL_RETURN_IF_ERROR(CheckRope(call));
  FLASHACL_RETURN_IF_ERROR(CheckLists(call));
  FLASHACL_RETURN_IF_ERROR(CheckLengths(call));
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
