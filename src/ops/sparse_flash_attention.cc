// SPDX-License-Identifier: Apache-2.0
// Attention in which every query row chose its keys, the same for all its
// heads; there is one kv head, perhaps in pages: aclnnSparseFlashAttention, V2.
// Formula and limits are in docs/operators/sparse_flash_attention.md.
#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

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

// What is known of a call while it is being lowered.
struct Call {
  const Arguments& arguments;
  const Args& args;
  Layout layout = kBsnd;      // of queries
  Layout key_layout = kBsnd;  // of keys; of pages, [page, row, head, channel]
  bool paged = false;
  bool merged = false;  // value is key
  bool rope = false;
  int64_t columns = 0;  // most keys of a sequence; packed, of all

  const Tensor& operator[](int row) const { return *arguments.given(row); }
  bool has(int row) const { return arguments.has(row); }
  std::string_view name(int row) const { return arguments.name(row); }
  bool packed() const { return layout.rank == 3; }
  bool packed_keys() const { return key_layout.rank == 3; }

  int64_t query_dim(size_t axis_from_the_end) const {
    const Tensor& query = (*this)[kQuery];
    return query.dims[query.rank - axis_from_the_end];
  }
  int64_t rows() const { return query_dim(3); }
  int64_t heads() const { return query_dim(2); }
  int64_t sequences() const {
    return packed() ? (*this)[kQueryLengths].elements()
                    : (*this)[kQuery].dims[0];
  }
};

Status ReadLayouts(Call& call) {
  const auto read = [](const char* text) {
    return text == nullptr ? std::string("BSND") : acl::ReadText(text);
  };
  const std::string query = read(call.args.layoutQuery);
  const std::string key = read(call.args.layoutKv);
  if (query != "BSND" && query != "TND") {
    return Invalid("layoutQuery: \"{}\", expected BSND or TND", query);
  }
  call.layout = query == "TND" ? kTnd : kBsnd;
  call.paged = key == "PA_BSND";
  if (!call.paged && key != query) {
    return Invalid("layoutKv: \"{}\", expected {} as layoutQuery, or PA_BSND",
                   key, query);
  }
  call.key_layout = call.paged ? kBsnd : call.layout;
  return {};
}

Status CheckScalars(const Args& args) {
  if (args.sparseMode != 0 && args.sparseMode != 3) {
    return Invalid("sparseMode: {}, expected 0 or 3", args.sparseMode);
  }
  if (args.sparseBlockSize < 1) {
    return Invalid("sparseBlockSize: {}, expected a power of two up to 128",
                   args.sparseBlockSize);
  }
  const auto check_tokens = [](std::string_view name,
                               int64_t tokens) -> Status {
    if (tokens == std::numeric_limits<int64_t>::max()) return {};
    if (tokens == std::numeric_limits<int32_t>::max()) return {};
    return Invalid("{}: {}, expected 9223372036854775807", name, tokens);
  };
  FLASHACL_RETURN_IF_ERROR(check_tokens("preTokens", args.preTokens));
  FLASHACL_RETURN_IF_ERROR(check_tokens("nextTokens", args.nextTokens));
  if (args.attentionMode == 2) return {};
  return Invalid("attentionMode: {}, expected 2", args.attentionMode);
}

// A rope, absent as shape [0]; one of no rows has query's rank.
bool GivenRope(const Call& call, int row) {
  if (call.has(row)) return true;
  if (call.arguments.given(row) == nullptr) return false;
  const Tensor& tensor = call[row];
  return tensor.rank > 1 && tensor.rank == call[kQuery].rank &&
         tensor.dims[tensor.rank - 1] > 0;
}

Status Missing(const Call& call, int row, std::string_view when) {
  return NullArgument("The {} cannot be nullptr {}.", call.name(row), when);
}

