// SPDX-License-Identifier: Apache-2.0
// Attention of one new token per sequence: aclnnIncreFlashAttention, V2 to V4.
//   out = softmax(scale * q k^T + pse where the mask lets see) v
// over the valid keys of a cache, which may be INT8: scale * (key + offset).
// docs/operators/incre_flash_attention.md has the arguments and the limits.
#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "aclnnop/aclnn_incre_flash_attention.h"
#include "aclnnop/aclnn_incre_flash_attention_v2.h"
#include "aclnnop/aclnn_incre_flash_attention_v3.h"
#include "aclnnop/aclnn_incre_flash_attention_v4.h"
#include "ops/canonical.h"
#include "ops/incre.h"
#include "ops/incre_scales.h"
#include "ops/inference.h"
#include "ops/inference_cache.h"
#include "ops/operators.h"

namespace flashacl::ops {
namespace {

using acl::Argument;
using acl::Arguments;
using acl::Bit;
using acl::Lowered;
using acl::Need;
using acl::Tensor;

constexpr acl::DTypeSet kRows = acl::kHalves | Bit(DType::kI8);
constexpr acl::DTypeSet kWhole = Bit(DType::kU64) | Bit(DType::kF32);
constexpr acl::DTypeSet kScales = Bit(DType::kF32) | Bit(DType::kBf16);

constexpr Argument MayBeEmpty(std::string_view name, acl::DTypeSet dtypes) {
  return {.name = name, .need = Need::kMayBeEmpty, .dtypes = dtypes};
}

// What a version lacks is never passed; pseShift is, and ignored before V3.
using Table = std::array<Argument, Incre::kRowCount>;
constexpr Table TableWith(Need pse) {
  return {{
      {.name = "query", .need = Need::kRequired, .dtypes = acl::kHalves},
      {.name = "key", .need = Need::kRequired, .dtypes = kRows, .list = true},
      {.name = "value", .need = Need::kRequired, .dtypes = kRows, .list = true},
      {.name = "pseShift", .need = pse, .dtypes = acl::kHalves},
      MayBeEmpty("attenMask", acl::kMaskBytes),
      MayBeEmpty("dequantScale1", kWhole),
      MayBeEmpty("quantScale1", kScales),
      MayBeEmpty("dequantScale2", kWhole),
      MayBeEmpty("quantScale2", kScales),
      MayBeEmpty("quantOffset2", kScales),
      MayBeEmpty("antiquantScale", acl::kFloats),
      MayBeEmpty("antiquantOffset", acl::kFloats),
      MayBeEmpty("blocktable", Bit(DType::kI32)),
      MayBeEmpty("kvPaddingSize", Bit(DType::kI64)),
      {.name = "attentionOut",
       .need = Need::kRequired,
       .dtypes = kRows,
       .output = true},
  }};
}
constexpr Table kWithoutPse = TableWith(Need::kIgnored);
constexpr Table kWithPse = TableWith(Need::kMayBeEmpty);

// Types that may stand together, beyond what the table says of each.
Status CheckTypes(const Incre& incre) {
  FLASHACL_RETURN_IF_ERROR(incre.arguments.CheckTypes());
  const Tensor& query = incre[Incre::kQuery];
  const auto differs = [&](std::string_view name, const Tensor& tensor) {
    return Invalid("{}: data type {} does not go with query's {}", name,
                   acl::TypeText(tensor.acl_dtype),
                   acl::TypeText(query.acl_dtype));
  };
  const std::span<const acl::Entry> keys = incre.arguments.list(Incre::kKey);
  for (const int row : {Incre::kKey, Incre::kValue}) {
    for (const acl::Entry& entry : incre.arguments.list(row)) {
      const DType type = entry->dtype();
      if (type != query.dtype() && type != DType::kI8) {
        return differs(incre.name(row), *entry.tensor);
      }
      if (keys.empty() || type == keys[0]->dtype()) continue;
      return Invalid("{}: data type {} does not match key's {}",
                     incre.name(row), acl::TypeText(entry->acl_dtype),
                     acl::TypeText(keys[0]->acl_dtype));
    }
  }
  const DType out = incre[Incre::kOut].dtype();
  if (out != query.dtype() && out != DType::kI8) {
    return differs(incre.name(Incre::kOut), incre[Incre::kOut]);
  }
  if (incre.has(Incre::kPse) && incre[Incre::kPse].dtype() != query.dtype()) {
    return differs(incre.name(Incre::kPse), incre[Incre::kPse]);
  }
  return {};
}

Status ReadLayout(Incre& incre) {
  for (const Layout& layout : {kBsh, kBsnd, kBnsd}) {
    if (!Equals(incre.args.inputLayout, layout.name)) continue;
    incre.layout = layout;
    return {};
  }
  return Contradiction("inputLayout: \"{}\", expected BSH, BSND or BNSD",
                       acl::ReadText(incre.args.inputLayout));
}

Status CheckScalars(const Incre& incre) {
  if (incre.args.numHeads <= 0) {
    return Contradiction("numHeads: {}, expected at least 1",
                         incre.args.numHeads);
  }
  if (incre.args.innerPrecise != 0 && incre.args.innerPrecise != 1) {
    return Contradiction("innerPrecise: {}, expected 0 or 1",
                         incre.args.innerPrecise);
  }
  return {};
}

Status ReadQuery(Incre& incre) {
  const Tensor& query = incre[Incre::kQuery];
  const int64_t heads = incre.args.numHeads;
  Result<int64_t> kv_heads = KeyHeads(heads, incre.args.numKeyValueHeads);
  if (!kv_heads.ok()) return kv_heads.status();
  incre.kv_heads = *kv_heads;
  if (Status rank = CheckRank("query", query, incre.layout, heads);
      !rank.ok()) {
    return Contradiction("{}", rank.message());
  }
  incre.query = Canonical(query, incre.layout, heads, 1);
  if (query.empty()) {
    return Contradiction("query: shape {} has no elements", ShapeText(query));
  }
  FLASHACL_RETURN_IF_ERROR(
      CheckExtents("query", incre.query, {.rows = 1, .heads = heads}));
  const int64_t dim = incre.query.dims[3];
  if (incre.query.dims[0] > kMostSequences || dim > kMostDim) {
    return Contradiction(
        "query: {} sequences with head dim {}, expected at most {} and {}",
        incre.query.dims[0], dim, kMostSequences, kMostDim);
  }
  if (SameShape(incre[Incre::kOut], query)) return {};
  return Contradiction("attentionOut: shape {} does not match query's {}",
                       ShapeText(incre[Incre::kOut]), ShapeText(query));
}

// A table of shape [0] is none; one with empty axes lists no blocks, which no
// call with pages can mean.
const Tensor* BlockTable(const Arguments& arguments) {
  const Tensor* table = arguments.list(Incre::kBlockTable)[0].tensor.get();
  if (table == nullptr) return nullptr;
  return table->rank == 1 && table->empty() ? nullptr : table;
}

Status ReadKeys(Incre& incre) {
  const CacheTerms terms{.layout = incre.layout,
                         .sequences = incre.query.dims[0],
                         .kv_heads = incre.kv_heads,
                         .dim = incre.query.dims[3],
                         .block_table = BlockTable(incre.arguments),
                         .block_size = incre.args.blockSize};
  Result<Cache> cache = ReadCache(incre.arguments.list(Incre::kKey),
                                  incre.arguments.list(Incre::kValue), terms);
  if (!cache.ok()) return cache.status();
  incre.cache = *std::move(cache);
  return {};
}

Status ReadSequences(Incre& incre) {
  const size_t count = incre.cache.columns.size();
  Result<std::vector<int64_t>> lengths =
      ReadLengths("actualSeqLengths", incre.args.actualSeqLengths,
                  static_cast<int64_t>(count));
  if (!lengths.ok()) return lengths.status();
  const bool given = !lengths->empty();
  if (!given && incre.paged()) {
    return Contradiction("actualSeqLengths: absent, but needed with pages");
  }
  for (size_t b = 0; b < count; ++b) {
    const int64_t room = incre.cache.columns[b];
    const int64_t length = given ? (*lengths)[b] : room;
    if (length < 0 || length > room) {
      return Contradiction(
          "actualSeqLengths: {} for sequence {}, expected 0 to {}", length, b,
          room);
    }
    incre.sequences.push_back({{0, 1}, {0, length}});
    incre.most_keys = std::max(incre.most_keys, length);
  }
  incre.left_padded = incre.has(Incre::kKvPadding) && given &&
                      incre.cache.source.rows == KvSource::Rows::kStrided;
  if (!incre.left_padded || incre[Incre::kKvPadding].elements() == 1) return {};
  return Contradiction("kvPaddingSize: shape {}, expected one number",
                       ShapeText(incre[Incre::kKvPadding]));
}

// One element per head and column of the cache.
Result<TensorSpec> BiasGrid(const Incre& incre) {
  const Tensor& pse = incre[Incre::kPse];
  const int64_t sequences = incre.query.dims[0];
  if (pse.rank != 4 || (pse.dims[0] != 1 && pse.dims[0] != sequences) ||
      pse.dims[1] != incre.args.numHeads || pse.dims[2] != 1 ||
      pse.dims[3] < incre.cache.most_columns) {
    return Contradiction("pseShift: shape {}, expected [{} or 1, {}, 1, {}]",
                         ShapeText(pse), sequences, incre.args.numHeads,
                         incre.cache.most_columns);
  }
  return Strided(pse, {0, 1, 2, 3}, {sequences, 1, 1, 1});
}

// [B, S], [B, 1, S] or [B, 1, 1, S].
Result<TensorSpec> MaskGrid(const Incre& incre) {
  const Tensor& mask = incre[Incre::kMask];
  const int64_t sequences = incre.query.dims[0];
  const bool all = incre.paged() || incre.left_padded;
  const int64_t columns = all ? incre.cache.most_columns : incre.most_keys;
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
                 {sequences, incre.args.numHeads, 1, 1});
}

void PlaceKeys(const Incre& incre, Lowered& lowered) {
  AttentionProblem& problem = lowered.problem;
  problem.kv = incre.cache.source;
  problem[Slot::kKey] = incre.cache.key;
  problem[Slot::kValue] = incre.cache.value;
  if (problem.kv.rows == KvSource::Rows::kList) {
    lowered.BindList(incre.arguments, Incre::kKey, Slot::kKey);
    lowered.BindList(incre.arguments, Incre::kValue, Slot::kValue);
    return;
  }
  for (const auto& [row, slot] : {std::pair{Incre::kKey, Slot::kKey},
                                  std::pair{Incre::kValue, Slot::kValue}}) {
    const Tensor& tensor = *incre.arguments.list(row)[0].tensor;
    lowered.uses.push_back({row, 0, slot, false, tensor.offset_bytes()});
  }
  if (incre.paged()) {
    problem[Slot::kBlockTable] = incre.cache.block_table;
    lowered.Bind(incre.arguments, Incre::kBlockTable, Slot::kBlockTable);
  }
  if (incre.left_padded) {
    problem[Slot::kKeyPadding] = DenseSpec(DType::kI64, {1, 1, 1, 1});
    lowered.Bind(incre.arguments, Incre::kKvPadding, Slot::kKeyPadding);
  }
}

// Grids have a column per row of the cache, so left padding shifts nothing.
Status PlaceGrids(const Incre& incre, Lowered& lowered) {
  AttentionProblem& problem = lowered.problem;
  const auto place = [&](int row, Slot slot, Result<TensorSpec> grid) {
    if (!grid.ok()) return grid.status();
    if (incre.left_padded) grid->placement = Placement::kTensorScores;
    problem[slot] = *grid;
    lowered.Bind(incre.arguments, row, slot);
    return Status();
  };
  if (incre.has(Incre::kMask)) {
    FLASHACL_RETURN_IF_ERROR(place(Incre::kMask, Slot::kMask, MaskGrid(incre)));
  }
  if (!incre.has(Incre::kPse)) return {};
  problem.score.bias = Score::Bias::kAfterScale;
  return place(Incre::kPse, Slot::kBias, BiasGrid(incre));
}

Result<Lowered> LowerChecked(const Incre& incre) {
  Lowered lowered;
  AttentionProblem& problem = lowered.problem;
  problem.heads = incre.args.numHeads;
  problem.kv_heads = incre.kv_heads;
  problem.qk_dim = problem.v_dim = incre.query.dims[3];
  problem.lengths.sequences = incre.sequences;
  problem.score.scale = static_cast<float>(incre.args.scaleValue);
  problem[Slot::kQuery] = incre.query;
  problem[Slot::kOut] =
      Canonical(incre[Incre::kOut], incre.layout, problem.heads, 1);
  lowered.Bind(incre.arguments, Incre::kQuery, Slot::kQuery);
  lowered.Bind(incre.arguments, Incre::kOut, Slot::kOut);
  PlaceKeys(incre, lowered);
  FLASHACL_RETURN_IF_ERROR(PlaceGrids(incre, lowered));
  FLASHACL_RETURN_IF_ERROR(PlaceScales(incre, lowered));
  return lowered;
}

Result<Lowered> Lower(const Arguments& arguments, const IncreArgs& args) {
  Incre incre{arguments, args};
  if (args.inputLayout == nullptr) {
    return NullArgument("The inputLayout cannot be nullptr.");
  }
  FLASHACL_RETURN_IF_ERROR(CheckTypes(incre));
  FLASHACL_RETURN_IF_ERROR(ReadLayout(incre));
  FLASHACL_RETURN_IF_ERROR(CheckScalars(incre));
  FLASHACL_RETURN_IF_ERROR(ReadQuery(incre));
  FLASHACL_RETURN_IF_ERROR(ReadKeys(incre));
  FLASHACL_RETURN_IF_ERROR(ReadSequences(incre));
  FLASHACL_RETURN_IF_ERROR(CheckScales(incre));
  return LowerChecked(incre);
}

}  // namespace

