// SPDX-License-Identifier: Apache-2.0
// Pairs of bf16 channels give the lists and gradients that floats give, to the
// bit, whatever the numbers, on every instruction set; with the instruction
// where this processor has it.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

// First of what is Highway's.
#include "tests/cpu/targets.h"
// After it.
#include "cpu/pair_dots.h"
#include "indexer/selection_kernel.h"
#include "indexer/sequences.h"
#include "tests/cpu/pairs.h"
#include "tests/indexer/tensors.h"

namespace flashacl::indexer {
namespace {

using cpu::PairDots;

using Results = std::vector<std::vector<std::byte>>;

// Floats, or integers; a NaN is any NaN.
void ExpectSame(const Results& a, const Results& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t result = 0; result < a.size(); ++result) {
    ASSERT_EQ(a[result].size(), b[result].size());
    for (size_t n = 0; n < a[result].size(); n += 4) {
      if (std::isnan(Load<float>(a[result].data() + n)) &&
          std::isnan(Load<float>(b[result].data() + n))) {
        continue;
      }
      ASSERT_EQ(Load<uint32_t>(a[result].data() + n),
                Load<uint32_t>(b[result].data() + n))
          << "result " << result << " at " << n / 4;
    }
  }
}

class IndexerPairs : public ::testing::TestWithParam<int64_t> {
 protected:
  ~IndexerPairs() override { cpu::SetPairDotsForTest({}); }

  // What `results` gives of a computation that is made then.
  template <typename Run>
  static void ExpectBitsOfFloats(Run results) {
    cpu::SetPairDotsForTest(PairDots::kNone);
    const Results floats = results();
    for (const PairDots dots :
         testing::PairDotsHere(SelectionKernelsHere().has_pair_dots)) {
      SCOPED_TRACE(static_cast<int>(dots));
      cpu::SetPairDotsForTest(dots);
      ExpectSame(floats, results());
    }
  }

  static void ExpectLists(Tensors& tensors, int64_t width) {
    Selection selection{.rows = tensors.rows()};
    selection.indices = tensors.NewLists(DType::kI32, width);
    selection.values = tensors.NewLists(DType::kF32, width);
    ExpectBitsOfFloats(
        [&] { return tensors.Results(*MakeSelection(selection), 2, 2); });
  }

  static void ExpectGradients(Tensors& tensors, int64_t width) {
    const Gradient gradient = tensors.NewGradient(width);
    ExpectBitsOfFloats(
        [&] { return tensors.Results(*MakeGradient(gradient), 2, 3); });
  }

  const testing::OnTarget target_{GetParam()};
};

INSTANTIATE_TEST_SUITE_P(Every, IndexerPairs,
                         ::testing::ValuesIn(testing::TargetsHere()),
                         testing::TargetTestName);

void PutSpecial(Tensors& tensors, size_t argument, Random& random) {
  testing::PutSpecialPairs(
      tensors.halves(argument), random,
      [&](int64_t n, double special) { tensors.Put(argument, n, special); });
}

TEST_P(IndexerPairs, GiveTheBitsOfFloats) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const int64_t rows = random.Within(1, 12), keys = random.Within(1, 200);
    Tensors tensors(rows, keys, random.Within(1, 40), 2 * random.Within(1, 40));
    const bool lists = random.OneIn(2);
    if (lists && random.OneIn(2)) {
      tensors.UsePages(random.Within(1, 40), random);
    }
    for (size_t n = 0; n < 3; ++n) tensors.FillHalves(n, seed + n);
    for (size_t n = 0; n < 2; ++n) {
      if (random.OneIn(2)) PutSpecial(tensors, n, random);
    }
    const int64_t width = random.Within(1, 150);
    lists ? ExpectLists(tensors, width) : ExpectGradients(tensors, width);
  }
}

// An instruction that makes 0 of subnormals has every score 0.
TEST_P(IndexerPairs, KeepSubnormals) {
  for (const size_t tiny : {0, 1}) {
    for (const bool lists : {false, true}) {
      Tensors tensors(5, 70, 3, 8);
      for (size_t n = 0; n < 3; ++n) tensors.FillHalves(n, n);
      for (int64_t n = 0; n < tensors.halves(tiny); ++n) {
        tensors.Put(tiny, n, testing::TinyNumber(n));
      }
      for (int64_t n = 0; n < tensors.halves(1 - tiny); ++n) {
        tensors.Put(1 - tiny, n, testing::LargeNumber(n));
      }
      lists ? ExpectLists(tensors, 70) : ExpectGradients(tensors, 70);
    }
  }
}

// Which products are of pairs.
TEST(IndexerPairsOf, Bf16AlongChannels) {
  const auto dots_of = [](int64_t channels, auto change) {
    AttentionProblem problem = Tensors(1, 1, 1, channels).rows().problem;
    change(problem);
    return PairDotsOf(problem, true, cpu::MatrixCode::kEmulated);
  };
  const auto as_it_is = [](AttentionProblem&) {};
  cpu::SetPairDotsForTest(PairDots::kInstruction);
  EXPECT_EQ(dots_of(6, as_it_is), cpu::kInstructionSumsAsFloats
                                      ? PairDots::kInstruction
                                      : PairDots::kNone);
  cpu::SetPairDotsForTest(PairDots::kMultiplyAdds);
  EXPECT_EQ(dots_of(6, as_it_is), PairDots::kMultiplyAdds);
  EXPECT_EQ(dots_of(7, as_it_is), PairDots::kNone);
  for (const Slot slot : {Slot::kQuery, Slot::kKey}) {
    EXPECT_EQ(dots_of(6, [=](auto& p) { p[slot].dtype = DType::kF16; }),
              PairDots::kNone);
    EXPECT_EQ(dots_of(6, [=](auto& p) { p[slot].strides[3] = 2; }),
              PairDots::kNone);
  }
  cpu::SetPairDotsForTest(PairDots::kMatrices);
  EXPECT_EQ(dots_of(64, as_it_is), PairDots::kMatrices);
  EXPECT_EQ(dots_of(48, as_it_is), PairDots::kNone);
  EXPECT_EQ(dots_of(64, [](auto& p) { p[Slot::kKey].channel_block = 16; }),
            PairDots::kNone);
  EXPECT_EQ(dots_of(64, [](auto& p) { p[Slot::kKey].dtype = DType::kF16; }),
            PairDots::kNone);
  cpu::SetPairDotsForTest({});
}

}  // namespace
}  // namespace flashacl::indexer