// What must be there because of something else, or must not.
Status CheckCompanions(Call& call) {
  call.merged = call.arguments.given(kValue) == nullptr;
  const bool rope = GivenRope(call, kQueryRope);
  call.rope = rope && GivenRope(call, kKeyRope);
  if (rope != GivenRope(call, kKeyRope)) {
    return Missing(call, rope ? kKeyRope : kQueryRope,
                   "when the other rope is given");
  }
  const auto lengths_there = [&](int row) {
    return call.arguments.given(row) != nullptr && call[row].rank > 0;
  };
  if (call.packed() && !lengths_there(kQueryLengths)) {
    return Missing(call, kQueryLengths, "in layout TND");
  }
  if ((call.paged || call.packed_keys()) && !lengths_there(kKeyLengths)) {
    return Missing(call, kKeyLengths, "in layouts TND and PA_BSND");
  }
  if (call.paged != call.has(kBlockTable)) {
    return Invalid("blockTableOptional: {}, but layoutKv is {}PA_BSND",
                   call.paged ? "absent" : "given", call.paged ? "" : "not ");
  }
  if (call.paged && call.has(kSinks)) {
    return Invalid("sinksOptional: given, but keys are in pages");
  }
  if (!call.args.returnSoftmaxLse) return {};
  for (const int row : {kSoftmaxMax, kSoftmaxSum}) {
    if (call.arguments.given(row) == nullptr) {
      return Missing(call, row, "when returnSoftmaxLse is true");
    }
  }
  if (!call.paged) return {};
  return Invalid("returnSoftmaxLse: true, but keys are in pages");
}

Status CheckOneType(const Call& call) {
  const aclDataType type = call[kQuery].acl_dtype;
  for (const int row : {kKey, kValue, kQueryRope, kKeyRope, kOut}) {
    const Tensor* tensor = call.arguments.at(row);
    if (tensor == nullptr || tensor->acl_dtype == type) continue;
    return Invalid("{}: data type {} does not match query's {}", call.name(row),
                   acl::TypeText(tensor->acl_dtype), acl::TypeText(type));
  }
  return {};
}

Status CheckShapes(const Call& call) {
  FLASHACL_RETURN_IF_ERROR(CheckRank("query", call[kQuery], call.layout, 1));
  FLASHACL_RETURN_IF_ERROR(CheckRank("key", call[kKey], call.key_layout, 1));
  const Tensor& key = call[kKey];
  const int64_t dim = key.dims[key.rank - 1];
  if (key.dims[key.rank - 2] != 1) {
    return Invalid("key: {} heads, expected 1: all query heads share one",
                   key.dims[key.rank - 2]);
  }
  if (dim != call.query_dim(1)) {
    return Invalid("key: head dim {} does not match query head dim {}", dim,
                   call.query_dim(1));
  }
  if (!call.packed() && !call.paged && key.dims[0] != call[kQuery].dims[0]) {
    return Invalid("key: batch size {} does not match query's {}", key.dims[0],
                   call[kQuery].dims[0]);
  }
  int64_t v_dim = dim;
  if (!call.merged) {
    const Tensor& value = call[kValue];
    if (value.rank == key.rank) v_dim = value.dims[key.rank - 1];
    FLASHACL_RETURN_IF_ERROR(CheckLike(call.arguments, kValue, kKey, v_dim));
  }
  FLASHACL_RETURN_IF_ERROR(CheckLike(call.arguments, kOut, kQuery, v_dim));
  if (!call.rope) return {};
  const Tensor& rope = call[kQueryRope];
  const int64_t rope_dim =
      rope.rank == call[kQuery].rank ? rope.dims[rope.rank - 1] : -1;
  FLASHACL_RETURN_IF_ERROR(
      CheckLike(call.arguments, kQueryRope, kQuery, rope_dim));
  return CheckLike(call.arguments, kKeyRope, kKey, rope_dim);
}

