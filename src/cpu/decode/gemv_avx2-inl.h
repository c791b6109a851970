// SPDX-License-Identifier: Apache-2.0
// The inner loops of four rows where there are 16 registers: three keys, or
// three vectors of channels, by four rows are twelve sums, which with three
// vectors of elements and one operand fill them. In assembly, as GCC 12 moves
// sums between registers and keeps some in memory, and at most times these
// loops take as long as their instructions need to be decoded
// (docs/notes/0013).

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"

#if defined(FLASHACL_CPU_DECODE_GEMV_AVX2_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FLASHACL_CPU_DECODE_GEMV_AVX2_INL_H_
#undef FLASHACL_CPU_DECODE_GEMV_AVX2_INL_H_
#else
#define FLASHACL_CPU_DECODE_GEMV_AVX2_INL_H_
#endif

#include "cpu/tile/vector-inl.h"

#if HWY_TARGET == HWY_AVX2

// clang-format off

// Register N = a vector of elements from AT on.
#define FLASHACL_LOAD_F32(N, AT) "vmovups " AT ", %%ymm" N "\n\t"
#define FLASHACL_LOAD_F16(N, AT) "vcvtph2ps " AT ", %%ymm" N "\n\t"
#define FLASHACL_LOAD_BF16(N, AT) \
  "vpmovzxwd " AT ", %%ymm" N "\n\t" \
  "vpslld $16, %%ymm" N ", %%ymm" N "\n\t"
#define FLASHACL_LOAD_I8(N, AT) \
  "vpmovsxbd " AT ", %%ymm" N "\n\t" \
  "vcvtdq2ps %%ymm" N ", %%ymm" N "\n\t"

// Sums of row R += registers 12, 13 and perhaps 14 * what LOAD yields.
#define FLASHACL_ROW_2(LOAD, R) \
  LOAD ", %%ymm15\n\t" \
  "vfmadd231ps %%ymm15, %%ymm12, %[s0" R "]\n\t" \
  "vfmadd231ps %%ymm15, %%ymm13, %[s1" R "]\n\t"
#define FLASHACL_ROW_3(LOAD, R) \
  FLASHACL_ROW_2(LOAD, R) \
  "vfmadd231ps %%ymm15, %%ymm14, %[s2" R "]\n\t"

// Vector V of a line of three keys, BYTES to a vector, by all rows.
#define FLASHACL_DOT(LOAD, BYTES, V) \
  LOAD("12", V "*" BYTES "(%[key0],%[at])") \
  LOAD("13", V "*" BYTES "(%[key1],%[at])") \
  LOAD("14", V "*" BYTES "(%[key2],%[at])") \
  FLASHACL_ROW_3("vmovaps 128*" V "(%[query])", "0") \
  FLASHACL_ROW_3("vmovaps 128*" V "+32(%[query])", "1") \
  FLASHACL_ROW_3("vmovaps 128*" V "+64(%[query])", "2") \
  FLASHACL_ROW_3("vmovaps 128*" V "+96(%[query])", "3")

// Two or three vectors of value number K by the weights of all rows.
#define FLASHACL_WEIGHT(K, OFFSET) \
  "vbroadcastss 16*" K "+" OFFSET "(%[probs],%[at],2)"
#define FLASHACL_ADD_2(LOAD, BYTES, K) \
  "movq 8*" K "(%[values],%[at]), %[value]\n\t" \
  LOAD("12", "(%[value],%[from])") \
  LOAD("13", BYTES "(%[value],%[from])") \
  FLASHACL_ROW_2(FLASHACL_WEIGHT(K, "0"), "0") \
  FLASHACL_ROW_2(FLASHACL_WEIGHT(K, "4"), "1") \
  FLASHACL_ROW_2(FLASHACL_WEIGHT(K, "8"), "2") \
  FLASHACL_ROW_2(FLASHACL_WEIGHT(K, "12"), "3")
#define FLASHACL_ADD_3(LOAD, BYTES, K) \
  "movq 8*" K "(%[values],%[at]), %[value]\n\t" \
  LOAD("12", "(%[value],%[from])") \
  LOAD("13", BYTES "(%[value],%[from])") \
  LOAD("14", "2*" BYTES "(%[value],%[from])") \
  FLASHACL_ROW_3(FLASHACL_WEIGHT(K, "0"), "0") \
  FLASHACL_ROW_3(FLASHACL_WEIGHT(K, "4"), "1") \
  FLASHACL_ROW_3(FLASHACL_WEIGHT(K, "8"), "2") \
  FLASHACL_ROW_3(FLASHACL_WEIGHT(K, "12"), "3")

// One for each vector of a line of 4-byte, 2-byte or 1-byte elements; between
// them, requests for three lines, or two, or none.
#define FLASHACL_LINE_32(DO, LOAD, ASK) \
  DO(LOAD, "32", "0") \
  ASK##_A \
  ASK##_B \
  DO(LOAD, "32", "1") \
  ASK##_C
