// SPDX-License-Identifier: Apache-2.0
// Rows of keys and values out of the pages of a cache: aclnnGatherPaKvCache.
// Rules and limits are in docs/operators/gather_pa_kv_cache.md.
#include <array>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "aclnnop/aclnn_gather_pa_kv_cache.h"
#include "base/str.h"
#include "ops/entry.h"
#include "ops/kv_pages.h"
#include "ops/operators.h"

namespace flashacl::ops {
namespace {

using acl::Argument;
using acl::Arguments;
using acl::Tensor;

enum Row {
  kKeyCache,
  kValueCache,
  kTables,
  kLengths,
  kKey,
  kValue,
  kOffsets,
  kRowCount
};

constexpr PagedArguments kParts[] = {{kKey, kKeyCache}, {kValue, kValueCache}};

constexpr std::array<Argument, kRowCount> kTable{{
    Required("keyCache"),
    Required("valueCache"),
    Required("blockTables", acl::kIndices),
    Required("seqLens", acl::kIndices),
    InPlace("keyRef"),
    InPlace("valueRef"),
    {.name = "seqOffsetOptional", .dtypes = acl::kIndices},
}};

struct Args {
  const char* cache_mode;
  bool lengths_are_ends;

  std::string_view mode() const { return acl::TextOf(cache_mode); }
  PageLayout layout() const {
    return mode() == "PA_NZ" ? PageLayout::kNz : PageLayout::kRows;
  }
  // Of keyRef and valueRef.
  size_t rank() const { return layout() == PageLayout::kNz ? 2 : 3; }
};

Status CheckRank(const Arguments& arguments, int row, size_t rank) {
  const Tensor* const tensor = arguments.at(row);
  if (tensor == nullptr || tensor->rank == rank) return {};
  return Invalid("{}: shape {}, expected {} axes", arguments.name(row),
                 ShapeText(*tensor), rank);
}

Status CheckRanks(const Arguments& arguments) {
  for (const auto& [tokens, cache] : kParts) {
    FLASHACL_RETURN_IF_ERROR(CheckRank(arguments, cache, 4));
    const Tensor& rows = arguments[tokens];
    if (rows.rank == 2 || rows.rank == 3) continue;
    return Invalid("{}: shape {}, expected 2 or 3 axes", arguments.name(tokens),
                   ShapeText(rows));
  }
  FLASHACL_RETURN_IF_ERROR(CheckRank(arguments, kTables, 2));
  FLASHACL_RETURN_IF_ERROR(CheckRank(arguments, kLengths, 1));
  return CheckRank(arguments, kOffsets, 1);
}

Status CheckTypes(const Arguments& arguments, const Args& args) {
  FLASHACL_RETURN_IF_ERROR(arguments.CheckTypes());
  for (const PagedArguments& part : kParts) {
    FLASHACL_RETURN_IF_ERROR(CheckElementsOf(arguments, part));
  }
  FLASHACL_RETURN_IF_ERROR(
      CheckTypesTogether(arguments, kKey, kValue, args.layout()));
  for (const int row : {kLengths, kOffsets}) {
    const Tensor* const tensor = arguments.at(row);
    if (tensor == nullptr ||
        tensor->acl_dtype == arguments[kTables].acl_dtype) {
      continue;
    }
    return Invalid("{}: data type {}, expected {} as blockTables",
                   arguments.name(row), acl::TypeText(tensor->acl_dtype),
                   acl::TypeText(arguments[kTables].acl_dtype));
  }
  return CheckRanks(arguments);
}

Status CheckMode(const Args& args) {
  if (args.mode() == "Norm" || args.mode() == "PA_NZ") return {};
  return Contradiction("cacheMode: \"{}\", expected \"Norm\" or \"PA_NZ\"",
                       args.mode());
}

// Heads and channels, of which NZ pages have but the product.
PageExtents ExtentsOf(const Tensor& cache, PageLayout layout) {
  const auto& dims = cache.dims;
  if (layout == PageLayout::kNz) {
    return {dims[0], dims[2], 1, dims[1] * dims[3]};
  }
  return {dims[0], dims[1], dims[2], dims[3]};
}

// All but their channels is alike in keys and values.
Status CheckPart(const Arguments& arguments, const PagedArguments& part,
                 const Args& args) {
  const Tensor& tokens = arguments[part.tokens];
  const Tensor& cache = arguments[part.cache];
  if (args.layout() == PageLayout::kNz && cache.dims[3] != NzElements(cache)) {
    return Contradiction(
        "{}: shape {}, expected a last axis of {} (32 bytes) with cacheMode "
        "\"PA_NZ\"",
        arguments.name(part.cache), ShapeText(cache), NzElements(cache));
  }
  const PageExtents keys = ExtentsOf(arguments[kKeyCache], args.layout());
  PageExtents of = ExtentsOf(cache, args.layout());
  of = {keys.blocks, keys.block_rows, keys.heads, of.channels};
  FLASHACL_RETURN_IF_ERROR(CheckShapeIs(
      arguments, part.cache,
      CacheShape(args.layout(), 4, of, NzElements(cache)), "beside keyCache"));
  std::vector<int64_t> rows{arguments[kKey].dims[0], of.heads, of.channels};
  if (args.rank() == 2) rows.erase(rows.begin() + 1);
  if (tokens.rank == args.rank()) {
    return CheckShapeIs(arguments, part.tokens, rows,
                        Str("for {} [{}]{}", arguments.name(part.cache),
                            Join(cache.shape(), ", "),
                            part.tokens == kKey ? "" : " beside keyRef"));
  }
  return Contradiction("{}: shape {}, expected {} axes with cacheMode \"{}\"",
                       arguments.name(part.tokens), ShapeText(tokens),
                       args.rank(), args.mode());
}

Status CheckSequences(const Arguments& arguments, const Args& args) {
  const int64_t sequences = arguments[kTables].dims[0];
  const int64_t lengths = sequences + (args.lengths_are_ends ? 1 : 0);
  FLASHACL_RETURN_IF_ERROR(CheckShapeIs(
      arguments, kLengths, std::span(&lengths, 1),
      args.lengths_are_ends ? "for the rows of blockTables, and one more"
                            : "for the rows of blockTables"));
  if (!arguments.has(kOffsets)) return {};
  return CheckShapeIs(arguments, kOffsets, std::span(&sequences, 1),
                      "for the rows of blockTables");
}

MadeComputation Lower(const Arguments& arguments, const Args& args) {
  if (args.cache_mode == nullptr) {
    return NullArgument("The cacheMode cannot be nullptr.");
  }
  FLASHACL_RETURN_IF_ERROR(CheckTypes(arguments, args));
  FLASHACL_RETURN_IF_ERROR(CheckMode(args));
  for (const PagedArguments& part : kParts) {
    FLASHACL_RETURN_IF_ERROR(CheckPart(arguments, part, args));
  }
  FLASHACL_RETURN_IF_ERROR(CheckSequences(arguments, args));
  pages::Gather gather;
  for (const PagedArguments& part : kParts) {
    const Tensor& cache = arguments[part.cache];
    if (cache.empty()) continue;
    gather.parts.push_back(PagedRowsOf(arguments, part, args.layout(),
                                       ExtentsOf(cache, args.layout())));
  }
  if (gather.parts.empty() || arguments[kTables].empty() ||
      arguments[kKey].dims[0] == 0) {
    return std::shared_ptr<const Computation>();
  }
  const PageExtents of = ExtentsOf(arguments[kKeyCache], args.layout());
  gather.rows = arguments[kKey].dims[0];
  gather.blocks = of.blocks;
  gather.block_rows = of.block_rows;
  gather.sequences = arguments[kTables].dims[0];
  gather.columns = arguments[kTables].dims[1];
  gather.table = IntegersOf(arguments, kTables);
  gather.lengths = IntegersOf(arguments, kLengths);
  gather.lengths_are_ends = args.lengths_are_ends;
  if (arguments.has(kOffsets)) {
    gather.offsets = IntegersOf(arguments, kOffsets);
  }
  return pages::MakeGather(std::move(gather));
}

}  // namespace

const acl::Operator kGatherPaKvCache{"aclnnGatherPaKvCache", kTable, 561002};

}  // namespace flashacl::ops

using namespace flashacl::ops;

extern "C" aclnnStatus aclnnGatherPaKvCacheGetWorkspaceSize(
    const aclTensor* keyCache, const aclTensor* valueCache,
    const aclTensor* blockTables, const aclTensor* seqLens, aclTensor* keyRef,
    aclTensor* valueRef, const aclTensor* seqOffsetOptional, char* cacheMode,
    bool isSeqLensCumsum, uint64_t* workspaceSize, aclOpExecutor** executor) {
  return Prepare(kGatherPaKvCache,
                 {keyCache, valueCache, blockTables, seqLens, keyRef, valueRef,
                  seqOffsetOptional},
                 Args{cacheMode, isSeqLensCumsum}, Lower,
                 {workspaceSize, executor});
}

FLASHACL_PHASE_TWO(aclnnGatherPaKvCache)
