// SPDX-License-Identifier: Apache-2.0
// Infinities and NaNs: what a row does not see does not reach it, whatever
// hides it; what it sees does, as the reference says.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <vector>

#include "cpu/decode/decode.h"
#include "cpu/forward/forward.h"
#include "cpu/forward/forward_kernel.h"
#include "plan/sequences.h"
#include "problem/grid.h"
#include "tests/cpu/runs.h"
#include "tests/cpu/targets.h"
#include "tests/testing/generator.h"
#include "tests/testing/random.h"
#include "tests/testing/small_case.h"

namespace flashacl::cpu {
namespace {

using Rows = KvSource::Rows;
using testing::ForRandomProblems;
using testing::OneOf;
using testing::OnTarget;
using testing::RunOn;
using testing::Setting;
using testing::Space;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

Space SpecialSpace() {
  Space space;
  space.backward = false;
  space.most_dim = 24;
  space.most_rows = 40;
  space.most_columns = 90;
  return space;
}

double AnySpecial(Random& random) {
  return OneOf(random, {kNaN, kInfinity, -kInfinity});
}

// A case, and who sees what of it by definition.
class Seen {
 public:
  explicit Seen(SmallCase& small)
      : small_(small),
        sequences_(ResolveSequences(small.problem(), small.bindings())),
        mask_(problem()[Slot::kMask], sequences_) {}

  const AttentionProblem& problem() const { return small_.problem(); }
  const std::vector<Sequence>& sequences() const { return sequences_; }
  const Sequence& extent(int64_t b) const {
    return sequences_[static_cast<size_t>(b)];
  }

  // Of element 0 of the row of a key; negative where no page holds it.
  int64_t OffsetOf(Slot slot, int64_t b, int64_t j, int64_t g) const {
    const TensorSpec& spec = problem()[slot];
    if (problem().kv.rows != Rows::kPaged) {
      return spec.At(b, extent(b).keys.first + j, g);
    }
    const int64_t page_rows = problem().kv.page_rows;
    const auto page = static_cast<int64_t>(small_.Get(
        Slot::kBlockTable, problem()[Slot::kBlockTable].At(b, j / page_rows)));
    const bool exists = 0 <= page && page < problem()[Slot::kKey].dims[0];
    return exists ? spec.At(page, j % page_rows, g) : -1;
  }

  bool Sees(int64_t b, int64_t head, int64_t i, int64_t j) const {
    const Band band =
        problem().mask.BandOf(b, extent(b).rows(), extent(b).columns());
    if (!band.Sees(i, j)) return false;
    if (problem().kv.rows != Rows::kList &&
        OffsetOf(Slot::kKey, b, j, head / problem().group()) < 0) {
      return false;
    }
    return !mask_.present() ||
           small_.Get(Slot::kMask, mask_.Plane(b, head).At(i, j)) == 0;
  }

  // Calls body(b, head, i) for every row.
  template <typename Body>
  void ForEachRow(Body body) const {
    for (int64_t b = 0; b < problem().lengths.count(); ++b) {
      for (int64_t head = 0; head < problem().heads; ++head) {
        for (int64_t i = 0; i < extent(b).rows(); ++i) body(b, head, i);
      }
    }
  }

 private:
  SmallCase& small_;
  std::vector<Sequence> sequences_;
  Grid mask_;
};

enum class Kind : uint8_t { kFinite, kNaN, kPlus, kMinus };

Kind KindOf(double x) {
  if (std::isnan(x)) return Kind::kNaN;
  if (std::isinf(x)) return x > 0 ? Kind::kPlus : Kind::kMinus;
  return Kind::kFinite;
}

void ExpectSameNumber(double found, double expected, std::string_view what) {
  EXPECT_EQ(KindOf(found), KindOf(expected))
      << what << ": " << found << ", expected " << expected;
  if (KindOf(found) != Kind::kFinite || KindOf(expected) != Kind::kFinite) {
    return;
  }
  // Neighbours in bfloat16 are 0.8 % apart.
  EXPECT_NEAR(found, expected, 0.01 * std::fabs(expected) + 0.01) << what;
}

// Results of two cases of one problem.
class Results {
 public:
  Results(const SmallCase& found, const SmallCase& expected)
      : found_(found),
        expected_(expected),
        sequences_(ResolveSequences(found.problem(), found.bindings())) {}