#define FLASHACL_LINE_16(DO, LOAD, ASK) \
  DO(LOAD, "16", "0") \
  ASK##_A \
  DO(LOAD, "16", "1") \
  ASK##_B \
  DO(LOAD, "16", "2") \
  ASK##_C \
  DO(LOAD, "16", "3")
#define FLASHACL_LINE_8(DO, LOAD, ASK) \
  DO(LOAD, "8", "0") \
  DO(LOAD, "8", "1") \
  ASK##_A \
  DO(LOAD, "8", "2") \
  DO(LOAD, "8", "3") \
  ASK##_B \
  DO(LOAD, "8", "4") \
  DO(LOAD, "8", "5") \
  ASK##_C \
  DO(LOAD, "8", "6") \
  DO(LOAD, "8", "7")
#define FLASHACL_ASK_3_A "prefetcht1 (%[asked])\n\t"
#define FLASHACL_ASK_3_B "prefetcht1 64(%[asked])\n\t"
#define FLASHACL_ASK_3_C "prefetcht1 128(%[asked])\n\t"
#define FLASHACL_ASK_2_A FLASHACL_ASK_3_A
#define FLASHACL_ASK_2_B
#define FLASHACL_ASK_2_C FLASHACL_ASK_3_B
#define FLASHACL_ASK_0_A
#define FLASHACL_ASK_0_B
#define FLASHACL_ASK_0_C

// Sums by key or vector, and row: as operands, and cleared.
#define FLASHACL_SUM(NAME, HOW, SUM) [NAME] HOW(SUM.raw)
#define FLASHACL_SUMS_2(HOW) \
  FLASHACL_SUM(s00, HOW, sums[0][0]), FLASHACL_SUM(s01, HOW, sums[0][1]), \
  FLASHACL_SUM(s02, HOW, sums[0][2]), FLASHACL_SUM(s03, HOW, sums[0][3]), \
  FLASHACL_SUM(s10, HOW, sums[1][0]), FLASHACL_SUM(s11, HOW, sums[1][1]), \
  FLASHACL_SUM(s12, HOW, sums[1][2]), FLASHACL_SUM(s13, HOW, sums[1][3])
#define FLASHACL_SUMS_3(HOW) \
  FLASHACL_SUMS_2(HOW), \
  FLASHACL_SUM(s20, HOW, sums[2][0]), FLASHACL_SUM(s21, HOW, sums[2][1]), \
  FLASHACL_SUM(s22, HOW, sums[2][2]), FLASHACL_SUM(s23, HOW, sums[2][3])
#define FLASHACL_CLEAR(V) \
  "vxorps %[s" V "0], %[s" V "0], %[s" V "0]\n\t" \
  "vxorps %[s" V "1], %[s" V "1], %[s" V "1]\n\t" \
  "vxorps %[s" V "2], %[s" V "2], %[s" V "2]\n\t" \
  "vxorps %[s" V "3], %[s" V "3], %[s" V "3]\n\t"

// A loop over the lines of three keys, which asks for ASKED bytes in a turn.
#define FLASHACL_DOT_LINES(LINE, LOAD, VECTORS, ASK, ASKED) \
  asm(FLASHACL_CLEAR("0") FLASHACL_CLEAR("1") FLASHACL_CLEAR("2") \
      "1:\n\t" \
      LINE(FLASHACL_DOT, LOAD, ASK) \
      "addq $" ASKED ", %[asked]\n\t" \
      "addq $128*" VECTORS ", %[query]\n\t" \
      "addq $64, %[at]\n\t" \
      "jnz 1b" \
      : FLASHACL_SUMS_3("=&x"), [at] "+&r"(at), [query] "+&r"(query), \
        [asked] "+&r"(asked) \
      : [key0] "r"(keys[0] + bytes), [key1] "r"(keys[1] + bytes), \
        [key2] "r"(keys[2] + bytes) \
      : "cc", "memory", "xmm12", "xmm13", "xmm14", "xmm15")