// Lists, lengths, sinks and statistics.
Status CheckTheRest(const Call& call) {
  FLASHACL_RETURN_IF_ERROR(CheckIndices(call.arguments, kIndices, kQuery));
  const int64_t sequences = call.sequences();
  for (const int row : {kQueryLengths, kKeyLengths}) {
    const bool needed =
        row == kQueryLengths ? call.packed() : call.packed_keys() || call.paged;
    if (!needed && !call.has(row)) continue;
    FLASHACL_RETURN_IF_ERROR(CheckOneEach(call.arguments, row, sequences));
  }
  const bool none = call.packed() && sequences == 0 && !call[kQuery].empty();
  if (none || sequences > kMaxPlanned) {
    return Invalid("{}: {} sequences, expected 1 to 2^20",
                   call.name(call.packed() ? kQueryLengths : kQuery),
                   sequences);
  }
  if (call.has(kSinks)) {
    const Tensor& sinks = call[kSinks];
    if (sinks.rank != 1 || sinks.dims[0] != call.heads()) {
      return Invalid("sinksOptional: shape {}, expected [{}]", ShapeText(sinks),
                     call.heads());
    }
  }
  if (!call.args.returnSoftmaxLse) return {};
  FLASHACL_RETURN_IF_ERROR(
      CheckStatistics(call.arguments, kSoftmaxMax, kQuery));
  return CheckStatistics(call.arguments, kSoftmaxSum, kQuery);
}

// How many keys a sequence may have.
Status ReadColumns(Call& call) {
  const Tensor& key = call[kKey];
  const int64_t rows = key.dims[key.rank - 3];
  call.columns = rows;
  if (!call.paged) return {};
  const Tensor& table = call[kBlockTable];
  if (table.rank != 2 || table.dims[0] < call.sequences()) {
    return Invalid("blockTableOptional: shape {}, expected [{}, blocks]",
                   ShapeText(table), call.sequences());
  }
  if (rows < 1) {
    return Invalid("key: shape {} has blocks of no rows", ShapeText(key));
  }
  if (!__builtin_mul_overflow(table.dims[1], rows, &call.columns)) return {};
  return Invalid("blockTableOptional: shape {} lists too many blocks",
                 ShapeText(table));
}

// What the NPU refuses although it has a meaning. Strict mode only.
Status CheckHardwareLimits(const Call& call) {
  if (!acl::TheEnvironment().strict) return {};
  const int64_t heads = call.heads();
  const int64_t block = call.args.sparseBlockSize;
  const Tensor& key = call[kKey];
  const int64_t page = call.paged ? key.dims[1] : 16 * block;
  const Tensor* const rope = call.arguments.at(kQueryRope);
  const int64_t rope_dim = rope == nullptr ? 64 : rope->dims[rope->rank - 1];
  const bool pages = page % 16 == 0 && page % block == 0;
  const struct {
    bool fits;
    std::string_view name;
    int64_t given;
    std::string_view unit, takes;
  } limits[] = {
      {IsPowerOfTwo(heads) && heads <= 128, "query", heads, "heads",
       "powers of two up to 128"},
      {call.query_dim(1) == 512, "query", call.query_dim(1), "channels", "512"},
      {rope_dim == 64, "queryRopeOptional", rope_dim, "channels", "64"},
      {IsPowerOfTwo(block) && block <= 128, "sparseBlockSize", block, "rows",
       "powers of two up to 128"},
      {!call.paged || (pages && page <= 1024), "key", page, "rows of a block",
       "multiples of 16 and of sparseBlockSize up to 1024"},
  };
  for (const auto& limit : limits) {
    if (limit.fits) continue;
    return Invalid("{}: {} {}, the NPU takes {}", limit.name, limit.given,
                   limit.unit, limit.takes);
  }
  return {};
}

void Bind(const Call& call, Lowered& lowered, int row, Slot slot) {
  lowered.uses.push_back({row, 0, slot, false, call[row].offset_bytes()});
}

void PlaceQueryLike(const Call& call, Lowered& lowered, int row, Slot slot) {
  lowered.problem[slot] =
      Canonical(call[row], call.layout, 1, call.sequences());
  Bind(call, lowered, row, slot);
}

void PlaceKeyLike(const Call& call, Lowered& lowered, int row, Slot slot) {
  lowered.problem[slot] =
      Canonical(call[row], call.key_layout, 1, call.sequences());
  Bind(call, lowered, row, slot);
}

