// SPDX-License-Identifier: Apache-2.0
// Where keys and values are, against the definition: tensors by their strides,
// pages by the block table.
#include "cpu/kv_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "plan/sequences.h"
#include "problem/notation.h"
#include "tests/cpu/runs.h"
#include "tests/testing/generator.h"
#include "tests/testing/small_case.h"

namespace flashacl::cpu {
namespace {

using Rows = KvSource::Rows;
using testing::ForRandomProblems;
using testing::Space;

Space ForwardSpace() {
  Space space;
  space.backward = false;
  space.most_dim = 20;
  return space;
}

// The keys of one sequence and kv head of a case.
struct Keys {
  const SmallCase& small;
  Sequence extent;
  int64_t sequence;
  int64_t kv_head;

  const AttentionProblem& problem() const { return small.problem(); }

  // Negative: there is none.
  int64_t PageOf(int64_t j) const {
    const TensorSpec& table = problem()[Slot::kBlockTable];
    const auto page = static_cast<int64_t>(small.Get(
        Slot::kBlockTable, table.At(sequence, j / problem().kv.page_rows)));
    return page < problem()[Slot::kKey].dims[0] ? page : -1;
  }

  const std::byte* At(Slot slot, int64_t j) const {
    const KvSource& kv = problem().kv;
    const auto b = static_cast<size_t>(sequence);
    TensorSpec spec = problem()[slot];
    const std::byte* base = small.bindings()[slot];
    int64_t outer = sequence;
    int64_t row = extent.keys.first + j - extent.prefix;
    if (j < extent.prefix) {
      const Slot prefix =
          slot == Slot::kKey ? Slot::kKeyPrefix : Slot::kValuePrefix;
      spec = problem()[prefix];
      base = small.bindings()[prefix];
      outer = 0;
      row = j;
    } else if (kv.rows == Rows::kPaged) {
      outer = PageOf(j);
      row = j % kv.page_rows;
    } else if (kv.rows == Rows::kList && slot != Slot::kKeyRope) {
      const bool key = slot == Slot::kKey;
      spec = key ? kv.key_list[b] : kv.value_list[b];
      base =
          key ? small.bindings().key_list[b] : small.bindings().value_list[b];
      outer = 0;
    }
    if (outer < 0) return nullptr;
    return base + spec.At(outer, row, kv_head) * SizeOf(spec.dtype);
  }