  void ExpectSameRow(int64_t b, int64_t head, int64_t i) const {
    const AttentionProblem& p = found_.problem();
    const int64_t row = sequences_[static_cast<size_t>(b)].queries.first + i;
    for (int64_t d = 0; d < p.v_dim; ++d) {
      const int64_t at = p[Slot::kOut].At(b, row, head, d);
      ExpectSameNumber(found_.Get(Slot::kOut, at),
                       expected_.Get(Slot::kOut, at), "out");
    }
    if (!p.has(Slot::kRowSum)) return;
    const double sum = At(expected_, Slot::kRowSum, b, head, i);
    ExpectSameNumber(At(found_, Slot::kRowSum, b, head, i), sum, "row sum");
    // NaNs are not ordered: among them any maximum is as good.
    if (std::isnan(sum)) return;
    ExpectSameNumber(At(found_, Slot::kRowMax, b, head, i),
                     At(expected_, Slot::kRowMax, b, head, i), "row max");
  }

 private:
  double At(const SmallCase& small, Slot slot, int64_t b, int64_t head,
            int64_t i) const {
    const Grid grid(small.problem()[slot], sequences_);
    return small.Get(slot, grid.Plane(b, head).At(i, 0));
  }

  const SmallCase& found_;
  const SmallCase& expected_;
  std::vector<Sequence> sequences_;
};

bool Fits(const Implementation& implementation, const AttentionProblem& p) {
  return implementation.supports(p, {}).ok() &&
         p[Slot::kOut].dtype != DType::kI8;
}

class Special : public ::testing::TestWithParam<Setting> {
 protected:
  const OnTarget target_{GetParam().target};
  const Implementation& implementation = *GetParam().implementation;
};

// Rows whose first number is one in the reference, and rows where it is not.
struct Reach {
  const Implementation& implementation;
  int64_t spared = 0;
  int64_t reached = 0;

