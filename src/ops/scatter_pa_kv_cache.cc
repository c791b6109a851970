// SPDX-License-Identifier: Apache-2.0
// New rows of keys and values into the pages of a cache:
// aclnnScatterPaKvCache. Rules and limits are in
// docs/operators/scatter_pa_kv_cache.md.
#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "acl/environment.h"
#include "aclnnop/aclnn_scatter_pa_kv_cache.h"
#include "ops/entry.h"
#include "ops/kv_pages.h"
#include "ops/operators.h"

namespace flashacl::ops {
namespace {

using acl::Argument;
using acl::Arguments;
using acl::Need;
using acl::Tensor;

enum Row {
  kKey,
  kKeyCache,
  kSlots,
  kValue,
  kValueCache,
  kCompressLens,
  kCompressOffsets,
  kSeqLens,
  kRowCount
};

constexpr PagedArguments kKeys{kKey, kKeyCache};
constexpr PagedArguments kValues{kValue, kValueCache};

// The last three are those of compressed caches, which are refused.
constexpr std::array<Argument, kRowCount> kTable{{
    Required("key"),
    InPlace("keyCacheRef"),
    Required("slotMapping", acl::kIndices),
    {.name = "value"},
    {.name = "valueCacheRef", .output = true, .in_place = true},
    {.name = "compressLensOptional", .need = Need::kIgnored},
    {.name = "compressSeqOffsetOptional", .need = Need::kIgnored},
    {.name = "seqLensOptional", .need = Need::kIgnored},
}};

struct Args {
  std::string_view cache_mode;
  std::string_view scatter_mode;
  const aclIntArray* strides;
  const aclIntArray* offsets;