  void ExpectLocated(const KvRows& rows, Range cols) const {
    const auto count = static_cast<size_t>(cols.size());
    const std::byte* const canary = &reinterpret_cast<const std::byte&>(*this);
    std::vector<const std::byte*> key(count + 1, canary), rope(key), value(key);
    const bool absent =
        rows.Locate(cols, key.data(), rope.data(), value.data());
    bool missing = false;
    for (int64_t j = cols.first; j < cols.last; ++j) {
      const auto n = static_cast<size_t>(j - cols.first);
      const bool paged = problem().kv.rows == Rows::kPaged;
      if (paged && PageOf(j) < 0) {
        missing = true;
        EXPECT_EQ(key[n], nullptr) << j;
        EXPECT_EQ(rope[n], nullptr) << j;
        EXPECT_EQ(value[n], nullptr) << j;
        continue;
      }
      EXPECT_EQ(key[n], At(Slot::kKey, j)) << j;
      EXPECT_EQ(rope[n],
                problem().rope_dim > 0 ? At(Slot::kKeyRope, j) : nullptr)
          << j;
      EXPECT_EQ(value[n],
                problem().kv.value_is_key ? nullptr : At(Slot::kValue, j))
          << j;
    }
    EXPECT_EQ(absent, missing);
    for (const auto* at : {&key, &rope, &value}) {
      EXPECT_EQ((*at)[count], canary) << "written after the last";
    }
  }
};

// Columns that are listed are where each of them is, in the order of the list.
TEST(KvRows, LocateFollowsAList) {
  int64_t paged = 0;
  ForRandomProblems(
      600, ForwardSpace(), [&](const AttentionProblem& p, Random& random) {
        if (p.kv.gathers()) return;
        SmallCase small(p);
        small.FillInputs(random);
        testing::SpoilTable(small, random);
        const auto sequences = ResolveSequences(p, small.bindings());
        const Sequence& extent = sequences.front();
        if (extent.columns() == 0 || extent.prefix > 0) return;
        KvRows rows(p, small.bindings(), extent, 0, p.kv_heads - 1);
        const KvRows unlisted = rows;
        std::vector<int64_t> columns(9);
        for (int64_t& j : columns) j = random.Within(0, extent.columns() - 1);
        rows.List(columns.data());
        const std::byte *key[8], *rope[8], *value[8];
        if (!std::all_of(columns.begin(), columns.end(),
                         [&](int64_t j) { return unlisted.Exists(j); })) {
          return;
        }
        EXPECT_FALSE(rows.Locate({1, 9}, key, rope, value));
        for (int64_t n = 1; n < 9; ++n) {
          const int64_t j = columns[static_cast<size_t>(n)];
          const std::byte *own_key, *own_rope, *own_value;
          unlisted.Locate({j, j + 1}, &own_key, &own_rope, &own_value);
          EXPECT_EQ(key[n - 1], own_key);
          EXPECT_EQ(rope[n - 1], own_rope);
          EXPECT_EQ(value[n - 1], own_value);
        }
        paged += p.kv.rows == Rows::kPaged;
      });
  EXPECT_TRUE(testing::SeenOften(paged, 20));
}

TEST(KvRows, LocateIsTheDefinition) {
  int64_t paged = 0, listed = 0;
  ForRandomProblems(
      2000, ForwardSpace(), [&](const AttentionProblem& p, Random& random) {
        if (p.kv.gathers()) return;
        SmallCase small(p);
        small.FillInputs(random);
        testing::SpoilTable(small, random);
        const auto sequences = ResolveSequences(p, small.bindings());
        for (size_t b = 0; b < sequences.size(); ++b) {
          const int64_t columns = sequences[b].columns();
          for (int64_t g = 0; g < p.kv_heads; ++g) {
            const Keys keys{small, sequences[b], static_cast<int64_t>(b), g};
            const KvRows rows(p, small.bindings(), sequences[b],
                              static_cast<int64_t>(b), g);
            keys.ExpectLocated(rows, {0, columns});
            keys.ExpectLocated(rows, {columns, columns});
            if (columns == 0) continue;
            const int64_t first = random.Within(0, columns - 1);
            keys.ExpectLocated(rows, {first, random.Within(first, columns)});
          }
        }
        paged += p.kv.rows == Rows::kPaged;
        listed += p.kv.rows == Rows::kList;
      });
  EXPECT_TRUE(testing::SeenOften(paged, 100));
  EXPECT_TRUE(testing::SeenOften(listed, 50));
}

TEST(KvRows, SourcesHaveTheProblemsChannelsAndFormats) {
  ForRandomProblems(
      300, ForwardSpace(), [](const AttentionProblem& p, Random&) {
        if (p.kv.gathers()) return;
        const SmallCase small(p);
        const KvRows rows(p, small.bindings(), p.lengths.sequences[0], 0, 0);
        EXPECT_EQ(rows.key.channels, p.qk_dim);
        EXPECT_EQ(rows.rope.channels, p.rope_dim);
        EXPECT_EQ(rows.value.channels, p.v_dim);
        if (rows.key.base != nullptr) {
          EXPECT_EQ(rows.key.format.dtype, p[Slot::kKey].dtype);
        }
        EXPECT_TRUE(p.rope_dim > 0 || rows.rope.base == nullptr);
        EXPECT_TRUE(!p.kv.value_is_key || rows.value.base == nullptr);
      });
}

// Values in the memory of the keys need not be read again, if they are channels
// that keys have, ropes lie elsewhere, and they are the same numbers.
TEST(KvRows, DropsValuesThatAreLeadingChannelsOfKeys) {
  std::vector<std::byte> memory(3 * 8 * 4);
  const auto drops = [&](const char* line, int64_t key_step,
                         int64_t value_step) {
    AttentionProblem problem = *Parse(line);
    problem[Slot::kKey].strides[1] = key_step;
    problem[Slot::kValue].strides[1] = value_step;
    Bindings bindings;
    bindings[Slot::kKey] = bindings[Slot::kValue] = memory.data();
    bindings[Slot::kKeyRowScale] = bindings[Slot::kValueRowScale] =
        memory.data();
    KvRows rows(problem, bindings, problem.lengths.sequences[0], 0, 0);
    rows.DropSharedValues();
    return rows.value.base == nullptr;
  };
  EXPECT_TRUE(drops("fwd f32 h=1 d=8/8 q=1 k=3", 8, 8));
  EXPECT_TRUE(drops("fwd f32 h=1 d=8/5 q=1 k=3", 8, 8));
  EXPECT_FALSE(drops("fwd f32 h=1 d=5/8 q=1 k=3", 8, 8));
  EXPECT_FALSE(drops("fwd f32 h=1 d=4/4 q=1 k=3", 8, 4));
  EXPECT_FALSE(drops("fwd f32 h=1 d=8/8 q=1 k=3 int8:row", 8, 8));
}

// Offsets of large caches do not fit 32 bits, neither in bytes nor in rows.
TEST(KvRows, OffsetsPassThirtyTwoBits) {
  const auto problem = Parse("fwd f32 h=4 d=128 q=1 k=64 paged:16");
  ASSERT_TRUE(problem.ok());
  AttentionProblem large = *problem;
  large[Slot::kKey] = DenseSpec(DType::kF32, {int64_t{1} << 24, 16, 4, 128});
  large[Slot::kValue] = large[Slot::kKey];
  const int32_t last = (1 << 24) - 1;
  std::vector<int32_t> table(4, last);
  // Nothing is read there; only the distance counts.
  std::vector<std::byte> anchor(1);
  Bindings bindings;
  bindings[Slot::kKey] = bindings[Slot::kValue] = anchor.data();
  bindings[Slot::kBlockTable] = reinterpret_cast<std::byte*>(table.data());
  const KvRows rows(large, bindings, large.lengths.sequences[0], 0, 3);
  const std::byte *key, *rope, *value;
  EXPECT_FALSE(rows.Locate({63, 64}, &key, &rope, &value));
  const int64_t expected = large[Slot::kKey].At(last, 15, 3) * 4;
  EXPECT_GT(expected, int64_t{1} << 36);
  EXPECT_EQ(reinterpret_cast<intptr_t>(key) -
                reinterpret_cast<intptr_t>(anchor.data()),
            expected);
  EXPECT_EQ(value, key);
}

}  // namespace
}  // namespace flashacl::cpu