const acl::Operator kIncreFlashAttention{"aclnnIncreFlashAttention",
                                         kWithoutPse, 561002};
const acl::Operator kIncreFlashAttentionV2{"aclnnIncreFlashAttentionV2",
                                           kWithoutPse, 561002};
const acl::Operator kIncreFlashAttentionV3{"aclnnIncreFlashAttentionV3",
                                           kWithPse, 561002};
const acl::Operator kIncreFlashAttentionV4{"aclnnIncreFlashAttentionV4",
                                           kWithPse, 561002};

namespace {

aclnnStatus Prepare(const acl::Operator& op,
                    const std::array<acl::Passed, Incre::kRowCount>& passed,
                    const IncreArgs& args, acl::PhaseOne answer) {
  return acl::Prepare(
      op, passed, [&](const Arguments& a) { return Lower(a, args); }, answer);
}

const aclTensor* const kNone = nullptr;

}  // namespace
}  // namespace flashacl::ops

using flashacl::ops::kNone;

extern "C" aclnnStatus aclnnIncreFlashAttentionGetWorkspaceSize(
    const aclTensor* query, const aclTensorList* key,
    const aclTensorList* value, const aclTensor* pseShift,
    const aclTensor* attenMask, const aclIntArray* actualSeqLengths,
    int64_t numHeads, double scaleValue, char* inputLayout,
    int64_t numKeyValueHeads, const aclTensor* attentionOut,
    uint64_t* workspaceSize, aclOpExecutor** executor) {
  return flashacl::ops::Prepare(
      flashacl::ops::kIncreFlashAttention,
      {query, key, value, pseShift, attenMask, kNone, kNone, kNone, kNone,
       kNone, kNone, kNone, kNone, kNone, attentionOut},
      {actualSeqLengths, numHeads, scaleValue, inputLayout, numKeyValueHeads},
      {workspaceSize, executor});
}

