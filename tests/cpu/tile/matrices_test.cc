// SPDX-License-Identifier: Apache-2.0
// Products of matrix registers are those of the manual, to the bit: emulated on
// every target, and of the instructions where this processor has them.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/random.h"
#include "cpu/byte_dots.h"
#include "cpu/pair_dots.h"
#include "tests/cpu/targets.h"

#ifndef FLASHACL_TESTS_MATRIX_CALLS
#define FLASHACL_TESTS_MATRIX_CALLS
namespace flashacl::cpu {
struct MatrixCalls {
  void (*emulate)(const float* a, const float* b, float* sums);
  void (*multiply)(const float* a, const float* b, float* sums);
  void (*clear)(float* sums);
  // Signed bytes of `a`, and unsigned ones.
  void (*emulate_bytes[2])(const int32_t* a, const int32_t* b, int32_t* sums);
  void (*multiply_bytes[2])(const int32_t* a, const int32_t* b, int32_t* sums);
  int64_t lanes;
  bool has_instructions;
  bool fuses;  // products that are no floats of their own may meet sums
};
}  // namespace flashacl::cpu
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/cpu/tile/matrices_test.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "cpu/tile/matrices-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

template <class M>
void MultiplyOn(const float* a, const float* b, float* sums) {
  M::Configure();
  M m;
  m.template LoadLanes<3>(sums, 16);
  m.template LoadRows<1>(a, 17);
  m.template LoadLanes<7>(b, 18);
  m.template MultiplyAdd<3, 1, 7>();
  m.template StoreLanes<3>(sums, 16);
  M::Release();
}

template <class M, class Byte>
void MultiplyBytesOn(const int32_t* a, const int32_t* b, int32_t* sums) {
  M::Configure();
  M m;
  m.template LoadRows<2>(sums, 16);
  m.template LoadRows<0>(a, 17);
  m.template LoadRows<6>(b, 18);
  m.template MultiplyAddBytes<Byte, 2, 0, 6>();
  m.template StoreRows<2>(sums, 16);
  M::Release();
}

template <class M>
void ClearOn(float* sums) {
  M::Configure();
  M m;
  m.template Clear<2>();
  m.template StoreLanes<2>(sums, 16);
  M::Release();
}

