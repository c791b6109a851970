// SPDX-License-Identifier: Apache-2.0
// What lists name, against the definition.
#include "cpu/topk/index_lists.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "plan/sequences.h"
#include "problem/notation.h"
#include "tests/cpu/topk/topk.h"

namespace flashacl::cpu {
namespace {

using testing::ForRandomProblems;
using testing::TopKSpace;

// The columns of one list by definition.
std::vector<int64_t> Named(const SmallCase& small, const ListOwner& owner,
                           const Sequence& extent, const Band& band,
                           const KvRows& keys) {
  const AttentionProblem& p = small.problem();
  const TensorSpec& list = p[Slot::kTopK];
  std::vector<int64_t> columns;
  for (int64_t place = 0; place < list.dims[3]; ++place) {
    const auto u = static_cast<int64_t>(
        small.Get(Slot::kTopK,
                  list.At(owner.sequence, extent.queries.first + owner.position,
                          owner.kv_head, place)));
    if (u < 0) break;
    for (int64_t j = 0; j < extent.columns(); ++j) {
      if (j / p.kv.gather_rows != u) continue;
      if (band.Sees(owner.position, j) && keys.Exists(j)) columns.push_back(j);
    }
  }
  return columns;
}

// Calls body(owner, extent, band, keys) for every list.
template <typename Body>
void ForLists(const SmallCase& small, Body body) {
  const AttentionProblem& p = small.problem();
  const auto sequences = ResolveSequences(p, small.bindings());
  for (int64_t b = 0; b < p.lengths.count(); ++b) {
    const Sequence& extent = sequences[static_cast<size_t>(b)];
    const Band band = p.mask.BandOf(b, extent.rows(), extent.columns());
    for (int64_t g = 0; g < p.kv_heads; ++g) {
      const KvRows keys(p, small.bindings(), extent, b, g);
      for (int64_t i = 0; i < extent.rows(); ++i) {
        body(ListOwner{b, g, i}, extent, band, keys);
      }
    }
  }
}

TEST(IndexListsTest, AreThoseOfTheList) {
  int64_t lists = 0;
  const auto check = [&](const AttentionProblem& p, Random& random) {
    if (!p.kv.gathers()) return;
    SmallCase small(p);
    small.FillInputs(random);
    if (random.OneIn(2)) testing::SpoilLists(small, random);
    const IndexLists columns(p, small.bindings());
    const int64_t most = MaxListedKeys(p);
    ForLists(small, [&](const ListOwner& owner, const Sequence& extent,
                        const Band& band, const KvRows& keys) {
      const auto expected = Named(small, owner, extent, band, keys);
      std::vector<int64_t> whole(static_cast<size_t>(most));
      whole.resize(static_cast<size_t>(
          columns.Fill(owner, extent, band, keys, {0, most}, whole.data())));
      ASSERT_EQ(whole, expected);

      // However the listed keys are cut, the splits are the whole.
      std::vector<int64_t> joined;
      for (int64_t first = 0; first < most;) {
        const int64_t last = std::min(most, first + random.Within(1, 9));
        std::vector<int64_t> split(static_cast<size_t>(last - first));
        split.resize(static_cast<size_t>(columns.Fill(
            owner, extent, band, keys, {first, last}, split.data())));
        joined.insert(joined.end(), split.begin(), split.end());
        first = last;
      }
      ASSERT_EQ(joined, expected);
      lists += !expected.empty();
    });
  };
  ForRandomProblems(1000, TopKSpace(Direction::kForward), check);
  ForRandomProblems(200, TopKSpace(Direction::kBackward), check);
  EXPECT_TRUE(testing::SeenOften(lists, 1000));
}

TEST(IndexListsTest, AnIndexNamesNoMoreThanThereIs) {
  EXPECT_EQ(MaxListedKeys(*Parse("fwd f32 h=1 d=4 q=1 k=9 topk:3:1000")), 27);
  EXPECT_EQ(MaxListedKeys(*Parse("fwd f32 h=1 d=4 q=1,1 k=9,40 topk:3:4")), 12)
      << "of one list";
  EXPECT_EQ(MaxListedKeys(*Parse("fwd f32 h=1 d=4 q=1 k=9 topk:0")), 0);
}

}  // namespace
}  // namespace flashacl::cpu