extern "C" aclnnStatus aclnnIncreFlashAttentionV2GetWorkspaceSize(
    const aclTensor* query, const aclTensorList* key,
    const aclTensorList* value, const aclTensor* pseShift,
    const aclTensor* attenMask, const aclIntArray* actualSeqLengths,
    const aclTensor* dequantScale1, const aclTensor* quantScale1,
    const aclTensor* dequantScale2, const aclTensor* quantScale2,
    const aclTensor* quantOffset2, int64_t numHeads, double scaleValue,
    char* inputLayout, int64_t numKeyValueHeads, const aclTensor* attentionOut,
    uint64_t* workspaceSize, aclOpExecutor** executor) {
  return flashacl::ops::Prepare(
      flashacl::ops::kIncreFlashAttentionV2,
      {query, key, value, pseShift, attenMask, dequantScale1, quantScale1,
       dequantScale2, quantScale2, quantOffset2, kNone, kNone, kNone, kNone,
       attentionOut},
      {actualSeqLengths, numHeads, scaleValue, inputLayout, numKeyValueHeads},
      {workspaceSize, executor});
}

extern "C" aclnnStatus aclnnIncreFlashAttentionV3GetWorkspaceSize(
    const aclTensor* query, const aclTensorList* key,
    const aclTensorList* value, const aclTensor* pseShift,
    const aclTensor* attenMask, const aclIntArray* actualSeqLengths,
    const aclTensor* dequantScale1, const aclTensor* quantScale1,
    const aclTensor* dequantScale2, const aclTensor* quantScale2,
    const aclTensor* quantOffset2, const aclTensor* antiquantScale,
    const aclTensor* antiquantOffset, const aclTensor* blocktable,
    int64_t numHeads, double scaleValue, char* inputLayout,
    int64_t numKeyValueHeads, int64_t blockSize, int64_t innerPrecise,
    const aclTensor* attentionOut, uint64_t* workspaceSize,
    aclOpExecutor** executor) {
  return flashacl::ops::Prepare(
      flashacl::ops::kIncreFlashAttentionV3,
      {query, key, value, pseShift, attenMask, dequantScale1, quantScale1,
       dequantScale2, quantScale2, quantOffset2, antiquantScale,
       antiquantOffset, blocktable, kNone, attentionOut},
      {actualSeqLengths, numHeads, scaleValue, inputLayout, numKeyValueHeads,
       blockSize, innerPrecise},
      {workspaceSize, executor});
}

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
  return flashacl::ops::Prepare(
      flashacl::ops::kIncreFlashAttentionV4,
      {query, key, value, pseShift, attenMask, dequantScale1, quantScale1,
       dequantScale2, quantScale2, quantOffset2, antiquantScale,
       antiquantOffset, blocktable, kvPaddingSize, attentionOut},
      {actualSeqLengths, numHeads, scaleValue, inputLayout, numKeyValueHeads,
       blockSize, innerPrecise},
      {workspaceSize, executor});
}

extern "C" aclnnStatus aclnnIncreFlashAttention(void* workspace,
                                                uint64_t workspaceSize,
                                                aclOpExecutor* executor,
                                                const aclrtStream stream) {
  return flashacl::acl::Launch(workspace, workspaceSize, executor, stream);
}

extern "C" aclnnStatus aclnnIncreFlashAttentionV2(void* workspace,
                                                  uint64_t workspaceSize,
                                                  aclOpExecutor* executor,
                                                  const aclrtStream stream) {
  return flashacl::acl::Launch(workspace, workspaceSize, executor, stream);
}

extern "C" aclnnStatus aclnnIncreFlashAttentionV3(void* workspace,
                                                  uint64_t workspaceSize,
                                                  aclOpExecutor* executor,
                                                  const aclrtStream stream) {
  return flashacl::acl::Launch(workspace, workspaceSize, executor, stream);
}

extern "C" aclnnStatus aclnnIncreFlashAttentionV4(void* workspace,
                                                  uint64_t workspaceSize,
                                                  aclOpExecutor* executor,
                                                  const aclrtStream stream) {
  return flashacl::acl::Launch(workspace, workspaceSize, executor, stream);
}
