// SPDX-License-Identifier: Apache-2.0
// Keys and values of fused inference: one tensor, a list with a tensor per
// sequence, or pages in three layouts; their rope, and the prefix that all
// sequences share.
#include <algorithm>
#include <span>
#include <string_view>
#include <utility>

#include "acl/environment.h"
#include "ops/fused_infer.h"

namespace flashacl::ops {
namespace {

using acl::Entry;
using acl::Tensor;
using Call = FusedInferCall;
using Rows = KvSource::Rows;

// How many elements lie together in pages of channels: 32 bytes of them.
int64_t ChannelBlockOf(const Tensor& tensor) {
  return 32 * 8 / tensor.BytesOf(8);
}

// Of keys and values INT32 is eight INT4.
DType TypeOf(const Tensor& tensor) {
  const DType type = tensor.dtype();
  return type == DType::kI32 ? DType::kI4x8 : type;
}

// INT4 is passed as INT32 of eight, or as what it is: then channels have to
// lie together, and rows to begin with whole bytes, whole words apart.
Status CountWords(std::string_view name, const Tensor& tensor,
                  TensorSpec& spec) {
  if (tensor.acl_dtype != ACL_INT4) {
    if (spec.dtype == DType::kI32) spec.dtype = DType::kI4x8;
    return {};
  }
  constexpr int64_t kNumbers = NumbersOf(DType::kI4x8);
  int64_t odd = spec.dims[3] % kNumbers + spec.channel_block % kNumbers;
  if (!tensor.empty()) {
    if (spec.dims[3] > 1 && spec.strides[3] != 1) ++odd;
    odd += tensor.offset % 2 + spec.block_stride % kNumbers;
    for (size_t axis = 0; axis < 3; ++axis) {
      if (spec.dims[axis] > 1) odd += spec.strides[axis] % kNumbers;
    }
  }
  if (odd != 0) {
    return Contradiction(
        "{}: INT4 of shape {}, expected rows of 8, 16 or more channels side by "
        "side that begin with whole words of 8",
        name, ShapeText(tensor));
  }
  spec.dims[3] /= kNumbers;
  spec.channel_block /= kNumbers;
  spec.block_stride /= kNumbers;
  for (size_t axis = 0; axis < 3; ++axis) spec.strides[axis] /= kNumbers;
  return {};
}

// Rows of the call's key heads with any number of channels, in `layout`.
Result<TensorSpec> ReadRows(const Call& call, std::string_view name,
                            const Tensor& tensor, const Layout& layout) {
  if (Status rank = CheckRank(name, tensor, layout, call.kv_heads);
      !rank.ok()) {
    return Contradiction("{}", rank.message());
  }
  TensorSpec spec = Canonical(tensor, layout, call.kv_heads, 1);
  FLASHACL_RETURN_IF_ERROR(CheckExtents(name, spec, {.heads = call.kv_heads}));
  FLASHACL_RETURN_IF_ERROR(CountWords(name, tensor, spec));
  return spec;
}

// [page, row, head * channel], [page, head, row, channel], or
// [page, head, channel / u, row, channel % u].
Result<TensorSpec> ReadPages(const Call& call, std::string_view name,
                             const Tensor& tensor) {
  if (tensor.rank == 3) return ReadRows(call, name, tensor, kBsh);
  if (tensor.rank == 4) return ReadRows(call, name, tensor, kBnsd);
  const int64_t unit = ChannelBlockOf(tensor);
  if (tensor.rank != 5 || tensor.dims[1] != call.kv_heads ||
      tensor.dims[4] != unit) {
    return Contradiction(
        "{}: shape {}, expected [blocks, rows, channels], [blocks, {}, rows, "
        "channels] or [blocks, {}, channels / {}, rows, {}] with a block table",
        name, ShapeText(tensor), call.kv_heads, call.kv_heads, unit, unit);
  }
  TensorSpec spec{.dtype = tensor.dtype()};
  spec.dims = {tensor.dims[0], tensor.dims[3], tensor.dims[1],
               tensor.dims[2] * unit};
  spec.strides = {tensor.strides[0], tensor.strides[3], tensor.strides[1],
                  tensor.strides[4]};
  spec.channel_block = unit;
  spec.block_stride = tensor.strides[2];
  FLASHACL_RETURN_IF_ERROR(CountWords(name, tensor, spec));
  return spec;
}

// Keys and values of one tensor each, with everything that they have to agree
// on. `folded`: the last axis is head * channel.
struct Pair {
  TensorSpec key, value;
};

template <typename Reader>
Result<Pair> ReadPair(const Call& call, const Tensor& key, const Tensor& value,
                      bool folded, const Reader& read) {
  Result<TensorSpec> keys = read("key", key);
  if (!keys.ok()) return keys.status();
  Result<TensorSpec> values = read("value", value);
  if (!values.ok()) return values.status();
  FLASHACL_RETURN_IF_ERROR(CheckKeyDim(key, *keys, folded, HeadTermsOf(call)));
  if (key.rank != value.rank) {
    return Contradiction("value: shape {} has {} dimensions, key has {}",
                         ShapeText(value), value.rank, key.rank);
  }
  FLASHACL_RETURN_IF_ERROR(CheckExtents(
      "value", *values, {.sequences = keys->dims[0], .rows = keys->dims[1]}));
  const int64_t v_dim = values->channels();
  if (v_dim < 1 || v_dim > kMaxDim) {
    return Contradiction("value: head dim {}, expected 1 to {}", v_dim,
                         kMaxDim);
  }
  return Pair{*keys, *values};
}

Status ReadOne(Call& call, const Tensor& key, const Tensor& value) {
  const Result<Pair> pair =
      ReadPair(call, key, value, call.layout.folded_heads,
               [&](std::string_view name, const Tensor& tensor) {
                 return ReadRows(call, name, tensor, call.layout);
               });
  if (!pair.ok()) return pair.status();
  FLASHACL_RETURN_IF_ERROR(
      CheckExtents("key", pair->key,
                   {.sequences = call.packed() ? -1 : call.query.dims[0]}));
  call.cache.key = pair->key;
  call.cache.value = pair->value;
  call.cache.max_columns = pair->key.dims[1];
  return {};
}

Status ReadList(Call& call, std::span<const Entry> keys,
                std::span<const Entry> values) {
  constexpr int64_t kMaxTensors = 256;
  const auto count = static_cast<int64_t>(keys.size());
  const bool named = call.Is(kBsh) || call.Is(kBsnd) || call.Is(kBnsd);
  if (!named || !call.has_plain_results()) {
    return Contradiction(
        "key: {} tensors in the list, expected 1 in a layout other than BSH, "
        "BSND, BNSD and BNSD_BSND",
        count);
  }
  if (count != call.query.dims[0] || count > kMaxTensors) {
    return Contradiction(
        "key: {} tensors in the list, expected one for each of {} sequences, "
        "at most {}, or one for all",
        count, call.query.dims[0], kMaxTensors);
  }
  Cache& cache = call.cache;
  cache.source.rows = Rows::kList;
  for (size_t b = 0; b < keys.size(); ++b) {
    const Result<Pair> pair = ReadPair(
        call, *keys[b].tensor, *values[b].tensor, call.layout.folded_heads,
        [&](std::string_view name, const Tensor& tensor) {
          return ReadRows(call, name, tensor, call.layout);
        });
    if (!pair.ok()) return pair.status();
    FLASHACL_RETURN_IF_ERROR(CheckExtents("key", pair->key, {.sequences = 1}));
    if (b > 0) {
      FLASHACL_RETURN_IF_ERROR(
          CheckExtents("value", pair->value, {.dim = call.v_dim()}));
    }
    cache.source.key_list.push_back(pair->key);
    cache.source.value_list.push_back(pair->value);
    cache.columns.push_back(pair->key.dims[1]);
    cache.max_columns = std::max(cache.max_columns, pair->key.dims[1]);
    cache.key = cache.source.key_list.front();
    cache.value = cache.source.value_list.front();
  }
  cache.key.dims[1] = cache.value.dims[1] = cache.max_columns;
  return {};
}

// Documented sizes that only cost the NPU. Strict mode only.
Status CheckBlockSize(const Call& call) {
  if (!acl::TheEnvironment().strict) return {};
  const bool int8 = call.arguments.list(Call::kKey)[0]->dtype() == DType::kI8;
  const int64_t unit = int8 ? 32 : 16;
  const int64_t most = int8 ? 512 : 1024;
  const int64_t size = call.args.blockSize;
  if (size % unit == 0 && size <= most) return {};
  return Contradiction(
      "blockSize: {}, expected a multiple of {} up to {} (strict mode)", size,
      unit, most);
}

Status CheckTable(const Call& call, const Tensor& table) {
  // Packed layouts say how many sequences there are elsewhere.
  const int64_t sequences = call.packed() ? 1 : call.query.dims[0];
  if (table.rank == 2 && !table.empty() && table.dims[0] >= sequences) {
    return {};
  }
  return Contradiction(
      "blockTable: shape {}, expected [{} or more, blocks of a sequence]",
      ShapeText(table), sequences);
}

Status ReadPaged(Call& call, const Tensor& table, std::span<const Entry> keys,
                 std::span<const Entry> values) {
  if (keys.size() != 1) {
    return Contradiction("key: {} tensors in the list, expected 1 with pages",
                         keys.size());
  }
  FLASHACL_RETURN_IF_ERROR(CheckTable(call, table));
  const int64_t size = call.args.blockSize;
  if (size <= 0) {
    return Contradiction(
        "blockSize: {}, expected at least 1 with a block table", size);
  }
  FLASHACL_RETURN_IF_ERROR(CheckBlockSize(call));
  const Result<Pair> pair = ReadPair(
      call, *keys[0].tensor, *values[0].tensor, keys[0].tensor->rank == 3,
      [&](std::string_view name, const Tensor& tensor) {
        return ReadPages(call, name, tensor);
      });
  if (!pair.ok()) return pair.status();
  if (pair->key.dims[1] != size) {
    return Contradiction("key: shape {} has blocks of {} rows, blockSize is {}",
                         ShapeText(*keys[0].tensor), pair->key.dims[1], size);
  }
  Cache& cache = call.cache;
  if (__builtin_mul_overflow(table.dims[1], size, &cache.max_columns)) {
    return Contradiction("blockTable: shape {} lists too many blocks",
                         ShapeText(table));
  }
  cache.source.rows = Rows::kPaged;
  cache.source.page_rows = size;
  cache.key = pair->key;
  cache.value = pair->value;
  cache.block_table = Strided(table, {0, 1, kOne, kOne}, {});
  return {};
}

Status ReadRope(Call& call) {
  if (!call.roped()) return {};
  const Tensor& rope = call[Call::kKeyRope];
  const Tensor& key = *call.arguments.given(Call::kKey);
  if (call.paged() && rope.rank != key.rank) {
    return Contradiction("keyRope: shape {} has {} dimensions, key has {}",
                         ShapeText(rope), rope.rank, key.rank);
  }
  const Result<TensorSpec> spec =
      call.paged() ? ReadPages(call, "keyRope", rope)
                   : ReadRows(call, "keyRope", rope, call.layout);
  if (!spec.ok()) return spec.status();
  const bool listed = call.cache.source.rows == Rows::kList;
  FLASHACL_RETURN_IF_ERROR(CheckExtents(
      "keyRope", *spec,
      {.sequences = listed ? call.query.dims[0] : call.cache.key.dims[0],
       .rows = call.cache.key.dims[1],
       .dim = call.query_rope.dims[3]}));
  call.key_rope = *spec;
  return {};
}

// One prefix for all sequences, in the layout of keys.
Status CheckPrefix(const Call& call) {
  const auto refuse = [&](std::string_view what) {
    return Contradiction("keySharedPrefix: given with {}", what);
  };
  if (call.packed() || call.Is(kNsd) || !call.has_plain_results()) {
    return refuse("a layout other than BSH, BSND, BNSD and BNSD_BSND");
  }
  if (call.paged()) return refuse("pages");
  if (call.roped()) return refuse("rope");
  if (call.cache.source.rows == Rows::kList && !call.decode) {
    return refuse("lists");
  }
  return {};
}

Result<int64_t> PrefixLength(const Call& call, int64_t rows) {
  constexpr std::string_view kName = "actualSharedPrefixLen";
  const auto lengths = acl::ReadArray(kName, call.fused.actualSharedPrefixLen);
  if (!lengths.ok()) return lengths.status();
  if (lengths->empty()) return rows;
  if (lengths->size() > 1 && acl::TheEnvironment().strict) {
    return Contradiction("{}: {} numbers, expected 1 (strict mode)", kName,
                         lengths->size());
  }
  const int64_t length = lengths->front();
  if (call.fused.any_lengths) return rows;
  if (length >= 0 && length <= rows) return length;
  return Contradiction("{}: {}, expected 0 to {}", kName, length, rows);
}

Status ReadPrefix(Call& call) {
  if (call.has(Call::kKeyPrefix) != call.has(Call::kValuePrefix)) {
    const bool key = call.has(Call::kKeyPrefix);
    return Contradiction(
        "{}: given without {}",
        call.name(key ? Call::kKeyPrefix : Call::kValuePrefix),
        call.name(key ? Call::kValuePrefix : Call::kKeyPrefix));
  }
  if (!call.has(Call::kKeyPrefix)) return {};
  FLASHACL_RETURN_IF_ERROR(CheckPrefix(call));
  Cache& cache = call.cache;
  for (const int row : {Call::kKeyPrefix, Call::kValuePrefix}) {
    if (TypeOf(call[row]) == TypeOf(*call.arguments.given(Call::kKey)))
      continue;
    return Contradiction(
        "{}: data type {}, expected key's {}", call.name(row),
        acl::TypeText(call[row].acl_dtype),
        acl::TypeText(call.arguments.given(Call::kKey)->acl_dtype));
  }
  for (const auto& [row, own, prefix] :
       {std::tuple{Call::kKeyPrefix, &cache.key, &call.key_prefix},
        std::tuple{Call::kValuePrefix, &cache.value, &call.value_prefix}}) {
    Result<TensorSpec> spec =
        ReadRows(call, call.name(row), call[row], call.layout);
    if (!spec.ok()) return spec.status();
    FLASHACL_RETURN_IF_ERROR(CheckExtents(
        call.name(row), *spec, {.sequences = 1, .dim = own->channels()}));
    *prefix = *spec;
  }
  FLASHACL_RETURN_IF_ERROR(CheckExtents("valueSharedPrefix", call.value_prefix,
                                        {.rows = call.key_prefix.dims[1]}));
  const Result<int64_t> length = PrefixLength(call, call.key_prefix.dims[1]);
  if (!length.ok()) return length.status();
  call.prefix = *length;
  return {};
}

// V1 reads INT32 as what it is.
Status CheckInt4(const Call& call, const Tensor& key) {
  if (!call.lacks(Call::kKeyAntiquantScale)) return {};
  return Contradiction(
      "key: data type {}, expected FLOAT16, BFLOAT16 or INT8, for INT4 came "
      "with V2",
      acl::TypeText(key.acl_dtype));
}

// Types that keys may have beside the query's, and what all tensors of a list
// have to agree on.
Status CheckLists(Call& call, std::span<const Entry> keys,
                  std::span<const Entry> values) {
  if (keys.empty()) return Contradiction("key: no tensors in the list");
  if (keys.size() != values.size()) {
    return Contradiction("value: {} tensors in the list, key has {}",
                         values.size(), keys.size());
  }
  const DType type = TypeOf(*keys[0].tensor);
  const DType query = call[Call::kQuery].dtype();
  if (type == DType::kI4x8) {
    FLASHACL_RETURN_IF_ERROR(CheckInt4(call, *keys[0].tensor));
  }
  const bool int4 = type == DType::kI4x8 && !call.int8();
  if (type != query && type != DType::kI8 && !int4) {
    return Contradiction("key: data type {} does not go with query's {}",
                         acl::TypeText(keys[0]->acl_dtype),
                         acl::TypeText(call[Call::kQuery].acl_dtype));
  }
  for (const auto& [name, list] :
       {std::pair{std::string_view("key"), keys},
        std::pair{std::string_view("value"), values}}) {
    for (const Entry& entry : list) {
      if (TypeOf(*entry.tensor) == type) continue;
      return Contradiction("{}: data type {}, expected key's {}", name,
                           acl::TypeText(entry->acl_dtype),
                           acl::TypeText(keys[0]->acl_dtype));
    }
  }
  return {};
}

// A table of rank 2 lists blocks, or is refused; others without entries are
// absent.
const Tensor* TableOf(const Call& call) {
  const Tensor* const table = call.arguments.given(Call::kBlockTable);
  if (table == nullptr || (table->empty() && table->rank != 2)) return nullptr;
  return table;
}

}  // namespace

Status ReadFusedKeys(Call& call) {
  const std::span<const Entry> keys = call.arguments.list(Call::kKey);
  const std::span<const Entry> values = call.arguments.list(Call::kValue);
  FLASHACL_RETURN_IF_ERROR(CheckLists(call, keys, values));
  if (const Tensor* table = TableOf(call); table != nullptr) {
    FLASHACL_RETURN_IF_ERROR(ReadPaged(call, *table, keys, values));
  } else if (keys.size() == 1) {
    FLASHACL_RETURN_IF_ERROR(ReadOne(call, *keys[0].tensor, *values[0].tensor));
  } else {
    FLASHACL_RETURN_IF_ERROR(ReadList(call, keys, values));
  }
  const bool plain = call.Is(kBsh) || call.Is(kBsnd) || call.Is(kBnsd);
  call.decode = plain && call.out_layout.name == call.layout.name &&
                call.query.dims[1] == 1 && !call.roped() &&
                call.v_dim() == call.query.dims[3];
  FLASHACL_RETURN_IF_ERROR(ReadRope(call));
  return ReadPrefix(call);
}

}  // namespace flashacl::ops
