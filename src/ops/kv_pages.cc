// SPDX-License-Identifier: Apache-2.0
// Types, shapes and strides of paged rows.
#include "ops/kv_pages.h"

#include <algorithm>
#include <array>

#include "acl/raw_enum.h"
#include "base/str.h"

namespace flashacl::ops {
namespace {

using acl::Arguments;
using acl::Tensor;

// Whole elements of one or two bytes; of which kind they are is all the same.
bool IsCopied(const Tensor& tensor) {
  switch (acl::Raw(tensor.acl_dtype)) {
    case ACL_FLOAT16:
    case ACL_BF16:
    case ACL_INT8:
    case ACL_UINT8:
    case ACL_BOOL:
    case ACL_INT16:
    case ACL_UINT16:
    case ACL_HIFLOAT8:
    case ACL_FLOAT8_E5M2:
    case ACL_FLOAT8_E4M3FN:
    case ACL_FLOAT8_E8M0:
      return true;
    default:
      return false;
  }
}

std::string TypeNameOf(const Tensor& tensor) {
  return Str("{} ({})", acl::TypeText(tensor.acl_dtype),
             acl::Raw(tensor.acl_dtype));
}

Status CheckElement(const Arguments& arguments, int row) {
  const Tensor& tensor = *arguments.given(row);
  if (!IsCopied(tensor)) {
    return Invalid(
        "{}: data type {}, expected FLOAT16, BFLOAT16, INT8 or another of as "
        "many bytes",
        arguments.name(row), TypeNameOf(tensor));
  }
  if (!arguments.table()[static_cast<size_t>(row)].output) return {};
  return acl::CheckApart(arguments.name(row), tensor);
}

// Nothing is multiplied by the stride of an axis of one element, which may be
// any number.
int64_t Stride(const Tensor& tensor, size_t axis) {
  return tensor.dims[axis] > 1 ? tensor.strides[axis] : 0;
}

}  // namespace

Status CheckElementsOf(const Arguments& arguments, const PagedArguments& part) {
  FLASHACL_RETURN_IF_ERROR(CheckElement(arguments, part.tokens));
  FLASHACL_RETURN_IF_ERROR(CheckElement(arguments, part.cache));
  const Tensor& tokens = *arguments.given(part.tokens);
  const Tensor& cache = *arguments.given(part.cache);
  if (tokens.acl_dtype == cache.acl_dtype) return {};
  return Invalid("{}: data type {}, expected {} as {}",
                 arguments.name(part.cache), TypeNameOf(cache),
                 TypeNameOf(tokens), arguments.name(part.tokens));
}

Status CheckTypesTogether(const Arguments& arguments, int key, int value,
                          PageLayout layout) {
  const Tensor& keys = *arguments.given(key);
  const Tensor& values = *arguments.given(value);
  if (keys.acl_dtype == values.acl_dtype) return {};
  const bool mixed = layout == PageLayout::kNz && keys.acl_dtype == ACL_INT8 &&
                     ElementBytes(values) == 2;
  if (mixed) return {};
  return Invalid("{}: data type {}, expected {} as {}", arguments.name(value),
                 TypeNameOf(values), TypeNameOf(keys), arguments.name(key));
}

Status CheckShapeIs(const Arguments& arguments, int row,
                    std::span<const int64_t> expected,
                    std::string_view because) {
  const Tensor& tensor = *arguments.given(row);
  if (std::ranges::equal(tensor.shape(), expected)) return {};
  return Contradiction("{}: shape {}, expected [{}] {}", arguments.name(row),
                       ShapeText(tensor), Join(expected, ", "), because);
}

std::vector<int64_t> CacheShape(PageLayout layout, size_t rank,
                                const PageExtents& of, int64_t nz_elements) {
  if (layout == PageLayout::kRows) {
    return {of.blocks, of.block_rows, of.heads, of.channels};
  }
  if (layout == PageLayout::kHeads) {
    return {of.blocks, of.heads, of.block_rows, of.channels};
  }
  const int64_t pieces = of.channels / nz_elements;
  if (rank == 5) {
    return {of.blocks, of.heads, pieces, of.block_rows, nz_elements};
  }
  return {of.blocks, of.heads * pieces, of.block_rows, nz_elements};
}

pages::PagedRows PagedRowsOf(const Arguments& arguments,
                             const PagedArguments& part, PageLayout layout,
                             const PageExtents& of) {
  const Tensor& tokens = arguments[part.tokens];
  const Tensor& cache = arguments[part.cache];
  const int64_t bytes = ElementBytes(tokens);
  const bool nz = layout == PageLayout::kNz;
  const int64_t piece = nz ? NzElements(tokens) : of.channels;
  const int64_t pieces = of.channels / piece;
  const size_t last = cache.rank - 1;
  const size_t rows_axis = nz ? last - 1 : layout == PageLayout::kHeads ? 2 : 1;
  pages::PagedRows rows;
  rows.element_bytes = bytes;
  rows.dims = {of.heads, pieces, piece};
  const int64_t step = Stride(tokens, tokens.rank - 1);
  rows.tokens = {.argument = static_cast<size_t>(part.tokens),
                 .offset = tokens.offset * bytes,
                 .stride = Stride(tokens, 0) * bytes,
                 .axes = {tokens.rank == 3 ? Stride(tokens, 1) * bytes : 0,
                          piece * step * bytes, step * bytes}};
  rows.cache = {.argument = static_cast<size_t>(part.cache),
                .offset = cache.offset * bytes,
                .block_stride = Stride(cache, 0) * bytes,
                .stride = Stride(cache, rows_axis) * bytes,
                .axes = {0, 0, Stride(cache, last) * bytes}};
  auto& [head, group, element] = rows.cache.axes;
  if (!nz) {
    head = Stride(cache, layout == PageLayout::kHeads ? 1 : 2) * bytes;
  } else {
    group = Stride(cache, last - 2) * bytes;
    head = last == 4 ? Stride(cache, 1) * bytes : pieces * group;
  }
  return rows;
}

pages::Integers IntegersOf(const Arguments& arguments, int row) {
  const Tensor& tensor = arguments[row];
  pages::Integers integers{.argument = static_cast<size_t>(row),
                           .dtype = tensor.dtype(),
                           .offset = tensor.offset};
  for (size_t axis = 0; axis < tensor.rank; ++axis) {
    integers.strides[axis] = Stride(tensor, axis);
  }
  return integers;
}

}  // namespace flashacl::ops
