// SPDX-License-Identifier: Apache-2.0
// What ScatterPaKvCache and GatherPaKvCache share: which elements there are,
// how rows lie in pages, and the shapes that belong together.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "acl/arguments.h"
#include "base/status.h"
#include "pages/pages.h"

namespace flashacl::ops {

// The axes of a cache.
enum class PageLayout : uint8_t {
  kRows,   // [blocks, rows of a block, heads, channels]
  kHeads,  // [blocks, heads, rows of a block, channels]
  // [blocks, heads * channels / u, rows of a block, u], or with an axis for
  // heads: u elements are 32 bytes.
  kNz,
};

// How many of all that keys and values are made of.
struct PageExtents {
  int64_t blocks = 0;
  int64_t block_rows = 0;
  int64_t heads = 0;
  int64_t channels = 0;
};

// Keys or values: rows of tokens, and their cache.
struct PagedArguments {
  int tokens = 0;
  int cache = 0;
};

inline int64_t ElementBytes(const acl::Tensor& tensor) {
  return static_cast<int64_t>(aclDataTypeSize(tensor.acl_dtype));
}

// u.
inline int64_t NzElements(const acl::Tensor& tensor) {
  return 32 / ElementBytes(tensor);
}

// kInvalidArgument unless elements are one or two bytes, the cache's the
// tokens', and those of results are apart.
Status CheckElementsOf(const acl::Arguments& arguments,
                       const PagedArguments& part);

// kInvalidArgument unless keys and values have one type, or may differ: keys
// are INT8 in NZ pages, values have two bytes.
Status CheckTypesTogether(const acl::Arguments& arguments, int key, int value,
                          PageLayout layout);

// kContradiction unless the shape is this, which is so for the reason given.
Status CheckShapeIs(const acl::Arguments& arguments, int row,
                    std::span<const int64_t> expected,
                    std::string_view because);

// The shape of a cache of `rank` axes.
std::vector<int64_t> CacheShape(PageLayout layout, size_t rank,
                                const PageExtents& of, int64_t nz_elements);

// Tokens are [tokens, heads, channels], or [tokens, channels].
pages::PagedRows PagedRowsOf(const acl::Arguments& arguments,
                             const PagedArguments& part, PageLayout layout,
                             const PageExtents& of);

// A tensor of integers of one or two axes.
pages::Integers IntegersOf(const acl::Arguments& arguments, int row);

}  // namespace flashacl::ops