MatrixCalls CallsTable() {
  return {
      MultiplyOn<EmulatedMatrices>,
      MultiplyOn<Matrices>,
      ClearOn<Matrices>,
      {MultiplyBytesOn<EmulatedMatrices, int8_t>,
       MultiplyBytesOn<EmulatedMatrices, uint8_t>},
      {MultiplyBytesOn<Matrices, int8_t>, MultiplyBytesOn<Matrices, uint8_t>},
      MatrixLanes(),
      FLASHACL_HAS_MATRICES != 0,
      HWY_NATIVE_FMA != 0};
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if FLASHACL_ONCE
namespace flashacl::cpu {
FLASHACL_EXPORT(MatrixCalls, CallsTable);
namespace {

class MatricesOn : public ::testing::TestWithParam<int64_t> {
 protected:
  bool CanRun() const { return !calls_.has_instructions || HasMatrices(); }

  const testing::OnTarget target_{GetParam()};
  const MatrixCalls calls_ = FLASHACL_DISPATCH(CallsTable);
};

INSTANTIATE_TEST_SUITE_P(All, MatricesOn,
                         ::testing::ValuesIn(testing::TargetsHere()),
                         [](const auto& one) {
                           return std::string(cpu::TargetName(one.param));
                         });

float Flush(float x) { return std::fabs(x) < 0x1p-126f ? 0 : x; }

float Half(float word, bool upper) {
  const auto bits = std::bit_cast<uint32_t>(word);
  return Flush(std::bit_cast<float>(upper ? bits & 0xFFFF0000u : bits << 16));
}

// The manual's loops.
void Multiply(const float* a, const float* b, int64_t lanes, float* sums) {
  for (int64_t row = 0; row < 16; ++row) {
    for (int64_t lane = 0; lane < lanes; ++lane) {
      float of[2] = {};
      for (int64_t k = 0; k < 16; ++k) {
        for (const bool upper : {false, true}) {
          of[upper] = Flush(std::fma(Half(a[row * 17 + k], upper),
                                     Half(b[k * 18 + lane], upper), of[upper]));
        }
      }
      float& sum = sums[row * 16 + lane];
      sum = Flush(Flush(sum) + Flush(of[0] + of[1]));
    }
  }
}

// Numbers of bf16 whose exponents are near each other, or of any bits.
uint32_t AnyHalf(Random& random, int64_t kind) {
  if (kind == 0) return static_cast<uint32_t>(random.Bits() & 0xFFFF);
  const auto exponent = static_cast<uint32_t>(
      kind == 1 ? random.Within(120, 130)
                : random.Within(55, 75));  // products near the subnormal
  const auto rest = static_cast<uint32_t>(random.Bits() & 0x807F);
  return rest | exponent << 7;
}

std::vector<float> AnyWords(int64_t count, Random& random, int64_t kind) {
  std::vector<float> words;
  for (int64_t n = 0; n < count; ++n) {
    words.push_back(std::bit_cast<float>(AnyHalf(random, kind) |
                                         AnyHalf(random, kind) << 16));
  }
  return words;
}

void ExpectSame(const std::vector<float>& a, const std::vector<float>& b) {
  for (size_t n = 0; n < a.size(); ++n) {
    if (std::isnan(a[n]) && std::isnan(b[n])) continue;
    ASSERT_EQ(std::bit_cast<uint32_t>(a[n]), std::bit_cast<uint32_t>(b[n]))
        << n << ": " << a[n] << " and " << b[n];
  }
}

TEST_P(MatricesOn, MultiplyAsTheManualSays) {
  Random random(1);
  for (int64_t round = 0; round < 600; ++round) {
    const int64_t kind = calls_.fuses ? round % 3 : 1;
    const std::vector<float> a = AnyWords(16 * 17, random, kind);
    const std::vector<float> b = AnyWords(16 * 18, random, kind);
    std::vector<float> sums = AnyWords(256, random, kind);
    std::vector<float> emulated = sums, here = sums;
    Multiply(a.data(), b.data(), calls_.lanes, sums.data());
    calls_.emulate(a.data(), b.data(), emulated.data());
    ExpectSame(sums, emulated);
    if (!CanRun()) continue;
    calls_.multiply(a.data(), b.data(), here.data());
    ExpectSame(sums, here);
  }
}

// Byte `n` of words.
int64_t ByteOf(const std::vector<int32_t>& words, int64_t at, int64_t n,
               bool is_signed) {
  const auto bits = static_cast<uint32_t>(words[static_cast<size_t>(at)]);
  const auto byte = static_cast<uint8_t>(bits >> (8 * n));
  return is_signed ? static_cast<int8_t>(byte) : byte;
}

// Sums wrap.
TEST_P(MatricesOn, MultiplyBytesAsTheManualSays) {
  Random random(2);
  const auto any = [&](int64_t count) {
    std::vector<int32_t> words;
    for (int64_t n = 0; n < count; ++n) {
      words.push_back(static_cast<int32_t>(random.Bits()));
    }
    return words;
  };
  for (int round = 0; round < 100; ++round) {
    const size_t kind = round % 2;  // without signs
    const std::vector<int32_t> a = any(16 * 17), b = any(16 * 18);
    std::vector<int32_t> sums = any(256);
    std::vector<int32_t> emulated = sums, here = sums;
    for (int64_t n = 0; n < 256; ++n) {
      int64_t sum = sums[static_cast<size_t>(n)];
      for (int64_t k = 0; k < 64; ++k) {
        sum += ByteOf(a, n / 16 * 17 + k / 4, k % 4, kind == 0) *
               ByteOf(b, k / 4 * 18 + n % 16, k % 4, true);
      }
      sums[static_cast<size_t>(n)] =
          static_cast<int32_t>(static_cast<uint32_t>(sum));
    }
    calls_.emulate_bytes[kind](a.data(), b.data(), emulated.data());
    EXPECT_EQ(emulated, sums);
    if (calls_.has_instructions && !HasByteMatrices()) continue;
    calls_.multiply_bytes[kind](a.data(), b.data(), here.data());
    EXPECT_EQ(here, sums);
  }
}

TEST_P(MatricesOn, Clear) {
  if (!CanRun()) GTEST_SKIP() << "this processor has no matrix registers";
  std::vector<float> sums(256, 3.0f);
  calls_.clear(sums.data());
  for (int64_t n = 0; n < 256; ++n) {
    const float expected = n % 16 < calls_.lanes ? 0.0f : 3.0f;
    EXPECT_EQ(sums[static_cast<size_t>(n)], expected) << n;
  }
}

}  // namespace
}  // namespace flashacl::cpu
#endif
