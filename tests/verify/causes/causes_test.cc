// SPDX-License-Identifier: Apache-2.0
// For every cause, results that are wrong for it, in three shapes: the check
// must name it first.
#include "verify/causes/causes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "base/half.h"
#include "tests/verify/causes/plain_attention.h"

namespace flashacl {
namespace {

// What a check says of `wrong`, which has run.
void ExpectCause(PlainAttention& wrong, std::string_view cause,
                 std::string_view layout = "") {
  const Result<TensorCheck> check = wrong.Check(layout);
  ASSERT_TRUE(check.ok()) << check.status().message();
  const CheckedResult& result = check->results[0];
  EXPECT_FALSE(result.judgement.right());
  ASSERT_FALSE(result.suspicions.empty()) << Describe(*check);
  EXPECT_EQ(result.suspicions[0].cause, cause) << Describe(*check);
  EXPECT_GE(result.suspicions[0].explained, 0.9) << Describe(*check);
}

// Runs the plain computation with a change, on each line.
template <typename Change>
void ExpectCauses(std::initializer_list<const char*> lines,
                  std::string_view cause, Change change) {
  for (const char* line : lines) {
    SCOPED_TRACE(line);
    PlainAttention wrong(line);
    change(wrong);
    wrong.Run();
    ExpectCause(wrong, cause);
  }
}

Band BandOf(const PlainAttention& of, int64_t b) {
  return of.problem().mask.BandOf(b, of.rows(b), of.columns(b));
}

TEST(Causes, RightResultsHaveNone) {
  for (const char* line :
       {"fwd bf16 h=4/2 d=32 q=9,30 k=20,40 causal",
        "fwd f16 h=2 d=64 q=40 k=40 window:5:2",
        "fwd f32 h=3 d=16+8/32 q=2x17 k=2x30",
        "bwd bf16 h=4/2 d=32 q=9,30 k=20,40 causal",
        "bwd f16 h=2 d=64 q=40 k=40 causal", "bwd f32 h=2 d=16 q=25 k=7"}) {
    PlainAttention right(line);
    right.Run();
    const Result<TensorCheck> check = right.Check();
    ASSERT_TRUE(check.ok()) << line << ": " << check.status().message();
    EXPECT_TRUE(check->right()) << Describe(*check);
    EXPECT_EQ(check->rows, check->all_rows);
  }
}

TEST(Causes, MaskFromTheOtherCorner) {
  ExpectCauses({"fwd bf16 h=4/2 d=32 q=9 k=40 causal",
                "fwd f16 h=2 d=64 q=5,20 k=33,70 causal-left",
                "fwd f32 h=2 d=16 q=12 k=50 window:6:3"},
               "mask from the other corner", [](PlainAttention& wrong) {
                 wrong.sees = [&](int64_t b, int64_t, int64_t i, int64_t j) {
                   const MaskRule& rule = wrong.problem().mask.rules[0];
                   const bool left = rule.corner == MaskRule::Corner::kTopLeft;
                   const int64_t by = wrong.columns(b) - wrong.rows(b);
                   const Band band = BandOf(wrong, b);
                   return band.Sees(i, left ? j - by : j + by);
                 };
               });
}

TEST(Causes, WindowOffByOne) {
  for (const int64_t off : {-1, 1}) {
    ExpectCauses({"fwd bf16 h=4/2 d=32 q=30 k=40 causal",
                  "fwd f16 h=2 d=64 q=5,20 k=33,70 window:8:0",
                  "fwd f32 h=2 d=16 q=40 k=50 band:-6:3"},
                 "window off by one", [&](PlainAttention& wrong) {
                   wrong.sees = [&wrong, off](int64_t b, int64_t, int64_t i,
                                              int64_t j) {
                     Band band = BandOf(wrong, b);
                     band.upper += off;
                     return band.Sees(i, j);
                   };
                 });
  }
}

TEST(Causes, MaskInverted) {
  for (const char* line :
       {"fwd bf16 h=4/2 d=32 q=20 k=40 mask", "fwd f16 h=2 d=64 q=33 k=33 mask",
        "fwd f32 h=2 d=16 q=12 k=50 mask"}) {
    SCOPED_TRACE(line);
    PlainAttention wrong(line);
    const int64_t columns = wrong.columns(0);
    Numbers mask{{wrong.rows(0), columns}, {}};
    for (int64_t n = 0; n < wrong.rows(0) * columns; ++n) {
      mask.values.push_back(n * 7919 % 5 < 2 ? 1 : 0);
    }
    wrong.Add("mask", mask);
    wrong.sees = [&](int64_t, int64_t, int64_t i, int64_t j) {
      return mask.values[static_cast<size_t>(i * columns + j)] != 0;
    };
    wrong.Run();
    ExpectCause(wrong, "mask inverted");
  }
  ExpectCauses({"fwd bf16 h=2 d=32 q=20 k=40 causal"}, "mask inverted",
               [](PlainAttention& wrong) {
                 wrong.sees = [&](int64_t b, int64_t, int64_t i, int64_t j) {
                   return !BandOf(wrong, b).Sees(i, j);
                 };
               });
}

TEST(Causes, MaskForgotten) {
  ExpectCauses({"fwd bf16 h=4/2 d=32 q=30 k=40 causal",
                "fwd f16 h=2 d=64 q=5,20 k=33,70 window:8:0",
                "fwd f32 h=2 d=16 q=40 k=50 band:-6:3"},
               "mask forgotten", [](PlainAttention& wrong) {
                 wrong.sees = [](int64_t, int64_t, int64_t, int64_t) {
                   return true;
                 };
               });
}

TEST(Causes, ScaleForgottenAndSquared) {
  for (const bool squared : {false, true}) {
    ExpectCauses({"fwd bf16 h=4/2 d=32 q=30 k=40 causal",
                  "fwd f16 h=2 d=64 q=5,20 k=33,70",
                  "fwd f32 h=2 d=16 q=40 k=50 band:-6:3"},
                 squared ? "scale squared" : "scale forgotten",
                 [&](PlainAttention& wrong) {
                   wrong.scale = squared ? wrong.scale * wrong.scale : 1;
                 });
  }
}

TEST(Causes, HeadGroupingInterleaved) {
  ExpectCauses(
      {"fwd bf16 h=4/2 d=32 q=30 k=40 causal",
       "fwd f16 h=6/3 d=64 q=5,20 k=33,70", "fwd f32 h=8/2 d=16 q=1 k=50"},
      "head grouping interleaved", [](PlainAttention& wrong) {
        wrong.kv_head = [&](int64_t h) { return h % wrong.problem().kv_heads; };
      });
}

TEST(Causes, KeysAndValuesSwapped) {
  ExpectCauses(
      {"fwd bf16 h=4/2 d=32 q=30 k=40 causal",
       "fwd f16 h=2 d=64 q=5,20 k=33,70", "fwd f32 h=8/2 d=16 q=1 k=50"},
      "keys and values swapped",
      [](PlainAttention& wrong) { std::swap(wrong.key, wrong.value); });
}

TEST(Causes, LastBlockMissing) {
  for (const int64_t block : {16, 64}) {
    ExpectCauses(
        {"fwd bf16 h=4/2 d=32 q=30 k=150 causal",
         "fwd f16 h=2 d=64 q=5,20 k=133,70", "fwd f32 h=8/2 d=16 q=1 k=100"},
        "last block missing", [&](PlainAttention& wrong) {
          wrong.sees = [&wrong, block](int64_t b, int64_t, int64_t i,
                                       int64_t j) {
            const int64_t last = wrong.columns(b) / block * block;
            return BandOf(wrong, b).Sees(i, j) && j < last;
          };
        });
  }
}

TEST(Causes, RopeHalfForgotten) {
  for (const int64_t left : {0, 8}) {
    ExpectCauses({"fwd bf16 h=4/2 d=32+16 q=30 k=40 causal",
                  "fwd f16 h=2 d=64+16/32 q=5,20 k=33,70",
                  "fwd f32 h=8/2 d=16+16 q=1 k=50"},
                 "rope forgotten", [&](PlainAttention& wrong) {
                   const auto query = wrong.query;
                   const int64_t most = wrong.problem().qk_dim + left;
                   wrong.query = [=](int64_t b, int64_t i, int64_t h,
                                     int64_t d) {
                     return d < most ? query(b, i, h, d) : 0;
                   };
                 });
  }
}

TEST(Causes, LengthsForEnds) {
  // Sequences of a packed tensor: numbers that are lengths are read as ends.
  ExpectCauses({"fwd bf16 h=4/2 d=32 q=3,9,20 k=3,9,20 causal",
                "fwd f16 h=2 d=64 q=5,20 k=5,20",
                "fwd f32 h=2 d=16 q=4,8,7,20 k=4,8,7,20"},
               "lengths for ends", [](PlainAttention& wrong) {
                 const auto length = wrong.rows;
                 const auto first = [=](int64_t b) {
                   return b == 0 ? int64_t{0} : length(b - 1);
                 };
                 const auto count = [=](int64_t b) {
                   return std::max<int64_t>(length(b) - first(b), 0);
                 };
                 wrong.rows = wrong.columns = count;
                 wrong.first_row = wrong.first_key = first;
               });
}

TEST(Causes, SoftmaxInSixteenBits) {
  const auto change = [](PlainAttention& wrong) {
    const DType dtype = wrong.problem()[Slot::kQuery].dtype;
    wrong.round_score =
        wrong.round_prob = [dtype](double x) { return AsType(dtype, x); };
  };
  ExpectCauses({"fwd bf16 h=2 d=32 q=30 k=900 causal",
                "fwd bf16 h=2/1 d=64 q=5,20 k=333,700",
                "fwd bf16 h=8/2 d=16 q=1 k=1500"},
               "softmax in 16 bits", change);
}

TEST(Causes, DropoutMaskMistaken) {
  for (const int mistake : {0, 1, 2}) {
    for (const char* line : {"fwd bf16 h=4/2 d=32 q=30 k=40 keep:0.75",
                             "fwd f16 h=2 d=64 q=24 k=24 keep:0.5",
                             "fwd f32 h=2 d=16 q=8 k=48 causal keep:0.9"}) {
      SCOPED_TRACE(line);
      PlainAttention wrong(line);
      const int64_t rows = wrong.rows(0);
      const int64_t columns = wrong.columns(0);
      const int64_t heads = wrong.problem().heads;
      const double keep = wrong.problem().score.keep_probability;
      Numbers flags{{1, heads, rows, columns}, {}};
      for (int64_t n = 0; n < heads * rows * columns; ++n) {
        const auto hash = static_cast<double>(n * 7919 % 1009) / 1009;
        flags.values.push_back(hash < keep ? 1 : 0);
      }
      wrong.Add("keep", flags);
      wrong.kept = [=](int64_t, int64_t h, int64_t i, int64_t j) {
        int64_t bit = (h * rows + i) * columns + j;
        if (mistake == 1) bit = (h * columns + j) * rows + i;
        if (mistake == 2) bit = bit / 8 * 8 + 7 - bit % 8;
        const bool set = flags.values[static_cast<size_t>(bit)] != 0;
        return set != (mistake == 0) ? 1 / keep : 0;
      };
      wrong.Run();
      ExpectCause(wrong, "dropout mask mistaken");
    }
  }
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

TEST(Causes, PageTableRowOff) {
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

TEST(Causes, LayoutMistaken) {
  for (const char* line :
       {"fwd bf16 h=4/2 d=32 q=3x10 k=3x20 causal",
        "fwd f16 h=2 d=64 q=2x25 k=2x30", "fwd f32 h=8/2 d=16 q=4x2 k=4x50"}) {
    SCOPED_TRACE(line);
    PlainAttention wrong(line);
    const int64_t count = wrong.problem().lengths.count();
    // Row i of sequence b is where row b of sequence i is in the other order.
    wrong.first_row = [](int64_t) { return 0; };
    const auto row_at = [=](int64_t b, int64_t i) { return i * count + b; };
    for (const char* name : {"q", "k", "v"}) {
      Numbers& numbers = wrong[name];
      numbers.dims = {count, numbers.dims[0] / count, numbers.dims[1],
                      numbers.dims[2]};
    }
    const auto element = [=, &wrong](const char* name, int64_t b, int64_t i,
                                     int64_t h, int64_t d) {
      const Numbers& numbers = wrong[name];
      return numbers.values[static_cast<size_t>(
          (row_at(b, i) * numbers.dims[2] + h) * numbers.dims[3] + d)];
    };
    wrong.query = [=](int64_t b, int64_t i, int64_t h, int64_t d) {
      return element("q", b, i, h, d);
    };
    wrong.key = [=](int64_t b, int64_t j, int64_t g, int64_t d) {
      return element("k", b, j, g, d);
    };
    wrong.value = [=](int64_t b, int64_t j, int64_t g, int64_t d) {
      return element("v", b, j, g, d);
    };
    wrong.out_row = row_at;
    wrong.Run();
    Numbers& out = wrong["out"];
    out.dims = {count, wrong.rows(0), wrong.problem().heads,
                wrong.problem().v_dim};
    ExpectCause(wrong, "layout mistaken", "BSND");
  }
}

// Lines of bwd, with the causes that forward lines have above.
constexpr std::initializer_list<const char*> kBackward = {
    "bwd bf16 h=4/2 d=32 q=9,30 k=20,40 causal",
    "bwd f16 h=4/2 d=64 q=20 k=33 window:6:2",
    "bwd f32 h=6/3 d=16 q=2x12 k=2x25 causal"};

TEST(Causes, OfGradientsMasks) {
  ExpectCauses(
      kBackward, "mask from the other corner", [](PlainAttention& wrong) {
        wrong.sees = [&](int64_t b, int64_t, int64_t i, int64_t j) {
          return BandOf(wrong, b).Sees(i, j + wrong.columns(b) - wrong.rows(b));
        };
      });
  ExpectCauses(kBackward, "window off by one", [](PlainAttention& wrong) {
    wrong.sees = [&](int64_t b, int64_t, int64_t i, int64_t j) {
      Band band = BandOf(wrong, b);
      --band.upper;
      return band.Sees(i, j);
    };
  });
}

TEST(Causes, OfGradientsScores) {
  ExpectCauses(kBackward, "scale forgotten",
               [](PlainAttention& wrong) { wrong.scale = 1; });
  ExpectCauses(kBackward, "keys and values swapped", [](PlainAttention& wrong) {
    std::swap(wrong.key, wrong.value);
  });
  ExpectCauses(
      kBackward, "head grouping interleaved", [](PlainAttention& wrong) {
        wrong.kv_head = [&](int64_t h) { return h % wrong.problem().kv_heads; };
      });
}

TEST(Causes, OfGradientsAlone) {
  ExpectCauses(kBackward, "gradients lack dout.out",
               [](PlainAttention& wrong) { wrong.delta = false; });
  for (const char* line : kBackward) {
    SCOPED_TRACE(line);
    PlainAttention scaled(line);
    scaled.Run();
    for (const char* name : {"dq", "dk"}) {
      for (double& x : scaled[name].values) x /= scaled.scale;
    }
    ExpectCause(scaled, "gradients lack the scale");
    PlainAttention swapped(line);
    swapped.Run();
    std::swap(swapped["dk"].values, swapped["dv"].values);
    ExpectCause(swapped, "dk and dv swapped");
  }
}

}  // namespace
}  // namespace flashacl
