// SPDX-License-Identifier: Apache-2.0
// Attention of one new token per sequence: aclnnIncreFlashAttentionV4.
//   out = softmax(scale * q k^T + pse where the mask lets see) v
// over the valid keys of a cache, which may be INT8: scale * (key + offset).
// docs/operators/incre_flash_attention.md has the arguments and the limits.
#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "aclnnop/aclnn_incre_flash_attention_v4.h"
#include "ops/canonical.h"
#include "ops/inference.h"
#include "ops/inference_cache.h"
#include "ops/inference_factors.h"
#include "ops/operators.h"

namespace flashacl::ops {
namespace {

using acl::Argument;
using acl::Arguments;
using acl::Bit;
using acl::Lowered;
using acl::Need;
using acl::Tensor;

enum Row {
  kQuery,
  kKey,
  kValue,
  kPse,
  kMask,
  kDequantScale1,
  kQuantScale1,
  kDequantScale2,
  kQuantScale2,
  kQuantOffset2,
  kAntiquantScale,
  kAntiquantOffset,
  kBlockTable,
  kKvPadding,
  kOut,
};

constexpr acl::DTypeSet kRows = acl::kHalves | Bit(DType::kI8);
constexpr acl::DTypeSet kWhole = Bit(DType::kU64) | Bit(DType::kF32);
constexpr acl::DTypeSet kScales = Bit(DType::kF32) | Bit(DType::kBf16);

constexpr Argument kArguments[] = {
    {.name = "query", .need = Need::kRequired, .dtypes = acl::kHalves},
    {.name = "key", .need = Need::kRequired, .dtypes = kRows, .list = true},
    {.name = "value", .need = Need::kRequired, .dtypes = kRows, .list = true},
    {.name = "pseShift", .dtypes = acl::kHalves},
    {.name = "attenMask", .dtypes = acl::kMaskBytes},
    {.name = "dequantScale1", .dtypes = kWhole},
    {.name = "quantScale1", .dtypes = kScales},
    {.name = "dequantScale2", .dtypes = kWhole},
    {.name = "quantScale2", .dtypes = kScales},
    {.name = "quantOffset2", .dtypes = kScales},
    {.name = "antiquantScale", .dtypes = acl::kFloats},
    {.name = "antiquantOffset", .dtypes = acl::kFloats},
    {.name = "blocktable", .dtypes = Bit(DType::kI32)},
    {.name = "kvPaddingSize", .dtypes = Bit(DType::kI64)},
    {.name = "attentionOut",
     .need = Need::kRequired,
     .dtypes = kRows,
     .output = true},
};

struct Args {
  const aclIntArray* actualSeqLengths;
  int64_t numHeads;
  double scaleValue;
  const char* inputLayout;
  int64_t numKeyValueHeads;
  int64_t blockSize;
  int64_t innerPrecise;
};

// What is known of a call while it is being lowered.
struct Call {
  const Arguments& arguments;
  const Args& args;
  Layout layout = kBsh;
  int64_t kv_heads = 0;
  TensorSpec query = {};
  Cache cache = {};
  std::vector<Sequence> sequences = {};
  int64_t most_keys = 0;     // valid ones, of the longest sequence
  bool left_padded = false;  // keys stand before kvPaddingSize unused rows

