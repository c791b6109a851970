// SPDX-License-Identifier: Apache-2.0
// Sizes and names of element types, in one table.
#include "base/dtype.h"

#include <iterator>

namespace flashacl {
namespace {

struct Fact {
  std::string_view name;
  int64_t bytes;
};

constexpr Fact kFacts[] = {
    {"none", 0}, {"f32", 4}, {"f16", 2}, {"bf16", 2}, {"i8", 1},  {"u8", 1},
    {"bool", 1}, {"i32", 4}, {"i64", 8}, {"u64", 8},  {"f64", 8}, {"i4x8", 4},
};

// What other projects call them.
struct Alias {
  std::string_view name;
  DType dtype;
};

constexpr Alias kAliases[] = {
    {"fp32", DType::kF32},      {"float32", DType::kF32},
    {"float", DType::kF32},     {"fp16", DType::kF16},
    {"float16", DType::kF16},   {"half", DType::kF16},
    {"bfloat16", DType::kBf16}, {"int8", DType::kI8},
};

}  // namespace

int64_t SizeOf(DType dtype) { return kFacts[static_cast<int>(dtype)].bytes; }

std::string_view Name(DType dtype) {
  return kFacts[static_cast<int>(dtype)].name;
}

DType ParseDType(std::string_view name) {
  for (int index = 0; index < static_cast<int>(std::size(kFacts)); ++index) {
    if (kFacts[index].name == name) return static_cast<DType>(index);
  }
  for (const Alias& alias : kAliases) {
    if (alias.name == name) return alias.dtype;
  }
  return DType::kNone;
}

}  // namespace flashacl