  // Whatever is special: keys, values, queries, biases, sinks, a few of each.
  void Check(const AttentionProblem& p, Random& random) {
    if (!Fits(implementation, p)) return;
    SmallCase small(p);
    small.FillInputs(random);
    for (const Slot slot :
         {Slot::kQuery, Slot::kQueryRope, Slot::kKey, Slot::kKeyRope,
          Slot::kValue, Slot::kBias, Slot::kSink}) {
      if (!p.has(slot) || !IsFloat(p[slot].dtype) || !random.OneIn(3)) continue;
      const int64_t count = small.count(slot);
      const int64_t specials = count == 0 ? 0 : random.Within(1, 4);
      for (int64_t n = 0; n < specials; ++n) {
        small.Put(slot, random.Within(0, count - 1), AnySpecial(random));
      }
    }
    SmallCase expected(p);
    expected.CopyInputs(small);
    expected.Run();
    RunOn(implementation, small);
    const Results results(small, expected);
    const Seen seen(small);
    seen.ForEachRow([&](int64_t b, int64_t head, int64_t i) {
      results.ExpectSameRow(b, head, i);
      if (p.v_dim == 0) return;
      const int64_t row = seen.extent(b).queries.first + i;
      const double first =
          expected.Get(Slot::kOut, p[Slot::kOut].At(b, row, head));
      (std::isfinite(first) ? spared : reached) += 1;
    });
  }
};

TEST_P(Special, ReachesWhomTheReferenceSays) {
  Reach rows{implementation};
  ForRandomProblems(3000, SpecialSpace(),
                    [&](const AttentionProblem& p, Random& random) {
                      rows.Check(p, random);
                    });
  EXPECT_GT(rows.reached, testing::PartOf(5000));
  EXPECT_GT(rows.spared, testing::PartOf(5000));
}

// The same through several steps of keys and several parts of rows.
TEST_P(Special, ReachesAsFarThroughStepsAndParts) {
  Space space = SpecialSpace();
  space.most_columns = 2500;
  space.most_rows = 10;
  space.most_dim = 8;
  Reach rows{implementation};
  ForRandomProblems(200, space, [&](const AttentionProblem& p, Random& random) {
    rows.Check(p, random);
  });
  EXPECT_GT(rows.reached, testing::PartOf(300));
  EXPECT_GT(rows.spared, testing::PartOf(300));
}

// What no sequence, page or length holds may be anything.
TEST_P(Special, BeyondLengthsAndPagesReachesNobody) {
  ForRandomProblems(
      2000, SpecialSpace(), [&](const AttentionProblem& p, Random& random) {
        if (!Fits(implementation, p) || p.kv.rows == Rows::kList) return;
        SmallCase small(p);
        small.FillInputs(random);
        for (int64_t n = 0; n < small.count(Slot::kBlockTable); ++n) {
          if (random.OneIn(4)) {
            small.Put(Slot::kBlockTable, n, OneOf<double>(random, {-1, 1e9}));
          }
        }
        SmallCase clean(p);
        clean.CopyInputs(small);
        const Seen seen(small);
        for (const Slot slot : {Slot::kKey, Slot::kKeyRope, Slot::kValue}) {
          if (!p.has(slot) || !IsFloat(p[slot].dtype)) continue;
          for (int64_t n = 0; n < small.count(slot); ++n) {
            small.Put(slot, n, AnySpecial(random));
          }
          for (int64_t b = 0; b < p.lengths.count(); ++b) {
            for (int64_t j = 0; j < seen.extent(b).columns(); ++j) {
              for (int64_t g = 0; g < p.kv_heads; ++g) {
                const int64_t offset = seen.OffsetOf(slot, b, j, g);
                for (int64_t d = 0; offset >= 0 && d < p[slot].dims[3]; ++d) {
                  const int64_t at = offset + d * p[slot].strides[3];
                  small.Put(slot, at, clean.Get(slot, at));
                }
              }
            }
          }
        }
        RunOn(implementation, small);
        RunOn(implementation, clean);
        for (const Slot slot : {Slot::kOut, Slot::kRowMax, Slot::kRowSum}) {
          EXPECT_EQ(small.bytes(slot), clean.bytes(slot)) << Name(slot);
        }
      });
}

// Keys and values that a row does not see, band, mask tensor or both: rows that
// see no special one are as if there were none.
TEST_P(Special, HiddenKeysReachNobody) {
  int64_t spared = 0;
  const auto check = [&](const AttentionProblem& p, Random& random) {
    if (!Fits(implementation, p) || p.kv.rows == Rows::kList) return;
    if (!IsFloat(p[Slot::kKey].dtype)) return;
    SmallCase small(p);
    small.FillInputs(random);
    SmallCase clean(p);
    clean.CopyInputs(small);
    const Seen seen(small);
    // Whole columns: what tells them apart is who sees them.
    std::vector<std::vector<bool>> special;
    for (int64_t b = 0; b < p.lengths.count(); ++b) {
      special.emplace_back(static_cast<size_t>(seen.extent(b).columns()));
      for (int64_t j = 0; j < seen.extent(b).columns(); ++j) {
        if (!random.OneIn(8)) continue;
        special.back()[static_cast<size_t>(j)] = true;
        for (int64_t g = 0; g < p.kv_heads; ++g) {
          for (const Slot slot : {Slot::kKey, Slot::kKeyRope, Slot::kValue}) {
            const int64_t offset =
                p.has(slot) ? seen.OffsetOf(slot, b, j, g) : -1;
            for (int64_t d = 0; offset >= 0 && d < p[slot].dims[3]; ++d) {
              small.Put(slot, offset + d * p[slot].strides[3],
                        AnySpecial(random));
            }
          }
        }
      }
    }
    RunOn(implementation, small);
    RunOn(implementation, clean);
    const Results results(small, clean);
    seen.ForEachRow([&](int64_t b, int64_t head, int64_t i) {
      const auto& columns = special[static_cast<size_t>(b)];
      for (size_t j = 0; j < columns.size(); ++j) {
        if (columns[j] && seen.Sees(b, head, i, static_cast<int64_t>(j))) {
          return;
        }
      }
      results.ExpectSameRow(b, head, i);
      ++spared;
    });
  };
  Space space = SpecialSpace();
  space.dropout = true;
  ForRandomProblems(3000, space, check);
  EXPECT_GT(spared, 3000);
}

// Scales that are nothing, negative or huge.
TEST_P(Special, AnyScaleIsTheReferences) {
  ForRandomProblems(
      1000, SpecialSpace(), [&](const AttentionProblem& p, Random& random) {
        if (!Fits(implementation, p)) return;
        AttentionProblem scaled = p;
        scaled.score.scale =
            OneOf<float>(random, {0.0f, -0.0f, -p.score.scale, 1e-30f});
        SmallCase small(scaled);
        small.FillInputs(random);
        SmallCase expected(scaled);
        expected.CopyInputs(small);
        expected.Run();
        RunOn(implementation, small);
        const Results results(small, expected);
        Seen(small).ForEachRow([&](int64_t b, int64_t head, int64_t i) {
          results.ExpectSameRow(b, head, i);
        });
      });
}

INSTANTIATE_TEST_SUITE_P(EveryTarget, Special,
                         ::testing::ValuesIn(testing::Settings(
                             ForwardTargets(), {&kCpuForward, &kCpuDecode})),
                         testing::SettingTestName);

}  // namespace
}  // namespace flashacl::cpu
