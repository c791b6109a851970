// SPDX-License-Identifier: Apache-2.0
// Keys and values as specs.
#include "ops/inference_cache.h"

#include <algorithm>
#include <string>

#include "base/str.h"
#include "ops/inference.h"

namespace flashacl::ops {
namespace {

using acl::Entry;
using acl::Tensor;
using Rows = KvSource::Rows;

// The tensor in canonical order, with heads and channels as agreed.
Result<TensorSpec> Read(std::string_view name, const Tensor& tensor,
                        const Layout& layout, const CacheTerms& terms) {
  if (Status rank = CheckRank(name, tensor, layout, terms.kv_heads);
      !rank.ok()) {
    return Contradiction("{}", rank.message());
  }
  const TensorSpec spec = Canonical(tensor, layout, terms.kv_heads, 1);
  FLASHACL_RETURN_IF_ERROR(CheckExtents(name, spec, {.heads = terms.kv_heads}));
  FLASHACL_RETURN_IF_ERROR(
      CheckKeyDim(tensor, spec, layout.folded_heads, terms.heads));
  return spec;
}

Status CheckLists(std::span<const Entry> keys, std::span<const Entry> values) {
  if (keys.empty()) return Contradiction("key: no tensors in the list");
  if (keys.size() != values.size()) {
    return Contradiction("value: {} tensors in the list, key has {}",
                         values.size(), keys.size());
  }
  for (size_t b = 0; b < keys.size(); ++b) {
    if (SameShape(*keys[b].tensor, *values[b].tensor)) continue;
    return Contradiction("value: shape {} does not match key's {}",
                         ShapeText(*values[b].tensor),
                         ShapeText(*keys[b].tensor));
  }
  return {};
}

Result<Cache> ReadSingle(const Tensor& key, const Tensor& value,
                         const CacheTerms& terms) {
  Result<TensorSpec> spec = Read("key", key, terms.layout, terms);
  if (!spec.ok()) return spec.status();
  Cache cache;
  cache.source.rows = Rows::kStrided;
  cache.key = *spec;
  cache.value = Canonical(value, terms.layout, terms.kv_heads, 1);
  cache.max_columns = spec->dims[1];
  return cache;
}

Result<Cache> ReadList(std::span<const Entry> keys,
                       std::span<const Entry> values, const CacheTerms& terms) {
  constexpr int64_t kMaxTensors = 256;
  if (static_cast<int64_t>(keys.size()) != terms.sequences) {
    return Contradiction(
        "key: {} tensors in the list, the first of shape {}, expected one for "
        "each of {} sequences or one for all",
        keys.size(), ShapeText(*keys[0].tensor), terms.sequences);
  }
  if (terms.sequences > kMaxTensors) {
    return Contradiction("key: {} tensors in the list, expected at most {}",
                         keys.size(), kMaxTensors);
  }
  Cache cache;
  cache.source.rows = Rows::kList;
  for (size_t b = 0; b < keys.size(); ++b) {
    Result<TensorSpec> spec = Read("key", *keys[b].tensor, terms.layout, terms);
    if (!spec.ok()) return spec.status();
    FLASHACL_RETURN_IF_ERROR(CheckExtents("key", *spec, {.sequences = 1}));
    cache.source.key_list.push_back(*spec);
    cache.source.value_list.push_back(
        Canonical(*values[b].tensor, terms.layout, terms.kv_heads, 1));
    cache.columns.push_back(spec->dims[1]);
    cache.max_columns = std::max(cache.max_columns, spec->dims[1]);
  }
  cache.key = cache.source.key_list.front();
  cache.value = cache.source.value_list.front();
  cache.key.dims[1] = cache.value.dims[1] = cache.max_columns;
  return cache;
}

// Sizes the NPU's pages may have; documented, so refused.
Status CheckBlockSize(const Tensor& key, const CacheTerms& terms) {
  constexpr int64_t kMaxRows = 512;
  const int64_t unit = key.dtype() == DType::kI8 ? 32 : 16;
  if (terms.block_size <= 0 || terms.block_size > kMaxRows ||
      terms.block_size % unit != 0) {
    return Contradiction(
        "blockSize: {}, expected a multiple of {} from {} to {}",
        terms.block_size, unit, unit, kMaxRows);
  }
  return {};
}

Status CheckTable(const CacheTerms& terms) {
  const Tensor& table = *terms.block_table;
  if (table.rank != 2 || table.empty() || table.dims[0] < terms.sequences) {
    return Contradiction(
        "blocktable: shape {}, expected [{}, blocks of a sequence]",
        ShapeText(table), terms.sequences);
  }
  return {};
}

// [block, row, head * channel], or [block, head, row, channel] for BNSD.
Result<Layout> PageLayout(const Tensor& key, const CacheTerms& terms) {
  constexpr int64_t kMaxWidth = 65535;
  if (key.rank == 3) {
    if (key.dims[2] > kMaxWidth) {
      return Contradiction("key: {} channels in all heads, expected at most {}",
                           key.dims[2], kMaxWidth);
    }
    return kBsh;
  }
  if (key.rank == 4 && terms.layout.name == kBnsd.name) return kBnsd;
  return Contradiction(
      "key: shape {}, expected [blocks, blockSize, heads * channels]{}",
      ShapeText(key),
      terms.layout.name == kBnsd.name
          ? " or [blocks, heads, blockSize, channels]"
          : "");
}

Result<Cache> ReadPages(std::span<const Entry> keys,
                        std::span<const Entry> values,
                        const CacheTerms& terms) {
  if (keys.size() != 1) {
    return Contradiction("key: {} tensors in the list, expected 1 with pages",
                         keys.size());
  }
  const Tensor& key = *keys[0].tensor;
  FLASHACL_RETURN_IF_ERROR(CheckTable(terms));
  FLASHACL_RETURN_IF_ERROR(CheckBlockSize(key, terms));
  Result<Layout> layout = PageLayout(key, terms);
  if (!layout.ok()) return layout.status();
  Result<TensorSpec> spec = Read("key", key, *layout, terms);
  if (!spec.ok()) return spec.status();
  if (spec->dims[1] != terms.block_size) {
    return Contradiction("key: shape {} has blocks of {} rows, blockSize is {}",
                         ShapeText(key), spec->dims[1], terms.block_size);
  }
  int64_t room;
  if (__builtin_mul_overflow(terms.block_table->dims[1], terms.block_size,
                             &room)) {
    return Contradiction("blocktable: shape {} lists too many blocks",
                         ShapeText(*terms.block_table));
  }
  Cache cache;
  cache.source.rows = Rows::kPaged;
  cache.source.page_rows = terms.block_size;
  cache.key = *spec;
  cache.value = Canonical(*values[0].tensor, *layout, terms.kv_heads, 1);
  cache.block_table = Strided(*terms.block_table, {0, 1, kOne, kOne}, {});
  cache.max_columns = room;
  return cache;
}

}  // namespace

Status CheckKeyDim(const Tensor& key, const TensorSpec& spec, bool folded,
                   const HeadTerms& heads) {
  const int64_t dim = spec.channels();
  if (dim == heads.dim) return {};
  const bool said = heads.num_key_value_heads != 0;
  std::string of_key = Str("{} channels per head", dim);
  if (folded) {
    of_key = Str("{} / {}{} = {} channels per head", dim * spec.dims[2],
                 said ? "numKeyValueHeads " : "", spec.dims[2], dim);
    if (!said) {
      of_key +=
          Str(" (numKeyValueHeads 0 stands for numHeads {})", heads.num_heads);
    }
  }
  std::string of_query = Str("{}", heads.dim);
  if (heads.folded) {
    of_query = Str("{} / numHeads {} = {}", heads.dim * heads.num_heads,
                   heads.num_heads, heads.dim);
  }
  return Contradiction("key: shape {} has {}, query has {}", ShapeText(key),
                       of_key, of_query);
}

Result<Cache> ReadCache(std::span<const Entry> keys,
                        std::span<const Entry> values,
                        const CacheTerms& terms) {
  FLASHACL_RETURN_IF_ERROR(CheckLists(keys, values));
  if (terms.block_table != nullptr) return ReadPages(keys, values, terms);
  const Tensor& first = *keys[0].tensor;
  const bool single =
      keys.size() == 1 && first.rank > 0 && first.dims[0] == terms.sequences;
  return single ? ReadSingle(first, *values[0].tensor, terms)
                : ReadList(keys, values, terms);
}

}  // namespace flashacl::ops
