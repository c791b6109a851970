// SPDX-License-Identifier: Apache-2.0
// Which words of P and dS products on matrix registers meet, on every
// instruction set: those of panels that see a key, and zeros between them.
// matrix_dots_test.cc has the whole.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/range.h"
#include "cpu/backward/backward_kernel.h"
#include "tests/cpu/targets.h"
#include "tests/testing/generator.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/cpu/backward/matrix_grads_test.cc"
#include "cpu/targets.h"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "cpu/backward/matrix_grads-inl.h"

#ifndef FLASHACL_TESTS_CPU_MATRIX_GRADS
#define FLASHACL_TESTS_CPU_MATRIX_GRADS
namespace flashacl::cpu {
struct DepthCalls {
  // Of a tile whose scratch memory has words and what each panel sees; writes a
  // range for each 32 of the keys.
  void (*depths)(const BackwardTile& tile, int64_t keys, int64_t rows,
                 Range* to);
  int64_t lanes;
};
}  // namespace flashacl::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

void DepthsTo(const BackwardTile& tile, int64_t keys, int64_t rows, Range* to) {
  const DepthsOfStep depths(tile, keys, rows);
  std::copy_n(depths.get(), CeilDiv(keys, kDepthRows), to);
}

DepthCalls DepthTable() { return {DepthsTo, Lanes()}; }

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if FLASHACL_ONCE
namespace flashacl::cpu {
FLASHACL_EXPORT(DepthCalls, DepthTable);
namespace {

constexpr int64_t kBlockWords = 64;  // pairs of rows of a block
constexpr int64_t kStride = 2 * kBlockWords + 16;
constexpr int64_t kMatrixPairs = 16;  // of rows, along k of a matrix
constexpr float kNone = std::numeric_limits<float>::quiet_NaN();

class Depths : public ::testing::TestWithParam<int64_t> {
 protected:
  const testing::OnTarget target_{GetParam()};
  const DepthCalls calls_ = FLASHACL_DISPATCH(DepthTable);
};

INSTANTIATE_TEST_SUITE_P(EveryTarget, Depths,
                         ::testing::ValuesIn(testing::TargetsHere()),
                         [](const auto& one) {
                           return std::string(TargetName(one.param));
                         });

// What the panels of a block see of the keys of a step, and their words, none
// of which is 0.
struct Block {
  int64_t keys, panels, rows;
  std::vector<Range> seen;
  std::vector<float> probs, grads;

  Block(int64_t lanes, Random& random)
      : keys(random.Within(1, 132)),
        panels(random.Within(1, kBlockWords / lanes)),
        rows(2 * lanes * (panels - 1) + random.Within(1, 2 * lanes)),
        seen(static_cast<size_t>(kBlockWords / lanes), Range{0, keys}),
        probs(static_cast<size_t>(keys * kStride), kNone),
        grads(probs) {
    // What lies after the block's panels is of another block.
    for (int64_t panel = 0; panel < panels; ++panel) {
      Range& of = seen[static_cast<size_t>(panel)] = {};
      if (random.OneIn(3)) continue;
      of.first = random.Within(0, keys - 1);
      of.last = random.Within(of.first + 1, keys);
    }
  }

  BackwardTile Tile() {
    BackwardTile tile{};
    tile.backward.seen = seen.data();
    tile.backward.prob_words = probs.data();
    tile.backward.grad_words = grads.data();
    tile.backward.word_stride = kStride;
    tile.backward.block_words = kBlockWords;
    return tile;
  }

  bool Sees(int64_t panel, int64_t key) const {
    if (panel >= panels) return false;
    const Range& of = seen[static_cast<size_t>(panel)];
    return of.first <= key && key < of.last;
  }

  // Panels from the first to the last that sees one of `some` keys.
  Range SeenBy(Range some) const {
    Range seeing;
    for (int64_t panel = 0; panel < panels; ++panel) {
      bool sees = false;
      for (int64_t j = some.first; j < some.last; ++j) sees |= Sees(panel, j);
      if (!sees) continue;
      if (seeing.empty()) seeing.first = panel;
      seeing.last = panel + 1;
    }
    return seeing;
  }

  // Whether all words of a pair of rows and a key, of both terms, are 0; none
  // must be if not all are.
  bool AreCleared(int64_t key, int64_t word) const {
    int64_t cleared = 0;
    for (const auto* const words : {&probs, &grads}) {
      for (const int64_t term : {int64_t{0}, kBlockWords}) {
        const int64_t at = key * kStride + term + word;
        cleared += (*words)[static_cast<size_t>(at)] == 0;
      }
    }
    EXPECT_TRUE(cleared == 0 || cleared == 4);
    return cleared == 4;
  }
};

TEST_P(Depths, AreFromTheFirstToTheLastPanelThatSeesAKey) {
  Random random(3);
  const int64_t lanes = calls_.lanes;
  int64_t zeros = 0;
  for (int64_t n = 0; n < testing::ShareOf(300); ++n) {
    Block block(lanes, random);
    std::array<Range, 5> depths;
    calls_.depths(block.Tile(), block.keys, block.rows, depths.data());
    for (int64_t j = 0; j < block.keys; ++j) {
      const int64_t group = j / 32 * 32;
      const Range seeing =
          block.SeenBy({group, std::min(group + 32, block.keys)});
      const Range depth = depths[static_cast<size_t>(j / 32)];
      ASSERT_EQ(depth.empty(), seeing.empty());
      if (!depth.empty()) {
        ASSERT_EQ(depth.first, seeing.first * lanes / kMatrixPairs);
        ASSERT_EQ(depth.last, CeilDiv(seeing.last * lanes, kMatrixPairs));
      }
      for (int64_t word = 0; word < kBlockWords; ++word) {
        const int64_t at = word / kMatrixPairs;
        const bool inside = depth.first <= at && at < depth.last;
        const bool zero = inside && !block.Sees(word / lanes, j);
        ASSERT_EQ(block.AreCleared(j, word), zero)
            << "key " << j << ", word " << word;
        zeros += zero;
      }
    }
  }
  EXPECT_GT(zeros, 0);
}

}  // namespace
}  // namespace flashacl::cpu
#endif
