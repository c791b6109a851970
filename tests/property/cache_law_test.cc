// SPDX-License-Identifier: Apache-2.0
// Keys and values as caches hold them are the numbers they stand for: channels
// in blocks, scales by row.
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "tests/property/law.h"

namespace flashacl::testing {
namespace {

using Encoding = ProblemSpec::Encoding;
using Rows = KvSource::Rows;
using Scales = ProblemSpec::Scales;

constexpr int64_t kProblems = 1000;

// Everything but keys and what belongs to them.
void CopyTheRest(const SmallCase& from, SmallCase& to) {
  for (size_t n = 0; n < static_cast<size_t>(Slot::kOut); ++n) {
    const Slot slot = static_cast<Slot>(n);
    const bool of_keys =
        (slot >= Slot::kKey && slot <= Slot::kValuePrefix) ||
        (slot >= Slot::kKeyScale && slot <= Slot::kValueRowOffset);
    if (!of_keys) to.Copy(slot, from);
  }
}

// Gives `to` the keys and values of `from`, row by row.
void CopyKeys(const SmallCase& from, SmallCase& to) {
  ForEachKey(to.problem(),
             [&](const SmallCase::Column& at) { CopyKey(from, at, to, at); });
}

TEST(Caches, BlocksOfChannelsAreRows) {
  ForRandomProblems(
      kProblems, LawSpace(), [](const AttentionProblem& p, Random& random) {
        if (p.kv.rows == Rows::kList) return;
        ProblemSpec problem_spec = SpecOf(p);
        problem_spec.row_stats = true;
        SmallCase plain(InDoubles(Build(problem_spec)));
        plain.FillInputs(random);
        problem_spec.channel_block = random.Within(1, 9);
        const AttentionProblem blocked = Build(problem_spec);
        ASSERT_TRUE(CheckProblem(blocked).ok());
        SmallCase blocks(InDoubles(blocked));
        blocks.FillInputs(random);
        CopyTheRest(plain, blocks);
        for (const Slot slot : {Slot::kKeyScale, Slot::kKeyOffset,
                                Slot::kValueScale, Slot::kValueOffset}) {
          blocks.Copy(slot, plain);
        }
        CopyKeys(plain, blocks);
        plain.Run();
        blocks.Run();
        ExpectSameResults(blocks, plain);
      });
}

// The scale or offset by row of a key.
double FactorOf(const SmallCase& small, Slot slot,
                const SmallCase::Column& at) {
  const AttentionProblem& problem = small.problem();
  if (!problem.has(slot)) return 0;
  int64_t outer = at.sequence, row = at.j;
  if (problem.kv.row_scales_in_pages) {
    const int64_t index =
        problem[Slot::kBlockTable].At(at.sequence, at.j / problem.kv.page_rows);
    outer = static_cast<int64_t>(small.Get(Slot::kBlockTable, index));
    row = at.j % problem.kv.page_rows;
  }
  return small.Get(slot, problem[slot].At(outer, row, at.kv_head));
}

// What the bytes of a row of keys or values stand for.
void Decode(const SmallCase& int8, const SmallCase::Column& at, Slot slot,
            SmallCase& dense) {
  const bool key = slot == Slot::kKey;
  const AttentionProblem& problem = int8.problem();
  const auto [scale, offset] =
      key ? std::pair{Slot::kKeyScale, Slot::kKeyOffset}
          : std::pair{Slot::kValueScale, Slot::kValueOffset};
  const auto [row_scale, row_offset] =
      key ? std::pair{Slot::kKeyRowScale, Slot::kKeyRowOffset}
          : std::pair{Slot::kValueRowScale, Slot::kValueRowOffset};
  for (int64_t d = 0; d < problem[slot].channels(); ++d) {
    double x = int8.GetKey(slot, at, d);
    if (problem.has(row_scale)) {
      x = FactorOf(int8, row_scale, at) * (x + FactorOf(int8, row_offset, at));
    } else {
      if (problem.has(offset)) {
        x += int8.Get(offset, problem[offset].At(at.kv_head, d));
      }
      x *= int8.Get(scale, problem[scale].At(at.kv_head, d));
    }
    dense.PutKey(slot, at, d, x);
  }
}

TEST(Caches, RowsAreScaledOneByOne) {
  Space space = LawSpace();
  space.int8 = false;
  ForRandomProblems(
      kProblems, space, [](const AttentionProblem& p, Random& random) {
        ProblemSpec problem_spec = SpecOf(p);
        problem_spec.row_stats = true;
        SmallCase dense(InDoubles(Build(problem_spec)));
        dense.FillInputs(random);
        const bool paged = p.kv.rows == Rows::kPaged && random.OneIn(2);
        const bool heads = random.OneIn(2);
        const Encoding by_row{
            paged ? (heads ? Scales::kPageRowHead : Scales::kPageRow)
                  : (heads ? Scales::kRowHead : Scales::kRow),
            random.OneIn(2)};
        const Encoding by_channel{Scales::kChannel, random.OneIn(2)};
        problem_spec.keys = random.OneIn(3) ? by_channel : by_row;
        problem_spec.values = random.OneIn(3) ? by_channel : by_row;
        const int64_t channels = problem_spec.qk_dim | problem_spec.v_dim |
                                 problem_spec.channel_block;
        problem_spec.int4 = channels % 8 == 0 && random.OneIn(2);
        const AttentionProblem scaled = Build(problem_spec);
        ASSERT_TRUE(CheckProblem(scaled).ok());
        SmallCase int8(InDoubles(scaled));
        int8.FillInputs(random);
        CopyTheRest(dense, int8);
        ForEachKey(int8.problem(), [&](const SmallCase::Column& at) {
          if (int8.problem().has(Slot::kKeyRope)) {
            for (int64_t d = 0; d < int8.problem().rope_dim; ++d) {
              int8.PutKey(Slot::kKeyRope, at, d,
                          dense.GetKey(Slot::kKeyRope, at, d));
            }
          }
          Decode(int8, at, Slot::kKey, dense);
          if (int8.problem().has(Slot::kValue)) {
            Decode(int8, at, Slot::kValue, dense);
          }
        });
        dense.Run();
        int8.Run();
        ExpectSameResults(int8, dense);
      });
}

// Queries of bytes are the numbers that the scales of their rows make.
TEST(Caches, QueriesOfBytesAreScaledRowByRow) {
  Space space = LawSpace();
  space.int8 = false;
  ForRandomProblems(
      kProblems, space, [](const AttentionProblem& p, Random& random) {
        ProblemSpec problem_spec = SpecOf(p);
        problem_spec.row_stats = true;
        problem_spec.keys = {Scales::kChannel, random.OneIn(2)};
        SmallCase dense(InDoubles(Build(problem_spec)));
        dense.FillInputs(random);
        problem_spec.query_bytes = true;
        const AttentionProblem scaled = Build(problem_spec);
        ASSERT_TRUE(CheckProblem(scaled).ok());
        SmallCase bytes(InDoubles(scaled));
        bytes.FillInputs(random);
        for (const Slot slot : {Slot::kKeyScale, Slot::kKeyOffset,
                                Slot::kValueScale, Slot::kValueOffset}) {
          bytes.Copy(slot, dense);
        }
        const int64_t dim = problem_spec.qk_dim;
        for (int64_t n = 0; n < bytes.count(Slot::kQuery); ++n) {
          dense.Put(Slot::kQuery, n,
                    bytes.Get(Slot::kQueryRowScale, n / dim) *
                        bytes.Get(Slot::kQuery, n));
        }
        for (const Slot slot :
             {Slot::kQueryRope, Slot::kMask, Slot::kBias, Slot::kSink,
              Slot::kKeep, Slot::kBlockTable, Slot::kTopK, Slot::kOutScale,
              Slot::kOutOffset}) {
          bytes.Copy(slot, dense);
        }
        CopyKeys(dense, bytes);
        dense.Run();
        bytes.Run();
        ExpectSameResults(bytes, dense);
      });
}

// Keys that all sequences share are keys of each, before its own.
TEST(Caches, APrefixIsKeysOfEverySequence) {
  Space space = LawSpace();
  space.rope = false;
  ForRandomProblems(
      kProblems, space, [](const AttentionProblem& p, Random& random) {
        if (p.kv.rows == Rows::kPaged) return;
        ProblemSpec problem_spec = SpecOf(p);
        problem_spec.row_stats = true;
        ProblemSpec whole_spec = problem_spec;
        problem_spec.prefix = random.Within(1, 5);
        for (int64_t& columns : whole_spec.columns) {
          columns += problem_spec.prefix;
        }
        const AttentionProblem prefixed = Build(problem_spec);
        ASSERT_TRUE(CheckProblem(prefixed).ok());
        SmallCase shared(InDoubles(prefixed));
        shared.FillInputs(random);
        SmallCase whole(InDoubles(Build(whole_spec)));
        whole.FillInputs(random);
        CopyTheRest(whole, shared);
        for (const Slot slot : {Slot::kKeyScale, Slot::kKeyOffset,
                                Slot::kValueScale, Slot::kValueOffset}) {
          shared.Copy(slot, whole);
        }
        CopyKeys(shared, whole);
        shared.Run();
        whole.Run();
        ExpectSameResults(shared, whole);
      });
}

}  // namespace
}  // namespace flashacl::testing
