// SPDX-License-Identifier: Apache-2.0
// Results of programs that let rows see other keys than the line says.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/verify/causes/expect_cause.h"
#include "verify/causes/causes.h"

namespace flashacl {
namespace {

TEST(MaskCauses, OtherCorner) {
  const auto change = [](PlainAttention& wrong) {
    wrong.sees = [&](int64_t b, int64_t, int64_t i, int64_t j) {
      const MaskRule& rule = wrong.problem().mask.rules[0];
      const bool left = rule.corner == MaskRule::Corner::kTopLeft;
      const int64_t by = wrong.columns(b) - wrong.rows(b);
      return BandOf(wrong, b).Sees(i, left ? j - by : j + by);
    };
  };
  constexpr std::string_view kCause = "mask from the other corner";
  ExpectCauses({"fwd bf16 h=4/2 d=32 q=9 k=40 causal",
                "fwd f16 h=2 d=64 q=5,20 k=33,70 causal-left",
                "fwd f32 h=2 d=16 q=12 k=50 window:6:3"},
               kCause, change);
  ExpectCauses(kBackward, kCause, change);
}

TEST(MaskCauses, WindowOffByOne) {
  for (const int64_t off : {-1, 1}) {
    const auto change = [off](PlainAttention& wrong) {
      wrong.sees = [&wrong, off](int64_t b, int64_t, int64_t i, int64_t j) {
        Band band = BandOf(wrong, b);
        band.upper += off;
        return band.Sees(i, j);
      };
    };
    ExpectCauses({"fwd bf16 h=4/2 d=32 q=30 k=40 causal",
                  "fwd f16 h=2 d=64 q=5,20 k=33,70 window:8:0",
                  "fwd f32 h=2 d=16 q=40 k=50 band:-6:3"},
                 "window off by one", change);
    ExpectCauses(kBackward, "window off by one", change);
  }
}

TEST(MaskCauses, WindowOffByOneOnTheLeft) {
  const auto change = [](PlainAttention& wrong) {
    wrong.sees = [&wrong](int64_t b, int64_t, int64_t i, int64_t j) {
      Band band = BandOf(wrong, b);
      ++band.lower;
      return band.Sees(i, j);
    };
  };
  ExpectCauses({"fwd bf16 h=4/2 d=32 q=30 k=40 window:5:0",
                "fwd f16 h=2 d=64 q=5,20 k=33,70 window:8:0",
                "fwd f32 h=2 d=16 q=40 k=50 band:-6:3"},
               "window off by one", change);
}

TEST(MaskCauses, MaskTensorInverted) {
  for (const char* line :
       {"fwd bf16 h=4/2 d=32 q=20 k=40 mask", "fwd f16 h=2 d=64 q=33 k=33 mask",
        "fwd f32 h=2 d=16 q=2x12 k=2x50 mask",
        "bwd bf16 h=4/2 d=32 q=20 k=30 mask", "bwd f16 h=2 d=64 q=17 k=33 mask",
        "bwd f32 h=2 d=16 q=2x12 k=2x20 mask"}) {
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
}

TEST(MaskCauses, RuleInverted) {
  const auto change = [](PlainAttention& wrong) {
    wrong.sees = [&](int64_t b, int64_t, int64_t i, int64_t j) {
      return !BandOf(wrong, b).Sees(i, j);
    };
  };
  ExpectCauses({"fwd bf16 h=2 d=32 q=20 k=40 causal",
                "fwd f16 h=4/2 d=64 q=5,20 k=33,70 causal-left",
                "fwd f32 h=2 d=16 q=40 k=50 causal"},
               "mask inverted", change);
  ExpectCauses({"bwd bf16 h=2 d=32 q=20 k=40 causal",
                "bwd f16 h=4/2 d=64 q=5,20 k=33,30 causal-left",
                "bwd f32 h=2 d=16 q=20 k=25 causal"},
               "mask inverted", change);
}

TEST(MaskCauses, MaskForgotten) {
  const auto change = [](PlainAttention& wrong) {
    wrong.sees = [](int64_t, int64_t, int64_t, int64_t) { return true; };
  };
  ExpectCauses({"fwd bf16 h=4/2 d=32 q=30 k=40 causal",
                "fwd f16 h=2 d=64 q=5,20 k=33,70 window:8:0",
                "fwd f32 h=2 d=16 q=40 k=50 band:-6:3"},
               "mask forgotten", change);
  ExpectCauses(kBackward, "mask forgotten", change);
}

TEST(MaskCauses, LastBlockMissing) {
  for (const int64_t block : {16, 64}) {
    const auto change = [block](PlainAttention& wrong) {
      wrong.sees = [&wrong, block](int64_t b, int64_t, int64_t i, int64_t j) {
        const int64_t last = wrong.columns(b) / block * block;
        return BandOf(wrong, b).Sees(i, j) && j < last;
      };
    };
    ExpectCauses(
        {"fwd bf16 h=4/2 d=32 q=30 k=150 causal",
         "fwd f16 h=2 d=64 q=5,20 k=133,70", "fwd f32 h=8/2 d=16 q=1 k=100"},
        "last block missing", change);
    ExpectCauses(
        {"bwd bf16 h=4/2 d=32 q=30 k=150 causal",
         "bwd f16 h=2 d=64 q=5,20 k=133,70", "bwd f32 h=8/2 d=16 q=7 k=100"},
        "last block missing", change);
  }
}

// Of a length that blocks divide, the last one is whole.
TEST(MaskCauses, LastWholeBlockMissing) {
  const auto change = [](PlainAttention& wrong) {
    wrong.sees = [&wrong](int64_t b, int64_t, int64_t i, int64_t j) {
      return BandOf(wrong, b).Sees(i, j) && j < wrong.columns(b) - 64;
    };
  };
  ExpectCauses(
      {"fwd bf16 h=4/2 d=32 q=30 k=128 causal",
       "fwd f16 h=2 d=64 q=5,20 k=192,128", "fwd f32 h=8/2 d=16 q=1 k=256"},
      "last block missing", change);
}

// Sequences of a packed tensor: numbers that are lengths are read as ends.
TEST(MaskCauses, LengthsForEnds) {
  const auto change = [](PlainAttention& wrong) {
    const auto length = wrong.rows;
    const auto first = [=](int64_t b) {
      return b == 0 ? int64_t{0} : length(b - 1);
    };
    const auto count = [=](int64_t b) {
      return std::max<int64_t>(length(b) - first(b), 0);
    };
    wrong.rows = wrong.columns = count;
    wrong.first_row = wrong.first_key = first;
  };
  ExpectCauses({"fwd bf16 h=4/2 d=32 q=3,9,20 k=3,9,20 causal",
                "fwd f16 h=2 d=64 q=5,20 k=5,20",
                "fwd f32 h=2 d=16 q=4,8,7,20 k=4,8,7,20"},
               "lengths for ends", change);
  ExpectCauses({"bwd bf16 h=4/2 d=32 q=3,9,20 k=3,9,20 causal",
                "bwd f16 h=2 d=64 q=5,20 k=5,20",
                "bwd f32 h=2 d=16 q=4,8,7,20 k=4,8,7,20"},
               "lengths for ends", change);
}

}  // namespace
}  // namespace flashacl
