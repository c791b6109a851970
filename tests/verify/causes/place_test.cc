// SPDX-License-Identifier: Apache-2.0
// Results of programs that look for heads, rows and pages elsewhere.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "tests/verify/causes/expect_cause.h"
#include "verify/causes/causes.h"

namespace flashacl {
namespace {

TEST(PlaceCauses, HeadGroupingInterleaved) {
  const auto change = [](PlainAttention& wrong) {
    wrong.kv_head = [&](int64_t h) { return h % wrong.problem().kv_heads; };
  };
  constexpr std::string_view kCause = "head grouping interleaved";
  ExpectCauses(
      {"fwd bf16 h=4/2 d=32 q=30 k=40 causal",
       "fwd f16 h=6/3 d=64 q=5,20 k=33,70", "fwd f32 h=8/2 d=16 q=1 k=50"},
      kCause, change);
  ExpectCauses({"bwd bf16 h=4/2 d=32 q=9,30 k=20,40 causal",
                "bwd f16 h=4/2 d=64 q=20 k=33 window:6:2",
                "bwd f32 h=6/3 d=16 q=2x12 k=2x25 causal"},
               kCause, change);
}

TEST(PlaceCauses, KeysAndValuesSwapped) {
  const auto change = [](PlainAttention& wrong) {
    std::swap(wrong.key, wrong.value);
  };
  ExpectCauses(
      {"fwd bf16 h=4/2 d=32 q=30 k=40 causal",
       "fwd f16 h=2 d=64 q=5,20 k=33,70", "fwd f32 h=8/2 d=16 q=1 k=50"},
      "keys and values swapped", change);
  ExpectCauses(kBackward, "keys and values swapped", change);
}

// Keys and values in pages, of which `page_of` finds those of a wrong program.
template <typename PageOf>
void ExpectPageCause(const char* line, PageOf page_of) {
  SCOPED_TRACE(line);
  PlainAttention wrong(line);
  const int64_t page_rows = wrong.problem().kv.page_rows;
  const TensorSpec& spec = wrong.problem()[Slot::kKey];
  const TensorSpec& table = wrong.problem()[Slot::kBlockTable];
  for (const char* name : {"k", "v"}) {
    Numbers& numbers = wrong[name];
    const int64_t width = numbers.dims[2];
    numbers.dims = {spec.dims[0], page_rows, numbers.dims[1], width};
    numbers.values.resize(
        static_cast<size_t>(spec.dims[0] * page_rows * spec.dims[2] * width));
    for (size_t n = 0; n < numbers.values.size(); ++n) {
      const auto hash = static_cast<double>(n * 104729 % 8191) / 8191;
      numbers.values[n] =
          AsType(wrong.problem()[Slot::kQuery].dtype, 4 * hash - 2);
    }
  }
  const int64_t count = wrong.problem().lengths.count();
  const int64_t width = table.dims[1];
  std::vector<int64_t> pages(static_cast<size_t>(count * width), -1);
  int64_t used = 0;
  for (int64_t b = 0; b < count; ++b) {
    for (int64_t n = 0; n * page_rows < wrong.columns(b); ++n) {
      // In another order than that of memory.
      pages[static_cast<size_t>(b * width + n)] = spec.dims[0] - 1 - used++;
    }
  }
  const auto element = [=, &wrong](const char* name, int64_t b, int64_t j,
                                   int64_t g, int64_t d) {
    const int64_t page = page_of(pages, width, b, j / page_rows);
    const Numbers& rows = wrong[name];
    return rows.values[static_cast<size_t>(
        ((page * page_rows + j % page_rows) * rows.dims[2] + g) * rows.dims[3] +
        d)];
  };
  wrong.key = [=](int64_t b, int64_t j, int64_t g, int64_t d) {
    return element("k", b, j, g, d);
  };
  wrong.value = [=](int64_t b, int64_t j, int64_t g, int64_t d) {
    return element("v", b, j, g, d);
  };
  wrong.sees = [=, &wrong](int64_t b, int64_t, int64_t i, int64_t j) {
    return BandOf(wrong, b).Sees(i, j) &&
           page_of(pages, width, b, j / page_rows) >= 0;
  };
  wrong.AddTable(pages, {count, width});
  wrong.Run();
  ExpectCause(wrong, "page table row off");
}

TEST(PlaceCauses, PageTableRowOff) {
  using Pages = std::vector<int64_t>;
  for (const char* line : {"fwd bf16 h=4/2 d=32 q=3x1 k=3x40 paged:8",
                           "fwd f16 h=2 d=64 q=5,20 k=64,64 paged:16 causal",
                           "fwd f32 h=8/2 d=16 q=4x3 k=30,30,30,30 paged:16"}) {
    // Row b + 1, and the last one its own.
    ExpectPageCause(
        line, [](const Pages& pages, int64_t width, int64_t b, int64_t n) {
          const auto rows = static_cast<int64_t>(pages.size()) / width;
          const int64_t row = std::min(b + 1, rows - 1);
          return pages[static_cast<size_t>(row * width + n)];
        });
    // One sequence has another's.
    ExpectPageCause(
        line, [](const Pages& pages, int64_t width, int64_t b, int64_t n) {
          return pages[static_cast<size_t>((b == 1 ? 0 : b) * width + n)];
        });
  }
}

// The tensors are BSND; a wrong program takes their memory for SBND, or for
// BNSD where it has heads in place of rows.
void ExpectLayoutCause(const char* line, bool heads_for_rows) {
  SCOPED_TRACE(line);
  PlainAttention wrong(line);
  const int64_t count = wrong.problem().lengths.count();
  const int64_t rows = wrong.rows(0);
  const int64_t columns = wrong.columns(0);
  const int64_t heads = wrong.problem().heads;
  const int64_t kv_heads = wrong.problem().kv_heads;
  if (heads_for_rows) {
    wrong.query_place = [=](int64_t b, int64_t i, int64_t h) {
      return (b * heads + h) * rows + i;
    };
    wrong.key_place = [=](int64_t b, int64_t j, int64_t g) {
      return (b * kv_heads + g) * columns + j;
    };
  } else {
    wrong.query_place = [=](int64_t b, int64_t i, int64_t h) {
      return (i * count + b) * heads + h;
    };
    wrong.key_place = [=](int64_t b, int64_t j, int64_t g) {
      return (j * count + b) * kv_heads + g;
    };
  }
  wrong.Run();
  std::vector<std::string> names = wrong.ResultNames();
  names.insert(names.end(), {"q", "k", "v"});
  if (wrong.problem().direction == Direction::kBackward) {
    names.emplace_back("dout");
  }
  for (const std::string& name : names) {
    const bool keys = name.ends_with('k') || name.ends_with('v');
    Numbers& numbers = wrong[name];
    numbers.dims = {count, keys ? columns : rows, keys ? kv_heads : heads,
                    numbers.dims.back()};
  }
  ExpectCause(wrong, "layout mistaken", "BSND");
}

TEST(PlaceCauses, LayoutMistaken) {
  for (const bool heads_for_rows : {false, true}) {
    for (const char* line :
         {"fwd bf16 h=4/2 d=32 q=3x10 k=3x20 causal",
          "fwd f16 h=2 d=64 q=2x25 k=2x30", "fwd f32 h=8/2 d=16 q=4x2 k=4x50",
          "bwd bf16 h=4/2 d=32 q=3x10 k=3x20 causal",
          "bwd f16 h=2 d=64 q=2x15 k=2x20",
          "bwd f32 h=8/2 d=16 q=4x3 k=4x20"}) {
      ExpectLayoutCause(line, heads_for_rows);
    }
  }
}

}  // namespace
}  // namespace flashacl
