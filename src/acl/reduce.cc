// SPDX-License-Identifier: Apache-2.0
// aclrtReduceAsync: dst = dst op src, element by element.
#include <algorithm>
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "acl/acl_rt.h"
#include "acl/context.h"
#include "acl/error.h"
#include "acl/host_register.h"
#include "acl/memory.h"
#include "acl/raw_enum.h"
#include "acl/stream.h"
#include "base/half.h"

namespace flashacl::acl {
namespace {

// A type of elements: how it is stored, and what it is added and compared as.
// A float holds the sum of two 16-bit floats closely enough (24 bits are at
// least 2 * 11 + 2) that rounding it again rounds the exact sum.
template <typename T>
struct Native {
  using Stored = T;
  static T Load(T stored) { return stored; }
  static T Store(T value) { return value; }
};
struct Half {
  using Stored = uint16_t;
  static float Load(uint16_t stored) { return F32FromF16(stored); }
  static uint16_t Store(float value) { return F16FromF32(value); }
};
struct BFloat {
  using Stored = uint16_t;
  static float Load(uint16_t stored) { return F32FromBf16(stored); }
  static uint16_t Store(float value) { return Bf16FromF32(value); }
};

// Integers wrap around.
struct Sum {
  template <typename T>
  T operator()(T a, T b) const {
    if constexpr (std::integral<T>) {
      using U = std::make_unsigned_t<T>;
      return static_cast<T>(
          static_cast<U>(static_cast<U>(a) + static_cast<U>(b)));
    } else {
      return a + b;
    }
  }
};

// NaN if one of them is.
struct Max {
  template <typename T>
  T operator()(T a, T b) const {
    return b != b || a < b ? b : a;
  }
};
struct Min {
  template <typename T>
  T operator()(T a, T b) const {
    return b != b || b < a ? b : a;
  }
};

using Loop = void (*)(void* dst, const void* src, int64_t begin, int64_t end);

template <typename Type, typename Op>
void ReduceRange(void* dst, const void* src, int64_t begin, int64_t end) {
  using T = typename Type::Stored;
  T* const to = static_cast<T*>(dst);
  const T* const from = static_cast<const T*>(src);
  for (int64_t i = begin; i < end; ++i) {
    to[i] = Type::Store(Op()(Type::Load(to[i]), Type::Load(from[i])));
  }
}

// A type that this device reduces; its loops by kind, from SUM on.
struct Row {
  aclDataType type;
  size_t bytes;
  Loop loops[3];
};

template <typename Type>
constexpr Row RowOf(aclDataType type) {
  return {
      type,
      sizeof(typename Type::Stored),
      {ReduceRange<Type, Sum>, ReduceRange<Type, Max>, ReduceRange<Type, Min>}};
}

constexpr Row kRows[] = {
    RowOf<Native<float>>(ACL_FLOAT),   RowOf<Half>(ACL_FLOAT16),
    RowOf<BFloat>(ACL_BF16),           RowOf<Native<int8_t>>(ACL_INT8),
    RowOf<Native<int16_t>>(ACL_INT16), RowOf<Native<int32_t>>(ACL_INT32)};

const Row* RowOfType(int type) {
  for (const Row& row : kRows) {
    if (row.type == type) return &row;
  }
  return nullptr;
}

// The memory must stay where it is until the stream comes to it.
aclError CheckOperand(std::string_view name, const void* at, uint64_t count,
                      size_t element) {
  constexpr std::string_view kName = "aclrtReduceAsync";
  if (reinterpret_cast<uintptr_t>(at) % element != 0) {
    return FailValue(ACL_ERROR_RT_PARAM_INVALID, kName, name, Str("{}", at),
                     Str("a multiple of {}, the size of an element", element));
  }
  Block block;
  if (FindBlock(at, &block)) {
    const auto offset =
        static_cast<size_t>(static_cast<const std::byte*>(at) - block.base);
    if (count <= block.reserved - offset) return ACL_SUCCESS;
    return FailValue(ACL_ERROR_RT_PARAM_INVALID, kName, "count",
                     Str("{}", count),
                     Str("at most the {} bytes that {} has left",
                         block.reserved - offset, name));
  }
  if (IsRegistered(at, count)) return ACL_SUCCESS;
  return FailValue(ACL_ERROR_RT_PARAM_INVALID, kName, name, Str("{}", at),
                   "device memory, or host memory that is pinned");
}

Task Reduction(void* dst, const void* src, const Row& row, size_t kind,
               int64_t elements) {
  const void* const addresses[] = {dst, src};
  return [=, loop = row.loops[kind], use = BlockUse(addresses)]() -> aclError {
    // Enough for a worker to be worth waking.
    constexpr int64_t kPart = 64 << 10;
    const int64_t parts = (elements + kPart - 1) / kPart;
    const Status status =
        QueueOfThisStream().OnHost([&](Workers& workers) -> Status {
          workers.ForEach(parts, [&](int64_t part) {
            loop(dst, src, part * kPart,
                 std::min(elements, (part + 1) * kPart));
          });
          return {};
        });
    if (status.ok()) return ACL_SUCCESS;
    return Fail(ACL_ERROR_RT_INTERNAL_ERROR, Title::kRuntime,
                Str("aclrtReduceAsync failed: {}", status.message()));
  };
}

aclError Reduce(void* dst, const void* src, uint64_t count, int kind, int type,
                aclrtStream stream, const void* reserve) {
  constexpr std::string_view kName = "aclrtReduceAsync";
  if (dst == nullptr) return FailNull(kName, "dst");
  if (src == nullptr) return FailNull(kName, "src");
  if (reserve != nullptr) {
    return FailValue(ACL_ERROR_INVALID_PARAM, kName, "reserve",
                     Str("{}", reserve), "a NULL pointer");
  }
  if (kind < ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM ||
      kind > ACL_RT_MEMCPY_SDMA_AUTOMATIC_EQUAL) {
    return FailValue(ACL_ERROR_RT_PARAM_INVALID, kName, "kind",
                     std::to_string(kind), "an aclrtReduceKind, 10 to 13");
  }
  const Row* const row = RowOfType(type);
  if (row == nullptr) {
    return FailValue(ACL_ERROR_INVALID_PARAM, kName, "type",
                     std::to_string(type),
                     "ACL_FLOAT, ACL_FLOAT16, ACL_BF16, ACL_INT8, ACL_INT16 or "
                     "ACL_INT32");
  }
  if (count == 0 || count % row->bytes != 0) {
    return FailValue(ACL_ERROR_RT_PARAM_INVALID, kName, "count",
                     Str("{}", count),
                     Str("a multiple of {} bytes, and not 0", row->bytes));
  }
  if (kind == ACL_RT_MEMCPY_SDMA_AUTOMATIC_EQUAL) {
    return Fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, Title::kNotSupported,
                "aclrtReduceAsync does not support kind "
                "ACL_RT_MEMCPY_SDMA_AUTOMATIC_EQUAL.");
  }
  if (const aclError error = RequireContext(kName); error != 0) return error;
  aclError error = CheckOperand("dst", dst, count, row->bytes);
  if (error != 0) return error;
  error = CheckOperand("src", src, count, row->bytes);
  if (error != 0) return error;
  return Enqueue(
      stream,
      Reduction(dst, src, *row,
                static_cast<size_t>(kind - ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM),
                static_cast<int64_t>(count / row->bytes)),
      kName);
}

}  // namespace
}  // namespace flashacl::acl

extern "C" {

aclError aclrtReduceAsync(void* dst, const void* src, uint64_t count,
                          aclrtReduceKind kind, aclDataType type,
                          aclrtStream stream, void* reserve) {
  namespace a = flashacl::acl;
  return a::GuardRuntime([&] {
    return a::Reduce(dst, src, count, a::Raw(kind), a::Raw(type), stream,
                     reserve);
  });
}

}  // extern "C"
