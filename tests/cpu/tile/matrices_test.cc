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
#include "cpu/pair_dots.h"
#include "tests/cpu/targets.h"

#ifndef FLASHACL_TESTS_MATRIX_CALLS
#define FLASHACL_TESTS_MATRIX_CALLS
namespace flashacl::cpu {
struct MatrixCalls {
  void (*emulate)(const float* a, const float* b, float* sums);
  void (*multiply)(const float* a, const float* b, float* sums);
  void (*clear)(float* sums);
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

template <class M>
void ClearOn(float* sums) {
  M::Configure();
  M m;
  m.template Clear<2>();
  m.template StoreLanes<2>(sums, 16);
  M::Release();
}

MatrixCalls CallsTable() {
  return {MultiplyOn<EmulatedMatrices>,
          MultiplyOn<Matrices>,
          ClearOn<Matrices>,
          MatrixLanes(),
          FLASHACL_HAS_MATRICES != 0,
          HWY_NATIVE_FMA != 0};
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace flashacl::cpu {
HWY_EXPORT(CallsTable);
namespace {

class MatricesOn : public ::testing::TestWithParam<int64_t> {
 protected:
  bool CanRun() const { return !calls_.has_instructions || HasMatrices(); }

  const testing::OnTarget target_{GetParam()};
  const MatrixCalls calls_ = HWY_DYNAMIC_DISPATCH(CallsTable)();
};

INSTANTIATE_TEST_SUITE_P(All, MatricesOn,
                         ::testing::ValuesIn(testing::TargetsHere()),
                         [](const auto& one) {
                           return std::string(hwy::TargetName(one.param));
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