// As many values as a line has vectors. Thirty operands, sums counted twice,
// are all that GCC 12 takes.
#define FLASHACL_ADD_LINE(LINE, LOAD, N, ASK) \
  asm(LINE(FLASHACL_ADD_##N, LOAD, ASK) \
      : FLASHACL_SUMS_##N("+x"), [value] "=&r"(value) \
      : [values] "r"(values), [probs] "r"(probs), [at] "r"(at), \
        [from] "r"(from), [asked] "r"(asked) \
      : "memory", "xmm12", "xmm13", "xmm14", "xmm15")

// clang-format on

// The same, whether or not it asks.
#define FLASHACL_DOT_LINES_OF(LINE, LOAD, VECTORS)                  \
  if constexpr (kAsks) {                                            \
    FLASHACL_DOT_LINES(LINE, LOAD, VECTORS, FLASHACL_ASK_3, "192"); \
  } else {                                                          \
    FLASHACL_DOT_LINES(LINE, LOAD, VECTORS, FLASHACL_ASK_0, "0");   \
  }
#define FLASHACL_ADD_LINE_OF(LINE, LOAD)              \
  if constexpr (kVectors == 3 && kAsks) {             \
    FLASHACL_ADD_LINE(LINE, LOAD, 3, FLASHACL_ASK_3); \
  } else if constexpr (kVectors == 3) {               \
    FLASHACL_ADD_LINE(LINE, LOAD, 3, FLASHACL_ASK_0); \
  } else if constexpr (kAsks) {                       \
    FLASHACL_ADD_LINE(LINE, LOAD, 2, FLASHACL_ASK_2); \
  } else {                                            \
    FLASHACL_ADD_LINE(LINE, LOAD, 2, FLASHACL_ASK_0); \
  }

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

// sums[k][r] = keys[k] . query[r], by lanes. Keys are whole lines, `bytes`, at
// least one; as many lines as they have are asked for from `asked` on, or none.
template <class Elements, bool kAsks>
HWY_INLINE void DotLines(const std::byte* const (&keys)[3], int64_t bytes,
                         const float* query, const std::byte* asked,
                         Vector (&sums)[3][4]) {
  int64_t at = -bytes;
  if constexpr (Elements::kType == DType::kF16) {
    FLASHACL_DOT_LINES_OF(FLASHACL_LINE_16, FLASHACL_LOAD_F16, "4")
  } else if constexpr (Elements::kType == DType::kBf16) {
    FLASHACL_DOT_LINES_OF(FLASHACL_LINE_16, FLASHACL_LOAD_BF16, "4")
  } else if constexpr (Elements::kType == DType::kF32) {
    FLASHACL_DOT_LINES_OF(FLASHACL_LINE_32, FLASHACL_LOAD_F32, "2")
  } else {
    static_assert(Elements::kType == DType::kI8);
    FLASHACL_DOT_LINES_OF(FLASHACL_LINE_8, FLASHACL_LOAD_I8, "8")
  }
}

// sums[v][r] += value[v] * weights[r] of as many keys as a line has vectors:
// two or three vectors of each, from `from` bytes behind where it begins on. As
// many lines are asked for from `asked` on, or none. `at`: bytes of the
// addresses before theirs; weights, [key, row], take twice as many.
template <class Elements, bool kAsks, int kVectors>
HWY_INLINE void AddLine(const std::byte* const* values, const float* probs,
                        int64_t at, int64_t from, const std::byte* asked,
                        Vector (&sums)[kVectors][4]) {
  static_assert(kVectors == 2 || kVectors == 3);
  const std::byte* value;
  if constexpr (Elements::kType == DType::kF16) {
    FLASHACL_ADD_LINE_OF(FLASHACL_LINE_16, FLASHACL_LOAD_F16)
  } else if constexpr (Elements::kType == DType::kBf16) {
    FLASHACL_ADD_LINE_OF(FLASHACL_LINE_16, FLASHACL_LOAD_BF16)
  } else if constexpr (Elements::kType == DType::kF32) {
    FLASHACL_ADD_LINE_OF(FLASHACL_LINE_32, FLASHACL_LOAD_F32)
  } else {
    static_assert(Elements::kType == DType::kI8);
    FLASHACL_ADD_LINE_OF(FLASHACL_LINE_8, FLASHACL_LOAD_I8)
  }
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#undef FLASHACL_LOAD_F32
#undef FLASHACL_LOAD_F16
#undef FLASHACL_LOAD_BF16
#undef FLASHACL_LOAD_I8
#undef FLASHACL_ROW_2
#undef FLASHACL_ROW_3
#undef FLASHACL_DOT
#undef FLASHACL_WEIGHT
#undef FLASHACL_ADD_2
#undef FLASHACL_ADD_3
#undef FLASHACL_LINE_32
#undef FLASHACL_LINE_16
#undef FLASHACL_LINE_8
#undef FLASHACL_ASK_3_A
#undef FLASHACL_ASK_3_B
#undef FLASHACL_ASK_3_C
#undef FLASHACL_ASK_2_A
#undef FLASHACL_ASK_2_B
#undef FLASHACL_ASK_2_C
#undef FLASHACL_ASK_0_A
#undef FLASHACL_ASK_0_B
#undef FLASHACL_ASK_0_C
#undef FLASHACL_SUM
#undef FLASHACL_SUMS_2
#undef FLASHACL_SUMS_3
#undef FLASHACL_CLEAR
#undef FLASHACL_DOT_LINES
#undef FLASHACL_ADD_LINE
#undef FLASHACL_DOT_LINES_OF
#undef FLASHACL_ADD_LINE_OF

#endif  // HWY_TARGET == HWY_AVX2

#endif  // FLASHACL_CPU_DECODE_GEMV_AVX2_INL_H_
