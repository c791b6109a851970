// SPDX-License-Identifier: Apache-2.0
// What fused inference computes although the documents of the NPU do not list
// it, and refuses in strict mode. What only one step can tell - page sizes,
// lengths that are absent, surplus rows - is checked there.
#include <algorithm>
#include <bit>
#include <initializer_list>
#include <span>
#include <string_view>
#include <utility>

#include "acl/environment.h"
#include "ops/fused_infer.h"
#include "ops/inference_lengths.h"

namespace flashacl::ops {
namespace {

using acl::Tensor;
using Call = FusedInferCall;
using Names = std::initializer_list<std::string_view>;
using Numbers = std::initializer_list<int64_t>;

constexpr int64_t kLatentDim = 512;
constexpr int64_t kMostWidth = 65535;  // channels of all heads
constexpr int64_t kTreeMode = 9;

std::string_view LayoutOf(const Call& call) { return call.args.inputLayout; }

bool Named(const Call& call, Names layouts) {
  return std::ranges::find(layouts, LayoutOf(call)) != layouts.end();
}

bool IsAny(int64_t number, Numbers numbers) {
  return std::ranges::find(numbers, number) != numbers.end();
}

int64_t DimOf(const Call& call) { return call.query.dims[3]; }

// Rope in the same channels as the rest.
bool IsMerged(const Call& call) {
  return !call.roped() && DimOf(call) == 192 && call.v_dim() == 128;
}

bool InBlocks(const Call& call) { return call.cache.key.channel_block != 0; }

bool IsList(const Call& call) {
  return call.cache.source.rows == KvSource::Rows::kList;
}

bool IsPadded(const Call& call) {
  return call.queries_left_padded || call.left_padded;
}

// Keys are of fewer bits than queries.
bool IsQuantised(const Call& call) {
  return call.arguments.list(Call::kKey)[0]->dtype() !=
         call[Call::kQuery].dtype();
}

bool HasInt8Keys(const Call& call) {
  return call.arguments.list(Call::kKey)[0]->dtype() == DType::kI8;
}

// Of the longest sequence; 0 where nobody knows it.
int64_t MostRows(const Call& call) {
  const bool unknown = call.packed() && call.fused.any_lengths;
  return unknown ? 0 : ExtentsOf(call).rows;
}

// A mask with a number per score. Not of decode, which has no other.
bool HasFullMask(const Call& call) {
  return call.has(Call::kMask) && call.args.sparseMode < 2;
}

Status CheckSizes(const Call& call) {
  constexpr int64_t kMostRows = 20971520;
  for (const auto& [name, rows] :
       {std::pair<std::string_view, int64_t>{"query", call.query.dims[1]},
        {"key", call.cache.max_columns}}) {
    if (rows <= kMostRows) continue;
    return Contradiction("{}: {} rows, expected at most {} (strict mode)", name,
                         rows, kMostRows);
  }
  const int64_t width = call.args.numHeads * DimOf(call);
  if (Named(call, {"BSH", "BSND"}) && !call.roped() && width > kMostWidth) {
    return Contradiction(
        "query: {} channels of all heads, expected at most {} (strict mode)",
        width, kMostWidth);
  }
  return {};
}

Status CheckLatent(const Call& call) {
  if (call.kv_heads != 1) {
    return Contradiction(
        "numKeyValueHeads: {}, expected 1 with head dim 512 (strict mode)",
        call.kv_heads);
  }
  const int64_t heads = call.args.numHeads;
  if (!std::has_single_bit(static_cast<uint64_t>(heads)) || heads > 128) {
    return Contradiction(
        "numHeads: {}, expected a power of 2 up to 128 with head dim 512 "
        "(strict mode)",
        heads);
  }
  if (!Named(call, {"BSH", "BSND", "BNSD", "BSH_NBSD", "BSND_NBSD", "BNSD_NBSD",
                    "TND", "TND_NTD"})) {
    return Contradiction(
        "inputLayout: {}, expected BSH, BSND, BNSD, these with _NBSD, TND or "
        "TND_NTD with head dim 512 (strict mode)",
        LayoutOf(call));
  }
  if (!IsAny(call.args.sparseMode, {0, 3, 4, kTreeMode})) {
    return Contradiction(
        "sparseMode: {}, expected 0, 3, 4 or 9 with head dim 512 (strict mode)",
        call.args.sparseMode);
  }
  const Tensor& key = *call.arguments.given(Call::kKey);
  const Tensor& value = *call.arguments.given(Call::kValue);
  if (key.data + key.offset_bytes() == value.data + value.offset_bytes()) {
    return {};
  }
  return Contradiction(
      "value: other memory than key's, expected the same with head dim 512 "
      "(strict mode)");
}

Status CheckRope(const Call& call) {
  if (call.query_rope.dims[3] != 64) {
    return Contradiction("queryRope: head dim {}, expected 64 (strict mode)",
                         call.query_rope.dims[3]);
  }
  if (IsList(call)) {
    return Contradiction("queryRope: given with a list of keys (strict mode)");
  }
  const int64_t dim = DimOf(call);
  if (!IsAny(dim, {128, kLatentDim}) || call.v_dim() != dim) {
    return Contradiction(
        "query: head dim {}, value's {}, expected 128 or 512 of both with rope "
        "(strict mode)",
        dim, call.v_dim());
  }
  if (dim == kLatentDim) return CheckLatent(call);
  if (Named(call, {"BSH", "BSND", "BNSD", "BNSD_BSND", "BSH_BNSD", "BSND_BNSD",
                   "TND", "NTD", "NTD_TND"})) {
    return {};
  }
  return Contradiction(
      "inputLayout: {}, expected BSH, BSND, BNSD, BNSD_BSND, BSH_BNSD, "
      "BSND_BNSD, TND, NTD or NTD_TND with rope and head dim 128 (strict mode)",
      LayoutOf(call));
}

// Of which head dims a layout is, without rope.
Status CheckLayoutDims(const Call& call) {
  const int64_t dim = DimOf(call);
  if (Named(call, {"BSH_NBSD", "BSND_NBSD", "BNSD_NBSD"})) {
    return Contradiction(
        "inputLayout: {}, expected another without rope (strict mode)",
        LayoutOf(call));
  }
  if (IsMerged(call)) return {};
  const bool precise = call.args.innerPrecise == 0 && dim <= 256;
  if (Named(call, {"TND"}) && !precise && !IsAny(dim, {64, 128, 192})) {
    return Contradiction(
        "query: head dim {}, expected 64, 128 or 192, or at most 256 with "
        "innerPrecise 0, in layout TND (strict mode)",
        dim);
  }
  const bool few = Named(call, {"NTD", "BSH_BNSD", "BSND_BNSD"});
  if ((!few && !InBlocks(call)) || IsAny(dim, {64, 128})) return {};
  return Contradiction(
      "query: head dim {}, expected 64 or 128 {} (strict mode)", dim,
      few ? "in this layout" : "with keys of 5 dimensions");
}

Status CheckDims(const Call& call) {
  if (call.roped()) return CheckRope(call);
  const int64_t dim = DimOf(call);
  if (dim != call.v_dim() && !IsMerged(call)) {
    return Contradiction(
        "value: head dim {}, expected query's {}, or 128 beside 192 (strict "
        "mode)",
        call.v_dim(), dim);
  }
  const int64_t unit = call.int4()         ? 64
                       : HasInt8Keys(call) ? 32
                       : call.decode       ? 1
                                           : 16;
  if (dim % unit != 0) {
    return Contradiction(
        "query: head dim {}, expected a multiple of {} (strict mode)", dim,
        unit);
  }
  return CheckLayoutDims(call);
}

Status CheckMasks(const Call& call) {
  const int64_t mode = call.args.sparseMode;
  if (call.packed() && (HasFullMask(call) || mode == 2)) {
    return Contradiction(
        "sparseMode: {}, expected 0 without attenMask, 3, 4 or 9 in layout {} "
        "(strict mode)",
        mode, LayoutOf(call));
  }
  const bool apart = call.roped() || DimOf(call) != call.v_dim();
  if (HasFullMask(call) && call[Call::kMask].rank == 2 && apart) {
    return Contradiction(
        "attenMask: shape {}, expected 3 or 4 dimensions with rope or a head "
        "dim of values (strict mode)",
        ShapeText(call[Call::kMask]));
  }
  const bool plain =
      call.has_plain_results() && !call.packed() && !call.Is(kNsd);
  if (!call.has(Call::kPse) || plain) return {};
  return Contradiction("pseShift: given in layout {} (strict mode)",
                       LayoutOf(call));
}

Status CheckSink(const Call& call) {
  if (!call.has(Call::kSink)) return {};
  if (!IsAny(DimOf(call), {64, 128, 192}) || !IsAny(call.v_dim(), {64, 128})) {
    return Contradiction(
        "learnableSink: given with head dims {} and {}, expected 64, 128 or "
        "192, and 64 or 128 of value (strict mode)",
        DimOf(call), call.v_dim());
  }
  if (call.args.innerPrecise != 0) {
    return Contradiction(
        "innerPrecise: {}, expected 0 with learnableSink (strict mode)",
        call.args.innerPrecise);
  }
  const std::pair<std::string_view, bool> others[] = {
      {"pseShift", call.has(Call::kPse)},
      {"left padding", IsPadded(call)},
      {"shared prefix", call.has(Call::kKeyPrefix)},
      {"INT8 attentionOut", call.int8_out()},
      {"quantised keys", IsQuantised(call)},
  };
  for (const auto& [what, given] : others) {
    if (!given) continue;
    return Contradiction("learnableSink: given with {} (strict mode)", what);
  }
  return {};
}

// Of 8 bits.
Status CheckResults(const Call& call) {
  if (!call.int8_out()) return {};
  const auto refuse = [](std::string_view what) {
    return Contradiction("attentionOut: data type INT8 with {} (strict mode)",
                         what);
  };
  if (call.roped()) return refuse("rope");
  if (DimOf(call) != call.v_dim()) return refuse("a head dim of values");
  if (call.packed()) return refuse("a packed layout");
  if (!call.has_plain_results()) return refuse("a layout of results");
  return {};
}

Status CheckPages(const Call& call) {
  if (!call.paged()) return {};
  if (call.int4()) {
    return Contradiction("blockTable: given with INT4 keys (strict mode)");
  }
  const int64_t width = call.kv_heads * std::max(DimOf(call), call.v_dim());
  if (call.arguments.given(Call::kKey)->rank == 3 && width > kMostWidth) {
    return Contradiction(
        "key: {} channels of all heads, expected at most {} (strict mode)",
        width, kMostWidth);
  }
  const int64_t size = call.args.blockSize;
  const bool int8_query = call.query_scaled_by_row();
  if (!InBlocks(call) || !HasInt8Keys(call) || size == 128 ||
      (size == 512 && !int8_query)) {
    return {};
  }
  return Contradiction(
      "blockSize: {}, expected {} with INT8 keys of 5 dimensions (strict mode)",
      size, int8_query ? "128" : "128 or 512");
}

// INT8 queries of latent decode.
Status CheckScaledQuery(const Call& call) {
  if (DimOf(call) != kLatentDim) {
    return Contradiction(
        "query: head dim {}, expected 512 with dequantScaleQuery (strict mode)",
        DimOf(call));
  }
  if (!InBlocks(call)) {
    return Contradiction(
        "key: shape {}, expected pages of 5 dimensions with dequantScaleQuery "
        "(strict mode)",
        ShapeText(*call.arguments.given(Call::kKey)));
  }
  const int64_t rows = MostRows(call);
  if (rows > 16) {
    return Contradiction(
        "query: {} rows of a sequence, expected 1 to 16 with dequantScaleQuery "
        "(strict mode)",
        rows);
  }
  const int64_t mode = call.args.sparseMode;
  const bool one = rows == 1;
  const bool fits =
      one ? mode == 0 && !call.has(Call::kMask) : IsAny(mode, {3, kTreeMode});
  if (fits || rows == 0) return {};
  return Contradiction(
      "sparseMode: {}, expected {} with dequantScaleQuery (strict mode)", mode,
      one ? "0 without attenMask for one row" : "3 or 9 for several rows");
}

// A number per channel, whose heads are the first axis or are folded.
bool IsByChannel(const Call& call, const Tensor& scale) {
  return scale.elements() == call.kv_heads * DimOf(call) && scale.rank <= 3 &&
         (scale.rank == 1 || scale.dims[0] == call.kv_heads);
}

// Quantised keys in blocks of channels: a few rows by a few scales.
Status CheckKeysInBlocks(const Call& call) {
  const auto refuse = [](std::string_view what) {
    return Contradiction(
        "key: quantised in 5 dimensions, expected {} (strict mode)", what);
  };
  if (call[Call::kQuery].dtype() != DType::kBf16) {
    return refuse("a BFLOAT16 query");
  }
  if (DimOf(call) != 128) return refuse("head dim 128");
  if (MostRows(call) > 16) return refuse("at most 16 rows of a sequence");
  if (!Named(call, {"BSH", "BSND", "BNSD", "TND"})) {
    return refuse("layout BSH, BSND, BNSD or TND");
  }
  if (!call.has(Call::kKeyAntiquantScale)) return refuse("separate scales");
  if (call.has(Call::kKeyAntiquantOffset)) return refuse("no offsets");
  const FusedInferArgs& args = call.fused;
  const bool by_token = args.keyAntiquantMode == 1;
  const bool by_channel = args.keyAntiquantMode == 0 &&
                          args.valueAntiquantMode == 0 &&
                          IsByChannel(call, call[Call::kKeyAntiquantScale]);
  if (!by_channel && (!by_token || call.packed())) {
    return refuse("scales by channel, or by token but in layout TND");
  }
  const bool masked = call.has(Call::kMask);
  if (masked ? !IsAny(args.sparseMode, {3, kTreeMode}) : args.sparseMode != 0) {
    return refuse("sparseMode 0 without attenMask, 3 or 9");
  }
  if (args.innerPrecise != 1) return refuse("innerPrecise 1");
  return {};
}

Status CheckQuantised(const Call& call) {
  if (InBlocks(call)) return CheckKeysInBlocks(call);
  const auto refuse = [](std::string_view what) {
    return Contradiction("key: quantised, expected {} (strict mode)", what);
  };
  if (call.packed()) return refuse("pages of 5 dimensions in packed layouts");
  const DType query = call[Call::kQuery].dtype();
  const FusedInferArgs& args = call.fused;
  const bool separate = call.has(Call::kKeyAntiquantScale);
  const bool mixed =
      separate && args.keyAntiquantMode != args.valueAntiquantMode;
  if (mixed && HasInt8Keys(call) && query != DType::kF16) {
    return refuse("a FLOAT16 query with modes 0 and 1");
  }
  if (call.query.dims[1] == 1) return {};
  if (!separate) {
    return query == DType::kF16 ? Status()
                                : refuse("a FLOAT16 query of several rows");
  }
  if (query != DType::kBf16) return refuse("a BFLOAT16 query of several rows");
  if (call.query.dims[1] > 16) return refuse("at most 16 rows");
  if (!IsAny(args.keyAntiquantMode, {0, 1})) {
    return refuse("keyAntiquantMode 0 or 1 for several rows");
  }
  if (call.paged()) return refuse("no pages for several rows");
  if (IsList(call)) return refuse("no list for several rows");
  if (IsPadded(call)) return refuse("no left padding for several rows");
  return {};
}

}  // namespace

Status CheckFusedStrictly(const Call& call) {
  if (!acl::TheEnvironment().strict) return {};
  for (Status (*check)(const Call&) : {CheckSizes, CheckDims, CheckMasks,
                                       CheckSink, CheckResults, CheckPages}) {
    FLASHACL_RETURN_IF_ERROR(check(call));
  }
  if (call.query_scaled_by_row()) return CheckScaledQuery(call);
  return IsQuantised(call) ? CheckQuantised(call) : Status();
}

}  // namespace flashacl::ops