void PlaceLengths(const Call& call, Lowered& lowered) {
  using Device = Lengths::Device;
  AttentionProblem& problem = lowered.problem;
  Lengths& lengths = problem.lengths;
  lengths.sequences.assign(static_cast<size_t>(call.sequences()),
                           {{0, call.rows()}, {0, call.columns}});
  const auto place = [&](int row, Slot slot, bool packed) {
    if (!call.has(row)) return Device::kNone;
    problem[slot] =
        Strided(call[row], {0, kOne, kOne, kOne}, {call.sequences(), 1, 1, 1});
    Bind(call, lowered, row, slot);
    return packed ? Device::kEnds : Device::kCounts;
  };
  lengths.queries = place(kQueryLengths, Slot::kQueryLengths, call.packed());
  lengths.keys = place(kKeyLengths, Slot::kKeyLengths, call.packed_keys());
}

void PlaceKeys(const Call& call, Lowered& lowered) {
  KvSource& kv = lowered.problem.kv;
  kv.selection = KvSource::Selection::kTopK;
  // A block of more rows than there are is all of them.
  kv.gather_rows =
      std::min(call.args.sparseBlockSize, std::max<int64_t>(1, call.columns));
  kv.value_is_key = call.merged;
  PlaceKeyLike(call, lowered, kKey, Slot::kKey);
  if (!call.merged) PlaceKeyLike(call, lowered, kValue, Slot::kValue);
  if (call.rope) PlaceKeyLike(call, lowered, kKeyRope, Slot::kKeyRope);
  if (!call.paged) return;
  kv.rows = KvSource::Rows::kPaged;
  kv.page_rows = call[kKey].dims[1];
  lowered.problem[Slot::kBlockTable] =
      Strided(call[kBlockTable], {0, 1, kOne, kOne}, {});
  Bind(call, lowered, kBlockTable, Slot::kBlockTable);
}

Lowered LowerChecked(const Call& call) {
  Lowered lowered;
  AttentionProblem& problem = lowered.problem;
  problem.heads = call.heads();
  problem.kv_heads = 1;
  problem.qk_dim = call.query_dim(1);
  problem.rope_dim =
      call.rope ? call[kQueryRope].dims[call[kQueryRope].rank - 1] : 0;
  problem.v_dim = call[kOut].dims[call[kOut].rank - 1];
  problem.score.scale = static_cast<float>(call.args.scaleValue);
  if (call.args.sparseMode == 3) problem.mask.rules = {Causal()};
  PlaceLengths(call, lowered);
  PlaceKeys(call, lowered);
  PlaceQueryLike(call, lowered, kQuery, Slot::kQuery);
  PlaceQueryLike(call, lowered, kIndices, Slot::kTopK);
  PlaceQueryLike(call, lowered, kOut, Slot::kOut);
  if (call.rope) PlaceQueryLike(call, lowered, kQueryRope, Slot::kQueryRope);
  if (call.has(kSinks)) {
    problem[Slot::kSink] =
        Strided(call[kSinks], {0, kOne, kOne, kOne}, {problem.heads, 1, 1, 1});
    Bind(call, lowered, kSinks, Slot::kSink);
  }
  lowered.nothing = call[kOut].empty();
  if (!call.args.returnSoftmaxLse) return lowered;
  for (const auto& [row, slot] : {std::pair{kSoftmaxMax, Slot::kRowMax},
                                  std::pair{kSoftmaxSum, Slot::kRowSum}}) {
    problem[slot] = StatisticsSpec(call[row], call.sequences());
    Bind(call, lowered, row, slot);
    lowered.nothing &= call[row].empty();
  }
  return lowered;
}

Result<Lowered> Lower(const Arguments& arguments, const Args& args) {
  Call call{arguments, args};
  FLASHACL_RETURN_IF_ERROR(arguments.CheckTypes());
  FLASHACL_RETURN_IF_ERROR(ReadLayouts(call));
  FLASHACL_RETURN_IF_ERROR(CheckScalars(args));
  FLASHACL_RETURN_IF_ERROR(CheckCompanions(call));
  FLASHACL_RETURN_IF_ERROR(CheckOneType(call));
  FLASHACL_RETURN_IF_ERROR(CheckShapes(call));
  FLASHACL_RETURN_IF_ERROR(CheckTheRest(call));
  FLASHACL_RETURN_IF_ERROR(ReadColumns(call));
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