  const Tensor& operator[](int row) const { return arguments[row]; }
  bool has(int row) const { return arguments.has(row); }
  std::string_view name(int row) const { return arguments.name(row); }
  bool paged() const { return cache.source.rows == KvSource::Rows::kPaged; }
  DType key_type() const { return arguments.list(kKey)[0]->dtype(); }
};

// Types that may stand together, beyond what the table says of each.
Status CheckTypes(const Call& call) {
  FLASHACL_RETURN_IF_ERROR(call.arguments.CheckTypes());
  const Tensor& query = call[kQuery];
  const auto differs = [&](std::string_view name, const Tensor& tensor) {
    return Invalid("{}: data type {} does not go with query's {}", name,
                   acl::TypeText(tensor.acl_dtype),
                   acl::TypeText(query.acl_dtype));
  };
  const std::span<const acl::Entry> keys = call.arguments.list(kKey);
  for (const int row : {kKey, kValue}) {
    for (const acl::Entry& entry : call.arguments.list(row)) {
      const DType type = entry->dtype();
      if (type != query.dtype() && type != DType::kI8) {
        return differs(call.name(row), *entry.tensor);
      }
      if (keys.empty() || type == keys[0]->dtype()) continue;
      return Invalid("{}: data type {} does not match key's {}", call.name(row),
                     acl::TypeText(entry->acl_dtype),
                     acl::TypeText(keys[0]->acl_dtype));
    }
  }
  const DType out = call[kOut].dtype();
  if (out != query.dtype() && out != DType::kI8) {
    return differs(call.name(kOut), call[kOut]);
  }
  if (call.has(kPse) && call[kPse].dtype() != query.dtype()) {
    return differs(call.name(kPse), call[kPse]);
  }
  return {};
}

Status ReadLayout(Call& call) {
  for (const Layout& layout : {kBsh, kBsnd, kBnsd}) {
    if (!Equals(call.args.inputLayout, layout.name)) continue;
    call.layout = layout;
    return {};
  }
  return Contradiction("inputLayout: \"{}\", expected BSH, BSND or BNSD",
                       acl::ReadText(call.args.inputLayout));
}

Status CheckScalars(const Call& call) {
  if (call.args.numHeads <= 0) {
    return Contradiction("numHeads: {}, expected at least 1",
                         call.args.numHeads);
  }
  if (call.args.innerPrecise != 0 && call.args.innerPrecise != 1) {
    return Contradiction("innerPrecise: {}, expected 0 or 1",
                         call.args.innerPrecise);
  }
  return {};
}

Status ReadQuery(Call& call) {
  const Tensor& query = call[kQuery];
  const int64_t heads = call.args.numHeads;
  Result<int64_t> kv_heads = KeyHeads(heads, call.args.numKeyValueHeads);
  if (!kv_heads.ok()) return kv_heads.status();
  call.kv_heads = *kv_heads;
  if (Status rank = CheckRank("query", query, call.layout, heads); !rank.ok()) {
    return Contradiction("{}", rank.message());
  }
  call.query = Canonical(query, call.layout, heads, 1);
  if (query.empty()) {
    return Contradiction("query: shape {} has no elements", ShapeText(query));
  }
  FLASHACL_RETURN_IF_ERROR(
      CheckExtents("query", call.query, {.rows = 1, .heads = heads}));
  const int64_t dim = call.query.dims[3];
  if (call.query.dims[0] > kMostSequences || dim > kMostDim) {
    return Contradiction(
        "query: {} sequences with head dim {}, expected at most {} and {}",
        call.query.dims[0], dim, kMostSequences, kMostDim);
  }
  if (SameShape(call[kOut], query)) return {};
  return Contradiction("attentionOut: shape {} does not match query's {}",
                       ShapeText(call[kOut]), ShapeText(query));
}

// A table of shape [0] is none; one with empty axes lists no blocks, which no
// call with pages can mean.
const Tensor* BlockTable(const Arguments& arguments) {
  const Tensor* table = arguments.list(kBlockTable)[0].tensor.get();
  if (table == nullptr || table->rank == 0) return nullptr;
  return table->rank == 1 && table->empty() ? nullptr : table;
}

Status ReadKeys(Call& call) {
  const CacheTerms terms{.layout = call.layout,
                         .sequences = call.query.dims[0],
                         .kv_heads = call.kv_heads,
                         .dim = call.query.dims[3],
                         .block_table = BlockTable(call.arguments),
                         .block_size = call.args.blockSize};
  Result<Cache> cache =
      ReadCache(call.arguments.list(kKey), call.arguments.list(kValue), terms);
  if (!cache.ok()) return cache.status();
  call.cache = *std::move(cache);
  return {};
}

Status ReadSequences(Call& call) {
  const size_t count = call.cache.columns.size();
  Result<std::vector<int64_t>> lengths =
      ReadLengths("actualSeqLengths", call.args.actualSeqLengths,
                  static_cast<int64_t>(count));
  if (!lengths.ok()) return lengths.status();
  const bool given = !lengths->empty();
  if (!given && call.paged()) {
    return Contradiction("actualSeqLengths: absent, but needed with pages");
  }
  for (size_t b = 0; b < count; ++b) {
    const int64_t room = call.cache.columns[b];
    const int64_t length = given ? (*lengths)[b] : room;
    if (length < 0 || length > room) {
      return Contradiction(
          "actualSeqLengths: {} for sequence {}, expected 0 to {}", length, b,
          room);
    }
    call.sequences.push_back({{0, 1}, {0, length}});
    call.most_keys = std::max(call.most_keys, length);
  }
  call.left_padded = call.has(kKvPadding) && given &&
                     call.cache.source.rows == KvSource::Rows::kStrided;
  return {};
}

// One element per head and column of the cache.
Result<TensorSpec> BiasGrid(const Call& call) {
  const Tensor& pse = call[kPse];
  const int64_t sequences = call.query.dims[0];
  if (pse.rank != 4 || (pse.dims[0] != 1 && pse.dims[0] != sequences) ||
      pse.dims[1] != call.args.numHeads || pse.dims[2] != 1 ||
      pse.dims[3] < call.cache.most_columns) {
    return Contradiction("pseShift: shape {}, expected [{} or 1, {}, 1, {}]",
                         ShapeText(pse), sequences, call.args.numHeads,
                         call.cache.most_columns);
  }
  return Strided(pse, {0, 1, 2, 3}, {sequences, 1, 1, 1});
}

// [B, S], [B, 1, S] or [B, 1, 1, S].
Result<TensorSpec> MaskGrid(const Call& call) {
  const Tensor& mask = call[kMask];
  const int64_t sequences = call.query.dims[0];
  const bool all = call.paged() || call.left_padded;
  const int64_t columns = all ? call.cache.most_columns : call.most_keys;
  bool fits = mask.rank >= 2 && mask.rank <= 4 && mask.dims[0] == sequences &&
              mask.dims[mask.rank - 1] >= columns;
  for (size_t axis = 1; fits && axis + 1 < mask.rank; ++axis) {
    fits = mask.dims[axis] == 1;
  }
  if (!fits) {
    return Contradiction(
        "attenMask: shape {}, expected [{}, {}] or more columns, perhaps with "
        "axes of 1 between",
        ShapeText(mask), sequences, columns);
  }
  const int last = static_cast<int>(mask.rank) - 1;
  return Strided(mask, {0, kOne, kOne, last},
                 {sequences, call.args.numHeads, 1, 1});
}

Status CheckKeyScales(const Call& call) {
  const bool int8 = call.key_type() == DType::kI8;
  FLASHACL_RETURN_IF_ERROR(
      CheckPair(call.arguments, kAntiquantScale, kAntiquantOffset, false));
  if (int8 != call.has(kAntiquantScale)) {
    return int8 ? Contradiction("antiquantScale: absent, but key is INT8")
                : Contradiction("antiquantScale: given, but key is not INT8");
  }
  if (!int8) return {};
  if (call[kAntiquantScale].dtype() != call[kQuery].dtype()) {
    return Contradiction("antiquantScale: data type {}, expected query's {}",
                         acl::TypeText(call[kAntiquantScale].acl_dtype),
                         acl::TypeText(call[kQuery].acl_dtype));
  }
  for (const int row : {kAntiquantScale, kAntiquantOffset}) {
    if (!call.has(row) || call[row].dims[0] == 2) continue;
    return Contradiction("{}: shape {}, expected a first axis of 2",
                         call.name(row), ShapeText(call[row]));
  }
  return {};
}

Status CheckQuantisation(const Call& call) {
  for (const int row : {kDequantScale1, kQuantScale1, kDequantScale2}) {
    if (!call.has(row)) continue;
    return Contradiction("{}: given, but query is not INT8", call.name(row));
  }
  return CheckOutScales(call.arguments, {.scale = kQuantScale2,
                                         .offset = kQuantOffset2,
                                         .query = kQuery,
                                         .out = kOut});
}

// Where a factor's first element is in its tensor: index 0 of an antiquant
// tensor is the keys', index 1 the values'.
struct Factor {
  int row;
  Slot slot;
  int64_t index;  // -1: the tensor has no such axis
};

Status PlaceFactors(const Call& call, Lowered& lowered) {
  static constexpr Factor kFactors[] = {
      {kAntiquantScale, Slot::kKeyScale, 0},
      {kAntiquantScale, Slot::kValueScale, 1},
      {kAntiquantOffset, Slot::kKeyOffset, 0},
      {kAntiquantOffset, Slot::kValueOffset, 1},
      {kQuantScale2, Slot::kOutScale, -1},
      {kQuantOffset2, Slot::kOutOffset, -1},
  };
  for (const Factor& factor : kFactors) {
    if (!call.has(factor.row)) continue;
    const Tensor& tensor = call[factor.row];
    const bool of_keys = factor.index >= 0;
    Result<TensorSpec> spec =
        FactorSpec(call.name(factor.row), tensor,
                   {.first_axis = of_keys ? size_t{1} : size_t{0},
                    .heads = of_keys ? call.kv_heads : call.args.numHeads,
                    .dim = call.query.dims[3]});
    if (!spec.ok()) return spec.status();
    lowered.problem[factor.slot] = *spec;
    lowered.Bind(call.arguments, factor.row, factor.slot,
                 of_keys ? factor.index * tensor.strides[0] : 0);
  }
  return {};
}

void PlaceKeys(const Call& call, Lowered& lowered) {
  AttentionProblem& problem = lowered.problem;
  problem.kv = call.cache.source;
  problem[Slot::kKey] = call.cache.key;
  problem[Slot::kValue] = call.cache.value;
  if (problem.kv.rows == KvSource::Rows::kList) {
    lowered.BindList(call.arguments, kKey, Slot::kKey);
    lowered.BindList(call.arguments, kValue, Slot::kValue);
    return;
  }
  for (const auto& [row, slot] :
       {std::pair{kKey, Slot::kKey}, std::pair{kValue, Slot::kValue}}) {
    const Tensor& tensor = *call.arguments.list(row)[0].tensor;
    lowered.uses.push_back({row, 0, slot, false, tensor.offset_bytes()});
  }
  if (call.paged()) {
    problem[Slot::kBlockTable] = call.cache.block_table;
    lowered.Bind(call.arguments, kBlockTable, Slot::kBlockTable);
  }
  if (call.left_padded) {
    problem[Slot::kKeyPadding] = DenseSpec(DType::kI64, {1, 1, 1, 1});
    lowered.Bind(call.arguments, kKvPadding, Slot::kKeyPadding);
  }
}

// Grids have a column per row of the cache, so left padding shifts nothing.
Status PlaceGrids(const Call& call, Lowered& lowered) {
  AttentionProblem& problem = lowered.problem;
  const auto place = [&](int row, Slot slot, Result<TensorSpec> grid) {
    if (!grid.ok()) return grid.status();
    if (call.left_padded) grid->placement = Placement::kTensorScores;
    problem[slot] = *grid;
    lowered.Bind(call.arguments, row, slot);
    return Status();
  };
  if (call.has(kMask)) {
    FLASHACL_RETURN_IF_ERROR(place(kMask, Slot::kMask, MaskGrid(call)));
  }
  if (!call.has(kPse)) return {};
  problem.score.bias = Score::Bias::kAfterScale;
  return place(kPse, Slot::kBias, BiasGrid(call));
}

Result<Lowered> LowerChecked(const Call& call) {
  Lowered lowered;
  AttentionProblem& problem = lowered.problem;
  problem.heads = call.args.numHeads;
  problem.kv_heads = call.kv_heads;
  problem.qk_dim = problem.v_dim = call.query.dims[3];
  problem.lengths.sequences = call.sequences;
  problem.score.scale = static_cast<float>(call.args.scaleValue);
  problem[Slot::kQuery] = call.query;
  problem[Slot::kOut] = Canonical(call[kOut], call.layout, problem.heads, 1);
  lowered.Bind(call.arguments, kQuery, Slot::kQuery);
  lowered.Bind(call.arguments, kOut, Slot::kOut);
  PlaceKeys(call, lowered);
  FLASHACL_RETURN_IF_ERROR(PlaceGrids(call, lowered));
  FLASHACL_RETURN_IF_ERROR(PlaceFactors(call, lowered));
  return lowered;
}

Result<Lowered> Lower(const Arguments& arguments, const Args& args) {
  Call call{arguments, args};
  if (args.inputLayout == nullptr) {
    return NullArgument("The inputLayout cannot be nullptr.");
  }
  FLASHACL_RETURN_IF_ERROR(CheckTypes(call));
  FLASHACL_RETURN_IF_ERROR(ReadLayout(call));
  FLASHACL_RETURN_IF_ERROR(CheckScalars(call));
  FLASHACL_RETURN_IF_ERROR(ReadQuery(call));
  FLASHACL_RETURN_IF_ERROR(ReadKeys(call));
  FLASHACL_RETURN_IF_ERROR(ReadSequences(call));
  FLASHACL_RETURN_IF_ERROR(CheckKeyScales(call));
  FLASHACL_RETURN_IF_ERROR(CheckQuantisation(call));
  return LowerChecked(call);
}

}  // namespace

const acl::Operator kIncreFlashAttentionV4{"aclnnIncreFlashAttentionV4",
                                           kArguments, 561002};

}  // namespace flashacl::ops