  bool nz() const { return cache_mode == "PA_NZ"; }
  // Rows lie where strides and offsets say.
  bool apart() const { return !nz() && scatter_mode == "Nct"; }
  PageLayout layout() const {
    return nz()                     ? PageLayout::kNz
           : scatter_mode == "NHSD" ? PageLayout::kHeads
                                    : PageLayout::kRows;
  }
};

Status CheckModes(const Args& args) {
  if (args.nz()) return {};
  const std::string_view cache = args.cache_mode;
  if (!cache.empty() && cache != "Norm") {
    return Contradiction(
        "cacheModeOptional: \"{}\", expected \"\", \"Norm\" or \"PA_NZ\"",
        cache);
  }
  const std::string_view mode = args.scatter_mode;
  if (mode.empty() || mode == "None" || mode == "NHSD" || mode == "Nct") {
    return {};
  }
  const bool compressed = mode == "Alibi" || mode == "Rope" || mode == "Omni";
  return Contradiction(
      "scatterModeOptional: \"{}\"{}, expected \"\", \"None\", \"NHSD\" or "
      "\"Nct\"",
      mode, compressed ? ", whose compressed caches are not supported" : "");
}

Status CheckValueCache(const Arguments& arguments) {
  if (!arguments.has(kValue) || arguments.given(kValueCache) != nullptr) {
    return {};
  }
  return NullArgument("The valueCacheRef cannot be nullptr beside value.");
}

// Whether there may be no values, or no cache of them.
Status CheckPairs(const Arguments& arguments, const Args& args) {
  const bool values = arguments.has(kValue);
  if (!values && arguments.has(kValueCache)) {
    return Contradiction(
        "valueCacheRef: shape {}, expected null as there is no value",
        ShapeText(*arguments.at(kValueCache)));
  }
  if (values || !args.nz()) return {};
  return Contradiction(
      "value: null, of rank 0 or without elements, expected a tensor with "
      "cacheModeOptional \"PA_NZ\"");
}

Status CheckTypes(const Arguments& arguments, const Args& args) {
  FLASHACL_RETURN_IF_ERROR(arguments.CheckTypes());
  FLASHACL_RETURN_IF_ERROR(CheckElementsOf(arguments, kKeys));
  for (const int row : {kKey, kValue}) {
    if (!arguments.has(row)) continue;
    const Tensor& tensor = arguments[row];
    if (tensor.rank == 3 || tensor.rank == 4) continue;
    return Invalid("{}: shape {}, expected 3 axes", arguments.name(row),
                   ShapeText(tensor));
  }
  if (!arguments.has(kValue)) return {};
  FLASHACL_RETURN_IF_ERROR(CheckElementsOf(arguments, kValues));
  return CheckTypesTogether(arguments, kKey, kValue, args.layout());
}

// Blocks and their rows are those of the keys' cache.
Status CheckPart(const Arguments& arguments, const PagedArguments& part,
                 const Args& args, PageExtents& of) {
  const Tensor& tokens = arguments[part.tokens];
  const Tensor& cache = *arguments.given(part.cache);
  const std::string_view name = arguments.name(part.tokens);
  if (tokens.rank != 3) {
    return Contradiction("{}: shape {}, expected 3 axes", name,
                         ShapeText(tokens));
  }
  const bool fits = cache.rank == 4 || (args.nz() && cache.rank == 5);
  if (!fits) {
    return Contradiction("{}: shape {}, expected {} axes",
                         arguments.name(part.cache), ShapeText(cache),
                         args.nz() ? "4 or 5" : "4");
  }
  of.heads = tokens.dims[1];
  of.channels = tokens.dims[2];
  if (args.nz() && of.channels % NzElements(tokens) != 0) {
    return Contradiction(
        "{}: {} channels, expected a multiple of {} (32 bytes) with "
        "cacheModeOptional \"PA_NZ\"",
        name, of.channels, NzElements(tokens));
  }
  if (part.cache == kKeyCache) {
    of.blocks = cache.dims[0];
    of.block_rows =
        args.nz() ? cache.dims[cache.rank - 2]
                  : cache.dims[args.layout() == PageLayout::kHeads ? size_t{2}
                                                                   : size_t{1}];
  }
  return CheckShapeIs(
      arguments, part.cache,
      CacheShape(args.layout(), cache.rank, of, NzElements(tokens)),
      Str("for {} [{}]{}", name, Join(tokens.shape(), ", "),
          part.cache == kKeyCache ? "" : " beside keyCacheRef"));
}

Status CheckTokens(const Arguments& arguments, const PageExtents& of) {
  const Tensor& key = arguments[kKey];
  const int64_t tokens = key.dims[0];
  FLASHACL_RETURN_IF_ERROR(CheckShapeIs(
      arguments, kSlots, std::span(&tokens, 1), "for the tokens of key"));
  if (tokens > of.blocks * of.block_rows) {
    return Contradiction(
        "key: {} tokens, expected at most the {} rows of "
        "keyCacheRef",
        tokens, of.blocks * of.block_rows);
  }
  if (!arguments.has(kValue)) return {};
  const Tensor& value = arguments[kValue];
  const int64_t expected[] = {tokens, of.heads, value.dims[2]};
  return CheckShapeIs(arguments, kValue, expected, "beside key");
}

// What the NPU refuses although it has a meaning. Strict mode only.
Status CheckHardwareLimits(const Arguments& arguments, const Args& args,
                           const PageExtents& of) {
  if (!acl::TheEnvironment().strict) return {};
  if (args.nz() && of.block_rows > 65535) {
    return Contradiction(
        "keyCacheRef: {} rows of a block, expected at most 65535 (strict mode)",
        of.block_rows);
  }
  if (args.layout() != PageLayout::kHeads) return {};
  if (of.heads > 4095) {
    return Contradiction("key: {} heads, expected at most 4095 (strict mode)",
                         of.heads);
  }
  for (const int row : {kKey, kValue}) {
    if (!arguments.has(row)) continue;
    const Tensor& tensor = arguments[row];
    if (tensor.dims[2] % NzElements(tensor) == 0) continue;
    return Contradiction(
        "{}: {} channels, expected a multiple of {} (32 bytes, strict mode)",
        arguments.name(row), tensor.dims[2], NzElements(tensor));
  }
  return {};
}

// Where rows begin that lie apart: elements, of keys and of values.
struct Apart {
  std::vector<int64_t> strides;  // empty: the tensor's
  std::vector<int64_t> offsets;  // empty: 0
};

// One number for each part, or none.
Status ReadNumbers(std::string_view name, const aclIntArray* array,
                   size_t parts, std::vector<int64_t>& numbers) {
  Result<std::vector<int64_t>> read = acl::ReadArray(name, array);
  if (!read.ok()) return read.status();
  numbers = *std::move(read);
  if (!numbers.empty() && (numbers.size() < parts || numbers.size() > 2)) {
    return Contradiction("{}: {} numbers, expected {}", name, numbers.size(),
                         parts == 2 ? "2" : "1 or 2");
  }
  for (const int64_t number : numbers) {
    if (number >= 0) continue;
    return Contradiction("{}: [{}], expected numbers of at least 0", name,
                         Join(numbers, ", "));
  }
  return {};
}

Result<Apart> ReadApart(const Args& args, size_t parts) {
  Apart apart;
  if (!args.apart()) return apart;
  FLASHACL_RETURN_IF_ERROR(
      ReadNumbers("stridesOptional", args.strides, parts, apart.strides));
  FLASHACL_RETURN_IF_ERROR(
      ReadNumbers("offsetsOptional", args.offsets, parts, apart.offsets));
  return apart;
}

// Elements are counted from the tensor's first.
Status MoveApart(const Apart& apart, size_t part, int64_t tokens,
                 pages::PagedRows& rows) {
  constexpr int64_t kMaxElements = int64_t{1} << 59;
  int64_t stride = rows.tokens.stride / rows.element_bytes;
  const int64_t offset = apart.offsets.empty() ? 0 : apart.offsets[part];
  if (!apart.strides.empty()) stride = apart.strides[part];
  if (tokens == 1) stride = 0;
  int64_t last;
  if (__builtin_mul_overflow(tokens - 1, stride, &last) ||
      __builtin_add_overflow(last, offset, &last) || last >= kMaxElements) {
    return Contradiction(
        "stridesOptional: [{}] with offsetsOptional [{}] spans more than 2^59 "
        "elements",
        Join(apart.strides, ", "), Join(apart.offsets, ", "));
  }
  rows.tokens.stride = stride * rows.element_bytes;
  rows.tokens.offset += offset * rows.element_bytes;
  return {};
}

Result<std::vector<pages::PagedRows>> LowerParts(const Arguments& arguments,
                                                 const Args& args,
                                                 PageExtents of) {
  std::vector<PagedArguments> parts{kKeys};
  if (arguments.has(kValue)) parts.push_back(kValues);
  const Result<Apart> apart = ReadApart(args, parts.size());
  if (!apart.ok()) return apart.status();
  std::vector<pages::PagedRows> all;
  for (size_t n = 0; n < parts.size(); ++n) {
    const Tensor& tokens = arguments[parts[n].tokens];
    of.channels = tokens.dims[2];
    all.push_back(PagedRowsOf(arguments, parts[n], args.layout(), of));
    FLASHACL_RETURN_IF_ERROR(MoveApart(*apart, n, tokens.dims[0], all.back()));
  }
  return all;
}

MadeComputation Lower(const Arguments& arguments, const Args& args) {
  FLASHACL_RETURN_IF_ERROR(CheckValueCache(arguments));
  FLASHACL_RETURN_IF_ERROR(CheckTypes(arguments, args));
  FLASHACL_RETURN_IF_ERROR(CheckModes(args));
  if (arguments[kKey].empty() || arguments[kKeyCache].empty()) {
    return std::shared_ptr<const Computation>();
  }
  FLASHACL_RETURN_IF_ERROR(CheckPairs(arguments, args));
  PageExtents of;
  FLASHACL_RETURN_IF_ERROR(CheckPart(arguments, kKeys, args, of));
  FLASHACL_RETURN_IF_ERROR(CheckTokens(arguments, of));
  if (arguments.has(kValue)) {
    FLASHACL_RETURN_IF_ERROR(CheckPart(arguments, kValues, args, of));
  }
  FLASHACL_RETURN_IF_ERROR(CheckHardwareLimits(arguments, args, of));
  Result<std::vector<pages::PagedRows>> parts = LowerParts(arguments, args, of);
  if (!parts.ok()) return parts.status();
  return pages::MakeScatter({.tokens = arguments[kKey].dims[0],
                             .blocks = of.blocks,
                             .block_rows = of.block_rows,
                             .slots = IntegersOf(arguments, kSlots),
                             .parts = *std::move(parts)});
}

}  // namespace

const acl::Operator kScatterPaKvCache{"aclnnScatterPaKvCache", kTable, 561002};

}  // namespace flashacl::ops

using namespace flashacl::ops;

extern "C" aclnnStatus aclnnScatterPaKvCacheGetWorkspaceSize(
    const aclTensor* key, aclTensor* keyCacheRef, const aclTensor* slotMapping,
    const aclTensor* value, aclTensor* valueCacheRef,
    const aclTensor* compressLensOptional,
    const aclTensor* compressSeqOffsetOptional,
    const aclTensor* seqLensOptional, char* cacheModeOptional,
    char* scatterModeOptional, const aclIntArray* stridesOptional,
    const aclIntArray* offsetsOptional, uint64_t* workspaceSize,
    aclOpExecutor** executor) {
  return Prepare(
      kScatterPaKvCache,
      {key, keyCacheRef, slotMapping, value, valueCacheRef,
       compressLensOptional, compressSeqOffsetOptional, seqLensOptional},
      Args{flashacl::acl::TextOf(cacheModeOptional),
           flashacl::acl::TextOf(scatterModeOptional), stridesOptional,
           offsetsOptional},
      Lower, {workspaceSize, executor});
}

FLASHACL_PHASE_TWO(aclnnScatterPaKvCache)
