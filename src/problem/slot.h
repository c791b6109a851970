// SPDX-License-Identifier: Apache-2.0
// Every operand any operator has, under one name each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace flashacl {

// In brackets: the canonical dimensions a TensorSpec of that slot has. Whoever
// asks for attention brings its layout into this order with strides; stride 0
// repeats (packed tensors repeat over sequence, shared masks over head).
enum class Slot : uint8_t {
  kQuery,         // [sequence, row, head, qk_dim]
  kQueryRope,     // [sequence, row, head, rope_dim]
  kKey,           // [sequence or page, row, kv_head, qk_dim]
  kKeyRope,       // [sequence or page, row, kv_head, rope_dim]
  kValue,         // [sequence or page, row, kv_head, v_dim]
  kKeyPrefix,     // [1, row, kv_head, qk_dim]: keys before every sequence's own
  kValuePrefix,   // [1, row, kv_head, v_dim]
  kMask,          // grid; not 0: unseen
  kBias,          // grid; or slopes [sequence, head, 1, 1] for alibi
  kSink,          // [head], f32; forward also f16 and bf16
  kKeep,          // grid of bits, low bit first; 1: kept by dropout
  kBlockTable,    // [sequence, index], i32: the page of rows index * page_rows
  kTopK,          // [sequence, row, kv_head, place], i32 or i64; -1 ends
  kQueryLengths,  // [sequence], i32 or i64; see Lengths::Device
  kKeyLengths,    // [sequence], i32 or i64
  kKeyPadding,    // [1], i64: unused rows at the end of every sequence's keys
  kQueryPadding,  // [1], i64: the same of its queries
  kKeyScale,      // [kv_head, qk_dim]
  kKeyOffset,     // [kv_head, qk_dim]
  kValueScale,    // [kv_head, v_dim]
  kValueOffset,   // [kv_head, v_dim]
  kKeyRowScale,  // [sequence or page, row, kv_head], f32; in place of kKeyScale
  kKeyRowOffset,    // [sequence or page, row, kv_head], f32
  kValueRowScale,   // [sequence or page, row, kv_head], f32
  kValueRowOffset,  // [sequence or page, row, kv_head], f32
  kQueryRowScale,   // [sequence, row, head, 1], f32; of i8 queries
  kOutScale,        // [head, v_dim]
  kOutOffset,       // [head, v_dim]
  kWeightScale,  // [1]; i8 queries: weights become i8 after it multiplied them
  kOut,          // [sequence, row, head, v_dim]; an input of backward
  kRowMax,       // grid [sequence, head, row, lane], f32; input of backward
  kRowSum,       // grid [sequence, head, row, lane], f32; input of backward
  kLse,          // grid [sequence, head, row, lane], f32: log-sum-exp
  kGradOut,      // as kOut
  kGradQuery,    // as kQuery
  kGradQueryRope,  // as kQueryRope
  kGradKey,        // as kKey
  kGradKeyRope,    // as kKeyRope
  kGradValue,      // as kValue
  kGradBias,       // as kBias
  kGradSink,       // [head], f32
  kCount
};

inline constexpr size_t kSlots = static_cast<size_t>(Slot::kCount);

// Whether the tensor has a number per row of queries and head that softmax
// leaves.
constexpr bool IsRowResult(Slot slot) {
  return slot == Slot::kRowMax || slot == Slot::kRowSum || slot == Slot::kLse;
}

// "query", "query rope", ...: for messages and the trace.
std::string_view Name(Slot slot);

}  // namespace flashacl