extern "C" aclnnStatus aclnnIncreFlashAttentionV4GetWorkspaceSize(
    const aclTensor* query, const aclTensorList* key,
    const aclTensorList* value, const aclTensor* pseShift,
    const aclTensor* attenMask, const aclIntArray* actualSeqLengths,
    const aclTensor* dequantScale1, const aclTensor* quantScale1,
    const aclTensor* dequantScale2, const aclTensor* quantScale2,
    const aclTensor* quantOffset2, const aclTensor* antiquantScale,
    const aclTensor* antiquantOffset, const aclTensor* blocktable,
    const aclTensor* kvPaddingSize, int64_t numHeads, double scaleValue,
    char* inputLayout, int64_t numKeyValueHeads, int64_t blockSize,
    int64_t innerPrecise, const aclTensor* attentionOut,
    uint64_t* workspaceSize, aclOpExecutor** executor) {
  using namespace flashacl;
  const ops::Args args{actualSeqLengths, numHeads,  scaleValue,  inputLayout,
                       numKeyValueHeads, blockSize, innerPrecise};
  const std::array<acl::Passed, 15> passed{
      query,       key,           value,          pseShift,
      attenMask,   dequantScale1, quantScale1,    dequantScale2,
      quantScale2, quantOffset2,  antiquantScale, antiquantOffset,
      blocktable,  kvPaddingSize, attentionOut,
  };
  return acl::Prepare(
      ops::kIncreFlashAttentionV4, passed,
      [&](const acl::Arguments& a) { return ops::Lower(a, args); },
      {workspaceSize, executor});
}

extern "C" aclnnStatus aclnnIncreFlashAttentionV4(void* workspace,
                                                  uint64_t workspaceSize,
                                                  aclOpExecutor* executor,
                                                  const aclrtStream stream) {
  return flashacl::acl::Launch(workspace, workspaceSize, executor, stream);
}
