// SPDX-License-Identifier: Apache-2.0
// Where rows live, how they are encoded and how sequences are packed changes
// no answer.
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "tests/property/law.h"

namespace flashacl::testing {
namespace {

using Rows = KvSource::Rows;

constexpr int64_t kProblems = 1000;

// Gives `to` the keys and values of `from`, row by row.
void CopyKeys(const SmallCase& from, SmallCase& to) {
  ForEachKey(to.problem(),
             [&](const SmallCase::Column& at) { CopyKey(from, at, to, at); });
}

// Everything but keys and where they are.
void CopyTheRest(const SmallCase& from, SmallCase& to) {
  for (size_t n = 0; n < kSlots; ++n) {
    const Slot slot = static_cast<Slot>(n);
    const bool of_keys = slot == Slot::kKey || slot == Slot::kKeyRope ||
                         slot == Slot::kValue || slot == Slot::kBlockTable ||
                         slot == Slot::kTopK;
    if (!of_keys && slot < Slot::kOut) to.Copy(slot, from);
  }
}

TEST(Sources, PagesListsAndTheWholeTopKAreStridedRows) {
  Space space = LawSpace();
  space.sources = false;
  ForRandomProblems(
      kProblems, space, [](const AttentionProblem& p, Random& random) {
        ProblemSpec problem_spec = SpecOf(p);
        problem_spec.row_stats = true;
        SmallCase strided(InDoubles(Build(problem_spec)));
        strided.FillInputs(random);
        strided.Run();
        for (const auto& [source, gathers] :
             {std::pair{Rows::kPaged, false}, std::pair{Rows::kList, false},
              std::pair{Rows::kStrided, true}, std::pair{Rows::kPaged, true},
              std::pair{Rows::kList, true}}) {
          SCOPED_TRACE(Str("{} {}", static_cast<int>(source), gathers));
          ProblemSpec other = problem_spec;
          other.source = source;
          if (gathers) other.selection = KvSource::Selection::kTopK;
          other.page_rows = random.Within(1, 5);
          other.top_k = 12;
          SmallCase moved(InDoubles(Build(other)));
          moved.FillInputs(random);
          CopyTheRest(strided, moved);
          CopyKeys(strided, moved);
          if (gathers) {
            for (int64_t n = 0; n < moved.count(Slot::kTopK); ++n) {
              moved.Put(Slot::kTopK, n, static_cast<double>(n % 12));
            }
          }
          moved.Run();
          ForEachRow(strided.problem(), [&](const RowAt& row) {
            ExpectClose(Channels(moved, Slot::kOut, row),
                        Channels(strided, Slot::kOut, row), "out");
            // Rows that see nothing have statistics of their own when gathered.
            if (SawNothing(strided, row)) return;
            ExpectClose(Statistic(moved, Slot::kRowMax, row),
                        Statistic(strided, Slot::kRowMax, row), "row max");
            ExpectClose(Statistic(moved, Slot::kRowSum, row),
                        Statistic(strided, Slot::kRowSum, row), "row sum");
          });
        }
      });
}

TEST(Sources, Int8RowsAreTheNumbersTheyStandFor) {
  Space space = LawSpace();
  space.shared_value = false;
  ForRandomProblems(
      kProblems, space, [](const AttentionProblem& p, Random& random) {
        ProblemSpec problem_spec = SpecOf(p);
        problem_spec.row_stats = true;
        problem_spec.keys = {};
        SmallCase dense(InDoubles(Build(problem_spec)));
        dense.FillInputs(random);
        problem_spec.keys = {ProblemSpec::Scales::kChannel, random.OneIn(2)};
        SmallCase int8(InDoubles(Build(problem_spec)));
        int8.FillInputs(random);
        CopyTheRest(dense, int8);
        int8.Copy(Slot::kBlockTable, dense);
        int8.Copy(Slot::kTopK, dense);
        int8.Copy(Slot::kKeyRope, dense);
        const AttentionProblem& problem = int8.problem();
        const auto decoded = [&](std::pair<Slot, Slot> scale_and_offset,
                                 int64_t g, int64_t d, double x) {
          const auto [scale, offset] = scale_and_offset;
          if (problem.has(offset))
            x += int8.Get(offset, problem[offset].At(g, d));
          return x * int8.Get(scale, problem[scale].At(g, d));
        };
        ForEachKey(problem, [&](const SmallCase::Column& at) {
          for (int64_t d = 0; d < problem.qk_dim; ++d) {
            const double x = int8.GetKey(Slot::kKey, at, d);
            dense.PutKey(
                Slot::kKey, at, d,
                decoded({Slot::kKeyScale, Slot::kKeyOffset}, at.kv_head, d, x));
          }
          for (int64_t d = 0; d < problem.v_dim; ++d) {
            const double x = int8.GetKey(Slot::kValue, at, d);
            dense.PutKey(Slot::kValue, at, d,
                         decoded({Slot::kValueScale, Slot::kValueOffset},
                                 at.kv_head, d, x));
          }
        });
        dense.Run();
        int8.Run();
        ExpectSameResults(int8, dense);
      });
}

// The spec of sequence `b` alone.
ProblemSpec Alone(const ProblemSpec& problem_spec, size_t b) {
  ProblemSpec alone = problem_spec;
  alone.rows = {problem_spec.rows[b]};
  alone.columns = {problem_spec.columns[b]};
  if (problem_spec.rules.size() > 1) alone.rules = {problem_spec.rules[b]};
  if (b > 0 && problem_spec.score.starts_only_first) {
    alone.score.query_start = alone.score.key_start = 0;
  }
  return alone;
}

// What the problem of one sequence takes from that of all.
void TakeSequence(const SmallCase& all, int64_t b, SmallCase& alone) {
  const AttentionProblem& problem = alone.problem();
  const auto& from = all.problem().lengths.sequences[static_cast<size_t>(b)];
  for (const Slot slot : {Slot::kQuery, Slot::kQueryRope, Slot::kQueryRowScale,
                          Slot::kGradOut, Slot::kTopK}) {
    if (!problem.has(slot)) continue;
    const auto& dims = problem[slot].dims;
    for (int64_t i = 0; i < from.rows(); ++i) {
      for (int64_t head = 0; head < dims[2]; ++head) {
        for (int64_t d = 0; d < dims[3]; ++d) {
          alone.Put(slot, problem[slot].At(0, i, head, d),
                    all.Get(slot, all.problem()[slot].At(
                                      b, from.queries.first + i, head, d)));
        }
      }
    }
  }
  ForEachKey(problem, [&](const SmallCase::Column& at) {
    CopyKey(all, {b, at.j, at.kv_head}, alone, at);
  });
  ForEachRow(problem, [&](const RowAt& row) {
    for (const Slot slot : {Slot::kMask, Slot::kBias, Slot::kKeep}) {
      if (!problem.has(slot)) continue;
      if (slot == Slot::kBias && IsAlibi(problem.score.bias)) continue;
      for (int64_t j = 0; j < from.columns(); ++j) {
        alone.PutCell(slot, {0, row.head, row.i, j},
                      all.GetCell(slot, {b, row.head, row.i, j}));
      }
    }
  });
  if (IsAlibi(problem.score.bias)) {
    for (int64_t head = 0; head < problem.heads; ++head) {
      alone.Put(Slot::kBias, problem[Slot::kBias].At(0, head),
                all.Get(Slot::kBias, all.problem()[Slot::kBias].At(b, head)));
    }
  }
}

void CopyFactors(const SmallCase& from, SmallCase& to) {
  for (const Slot slot :
       {Slot::kSink, Slot::kKeyScale, Slot::kKeyOffset, Slot::kValueScale,
        Slot::kValueOffset, Slot::kOutScale, Slot::kOutOffset}) {
    to.Copy(slot, from);
  }
}

// A grid over (sequence, head, row, column) that varies along all of them.
void Spread(ProblemSpec& problem_spec) {
  problem_spec.diagonal_rows = 0;
  if (problem_spec.mask) problem_spec.mask = ProblemSpec::Axes{};
  problem_spec.bias = {};
}

TEST(Sources, PackedSequencesAreOneProblemEach) {
  ForRandomProblems(
      kProblems, LawSpace(), [](const AttentionProblem& p, Random& random) {
        ProblemSpec problem_spec = SpecOf(p);
        problem_spec.row_stats = true;
        Spread(problem_spec);
        SmallCase all(InDoubles(Build(problem_spec)));
        all.FillInputs(random);
        all.Run();
        for (size_t b = 0; b < problem_spec.rows.size(); ++b) {
          SmallCase alone(InDoubles(Build(Alone(problem_spec, b))));
          alone.FillInputs(random);  // its pages
          CopyFactors(all, alone);
          TakeSequence(all, static_cast<int64_t>(b), alone);
          alone.Run();
          ForEachRow(alone.problem(), [&](const RowAt& row) {
            const RowAt same{static_cast<int64_t>(b), row.head, row.i};
            ExpectClose(Channels(alone, Slot::kOut, row),
                        Channels(all, Slot::kOut, same), "out");
            ExpectClose(Statistic(alone, Slot::kRowMax, row),
                        Statistic(all, Slot::kRowMax, same), "row max");
            ExpectClose(Statistic(alone, Slot::kRowSum, row),
                        Statistic(all, Slot::kRowSum, same), "row sum");
          });
        }
      });
}

// The same in the other direction; gradients of the sink add up.
TEST(Sources, GradientsOfPackedSequencesAreThoseOfEach) {
  Space space = LawSpace();
  space.backward = true;
  space.forward = false;
  ForRandomProblems(
      kProblems, space, [](const AttentionProblem& p, Random& random) {
        ProblemSpec problem_spec = SpecOf(p);
        problem_spec.gradients = {};
        Spread(problem_spec);
        SmallCase all(InDoubles(Build(problem_spec)));
        all.FillInputs(random);
        RunForwardTwin(all);
        all.Run();
        std::vector<double> sinks(
            static_cast<size_t>(all.count(Slot::kGradSink)));
        for (size_t b = 0; b < problem_spec.rows.size(); ++b) {
          SmallCase alone(InDoubles(Build(Alone(problem_spec, b))));
          CopyFactors(all, alone);
          TakeSequence(all, static_cast<int64_t>(b), alone);
          RunForwardTwin(alone);
          alone.Run();
          ForEachRow(alone.problem(), [&](const RowAt& row) {
            const RowAt same{static_cast<int64_t>(b), row.head, row.i};
            for (const Slot slot : {Slot::kGradQuery, Slot::kGradQueryRope}) {
              if (!alone.problem().has(slot)) continue;
              ExpectClose(Channels(alone, slot, row), Channels(all, slot, same),
                          "grad query");
            }
          });
          ForEachKey(alone.problem(), [&](const SmallCase::Column& at) {
            const SmallCase::Column same{static_cast<int64_t>(b), at.j,
                                         at.kv_head};
            for (const Slot slot :
                 {Slot::kGradKey, Slot::kGradKeyRope, Slot::kGradValue}) {
              if (!alone.problem().has(slot)) continue;
              for (int64_t d = 0; d < alone.problem()[slot].dims[3]; ++d) {
                ExpectClose(alone.GetKey(slot, at, d),
                            all.GetKey(slot, same, d), "grad of keys");
              }
            }
          });
          for (size_t head = 0; head < sinks.size(); ++head) {
            sinks[head] +=
                alone.Get(Slot::kGradSink, static_cast<int64_t>(head));
          }
        }
        ExpectClose(all.Get(Slot::kGradSink), sinks, "grad sink");
      });
}

// Heads that share keys are heads with the same keys.
TEST(Sources, AGroupIsHeadsWithEqualKeys) {
  Space space = LawSpace();
  space.sources = space.int8 = false;
  ForRandomProblems(
      kProblems, space, [](const AttentionProblem& p, Random& random) {
        ProblemSpec problem_spec = SpecOf(p);
        problem_spec.row_stats = true;
        SmallCase shared(InDoubles(Build(problem_spec)));
        shared.FillInputs(random);
        const int64_t group = problem_spec.heads / problem_spec.kv_heads;
        problem_spec.kv_heads = problem_spec.heads;
        SmallCase own(InDoubles(Build(problem_spec)));
        CopyTheRest(shared, own);
        ForEachKey(own.problem(), [&](const SmallCase::Column& at) {
          CopyKey(shared, {at.sequence, at.j, at.kv_head / group}, own, at);
        });
        shared.Run();
        own.Run();
        ExpectSameResults(own, shared);
      });
}

// Lengths that only the device knows are lengths.
TEST(Sources, LengthsOnTheDeviceAreLengths) {
  Space space = LawSpace();
  space.strides = true;
  space.device_lengths = true;
  space.sources = space.int8 = false;
  int64_t compared = 0;
  ForRandomProblems(
      8 * kProblems, space, [&](const AttentionProblem& p, Random& random) {
        const Lengths& lengths = p.lengths;
        if (lengths.known() || lengths.queries == Lengths::Device::kEnds ||
            lengths.keys == Lengths::Device::kEnds) {
          return;
        }
        SmallCase device(InDoubles(p));
        device.FillInputs(random);
        device.Run();
        AttentionProblem known = device.problem();
        for (const auto& [slot, side] :
             {std::pair{Slot::kQueryLengths, &Sequence::queries},
              std::pair{Slot::kKeyLengths, &Sequence::keys}}) {
          for (int64_t b = 0; known.has(slot) && b < p.lengths.count(); ++b) {
            Range& range =
                known.lengths.sequences[static_cast<size_t>(b)].*side;
            range.last = range.first +
                         static_cast<int64_t>(device.Get(slot, p[slot].At(b)));
          }
          known[slot] = {};
        }
        known.lengths.queries = known.lengths.keys = Lengths::Device::kNone;
        for (const Slot slot : {Slot::kMask, Slot::kBias, Slot::kKeep,
                                Slot::kRowMax, Slot::kRowSum}) {
          // Blocks would be as long as each sequence is.
          if (known[slot].placement == Placement::kBlocks) return;
        }
        SmallCase host(known);
        host.CopyInputs(device);
        host.Run();
        EXPECT_EQ(host.Get(Slot::kOut), device.Get(Slot::kOut));
        EXPECT_EQ(host.Get(Slot::kRowMax), device.Get(Slot::kRowMax));
        EXPECT_EQ(host.Get(Slot::kRowSum), device.Get(Slot::kRowSum));
        ++compared;
      });
  EXPECT_TRUE(testing::SeenOften(compared, kProblems / 4));
}

}  // namespace
}  // namespace flashacl::testing
