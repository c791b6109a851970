// SPDX-License-Identifier: Apache-2.0
// Which scores share an element of a bias, and that elements nobody adds to
// become 0. right_test.cc has the sums themselves.
#include "cpu/backward/bias_gradient.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <vector>

#include "tests/testing/generator.h"
#include "tests/testing/shuffled_workers.h"
#include "tests/testing/small_case.h"

namespace flashacl::cpu {
namespace {

using testing::ForRandomProblems;
using testing::Space;

Space BiasSpace() {
  Space space;
  space.forward = false;
  space.sources = space.device_lengths = false;
  space.most_dim = 2;
  return space;
}

// Whether two scores of a problem have one element, by looking at all.
bool SomeShare(const AttentionProblem& p) {
  const Grid grid(p[Slot::kGradBias], p.lengths.sequences);
  std::set<int64_t> offsets;
  for (int64_t b = 0; b < p.lengths.count(); ++b) {
    const Sequence& extent = p.lengths.sequences[static_cast<size_t>(b)];
    for (int64_t head = 0; head < p.heads; ++head) {
      const GridPlane plane = grid.Plane(b, head);
      for (int64_t i = 0; i < extent.rows(); ++i) {
        for (int64_t j = 0; j < extent.columns(); ++j) {
          if (!offsets.insert(plane.At(i, j)).second) return true;
        }
      }
    }
  }
  return false;
}

template <typename Body>
void ForBiases(Body body) {
  ForRandomProblems(2000, BiasSpace(),
                    [&](const AttentionProblem& p, Random& random) {
                      if (!p.has(Slot::kBias)) return;
                      AttentionProblem problem = p;
                      problem[Slot::kGradBias] = problem[Slot::kBias];
                      body(problem, random);
                    });
}

TEST(BiasGradient, SumsWhereScoresShareAnElement) {
  int64_t apart = 0;
  int64_t together = 0;
  ForBiases([&](const AttentionProblem& p, Random&) {
    const int64_t sums = BiasGradient::SumsOf(p);
    if (IsAlibi(p.score.bias)) return;
    if (p[Slot::kGradBias].placement == Placement::kDiagonal) return;
    const bool share = SomeShare(p);
    if (share) {
      EXPECT_GT(sums, 0);
      ++together;
    } else if (sums == 0) {
      ++apart;
    }
  });
  EXPECT_TRUE(testing::SeenOften(apart, 50));
  EXPECT_TRUE(testing::SeenOften(together, 50));
}

// By looking at all scores of every kv head of every sequence.
TEST(BiasGradient, ClassesHaveNoElementInCommon) {
  int64_t many = 0;
  ForBiases([&](const AttentionProblem& p, Random&) {
    const SmallCase small(p);
    std::vector<double> sums(static_cast<size_t>(BiasGradient::SumsOf(p)));
    const BiasGradient gradient(p, small.bindings(), p.lengths.sequences, sums);
    const Grid grid(p[Slot::kGradBias], p.lengths.sequences);
    std::map<int64_t, int64_t> owner;  // by offset
    for (int64_t b = 0; b < p.lengths.count(); ++b) {
      const Sequence& extent = p.lengths.sequences[static_cast<size_t>(b)];
      for (int64_t head = 0; head < p.heads; ++head) {
        Tile cut;
        cut.sequence = b;
        cut.kv_head = head / p.group();
        const int64_t own = gradient.ClassOf(cut);
        ASSERT_GE(own, 0);
        ASSERT_LT(own, gradient.classes());
        const auto expect_own = [&](int64_t offset) {
          EXPECT_EQ(owner.emplace(offset, own).first->second, own);
        };
        if (IsAlibi(p.score.bias)) {
          expect_own(p[Slot::kGradBias].At(b, head));
          continue;
        }
        for (int64_t i = 0; i < extent.rows(); ++i) {
          for (int64_t j = 0; j < extent.columns(); ++j) {
            const GridPlane plane = grid.Plane(b, head);
            // Stored diagonals have none where nobody sees.
            if (plane.missing_rows >= 0 && j > i) continue;
            expect_own(plane.At(i, j));
          }
        }
      }
    }
    many += gradient.classes() > 1 ? 1 : 0;
  });
  EXPECT_TRUE(testing::SeenOften(many, 100));
}

TEST(BiasGradient, OfScoresThatNobodySeesIsZero) {
  ForBiases([](const AttentionProblem& p, Random&) {
    const SmallCase small(p);
    std::vector<double> sums(static_cast<size_t>(BiasGradient::SumsOf(p)), 5);
    const BiasGradient gradient(p, small.bindings(), p.lengths.sequences, sums);
    EXPECT_TRUE(gradient.wanted());
    if (!sums.empty()) {
      EXPECT_TRUE(gradient.shared());
    }
    gradient.Clear();
    ShuffledWorkers workers(2);
    gradient.Store(workers);
    const Grid grid(p[Slot::kGradBias], p.lengths.sequences);
    for (int64_t b = 0; b < p.lengths.count(); ++b) {
      const Sequence& extent = p.lengths.sequences[static_cast<size_t>(b)];
      if (extent.rows() == 0 || extent.columns() == 0) continue;
      for (int64_t head = 0; head < p.heads; ++head) {
        const int64_t at = IsAlibi(p.score.bias)
                               ? p[Slot::kGradBias].At(b, head)
                               : grid.Plane(b, head).At(extent.rows() - 1, 0);
        EXPECT_EQ(small.Get(Slot::kGradBias, at), 0);
      }
    }
  });
}

TEST(BiasGradient, OfNobodyNeedsNothing) {
  ForRandomProblems(200, BiasSpace(), [](const AttentionProblem& p, Random&) {
    AttentionProblem problem = p;
    problem[Slot::kGradBias] = {};
    EXPECT_EQ(BiasGradient::SumsOf(problem), 0);
    const Bindings none;
    const BiasGradient gradient(problem, none, p.lengths.sequences, {});
    EXPECT_FALSE(gradient.wanted());
    EXPECT_FALSE(gradient.shared());
    gradient.Clear();
    ShuffledWorkers workers(2);
    gradient.Store(workers);
  });
}

}  // namespace
}  // namespace flashacl::cpu
