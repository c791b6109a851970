// SPDX-License-Identifier: Apache-2.0
// What the tiles are built of, one by one and on every instruction set: exp,
// conversions of elements, panels. right_test.cc has the whole.
#include "cpu/forward/forward_kernel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <vector>

#include "base/half.h"
#include "base/random.h"
#include "cpu/decode/decode_kernel.h"
#include "hwy/aligned_allocator.h"
#include "hwy/cache_control.h"
#include "tests/cpu/targets.h"
#include "tests/testing/fenced.h"
#include "tests/testing/random.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/cpu/forward/forward_kernel_test.cc"
#include "cpu/targets.h"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "cpu/forward/forward-inl.h"

// Vector code as plain functions.
#ifndef FLASHACL_TESTS_CPU_PIECES
#define FLASHACL_TESTS_CPU_PIECES
namespace flashacl::cpu {
struct RowsToStore {
  const float* from;
  int64_t stride, count;
  Range channels;
  float scale;
  bool streams;
};

struct Pieces {
  int64_t width;  // rows of a panel
  void (*exp)(const float* from, int64_t count, float* to);
  void (*load_row)(const ElementFormat&, const std::byte*, int64_t count,
                   float*);
  void (*store_row)(const ElementFormat&, const float*, int64_t count,
                    std::byte*);
  // To rows that begin row_bytes apart.
  void (*store_rows)(const ElementFormat&, const RowsToStore&, std::byte* to,
                     int64_t row_bytes);
  // Four elements in a register.
  void (*store_quad)(DType dtype, const float* from, std::byte* to);
  void (*rows_to_panel)(float* rows, int64_t stride, int64_t count,
                        float* panel);
  void (*panel_to_rows)(const float* panel, int64_t count, float* rows,
                        int64_t stride);
  // Of as many lanes as a vector has, from `panel` on: twice the elements.
  void (*panel_to_whole_rows)(const float* panel, int64_t count, float* rows,
                              int64_t stride);
  bool (*all_finite)(const float* row, int64_t channels);
};
}  // namespace flashacl::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

void ExpOf(const float* from, int64_t count, float* to) {
  for (int64_t n = 0; n < count; n += Lanes()) {
    hn::StoreU(Exp(hn::LoadU(kF, from + n)), kF, to + n);
  }
}

void StoreRowsOf(const ElementFormat& format, const RowsToStore& rows,
                 std::byte* to, int64_t row_bytes) {
  StoreScaledRows(format,
                  {{rows.from, rows.stride},
                   rows.count,
                   rows.channels,
                   rows.scale,
                   rows.streams},
                  [&](int64_t n) { return to + n * row_bytes; });
  hwy::FlushStream();
}

void StoreFourOf(DType dtype, const float* from, std::byte* to) {
  const auto quad = hn::LoadU(kQ, from);
  if (dtype == DType::kF16) {
    StoreFloats<DType::kF16>(kQ, quad, to, 0);
  } else {
    StoreFloats<DType::kBf16>(kQ, quad, to, 0);
  }
}

void RowsToPanelOf(float* rows, int64_t stride, int64_t count, float* panel) {
  RowsToPanel({rows, stride}, count, panel);
}

void PanelToRowsOf(const float* panel, int64_t count, float* rows,
                   int64_t stride) {
  const FourRows to{rows, stride};
  PanelToRows(
      panel, count, [](Quads&) {},
      [&](int64_t k, const Quads& quads) HWY_ATTR { to.Store(quads, k); });
}

void PanelToWholeRowsOf(const float* panel, int64_t count, float* rows,
                        int64_t stride) {
  PanelToWholeRows(
      panel, count, [](const Vector& x) HWY_ATTR { return hn::Add(x, x); },
      [&](int64_t r, int64_t k, const Vector& x)
          HWY_ATTR { hn::StoreU(x, kF, rows + r * stride + k); });
}

Pieces PieceTable() {
  return {Width(),       ExpOf,         LoadRow,
          StoreRow,      StoreRowsOf,   StoreFourOf,
          RowsToPanelOf, PanelToRowsOf, PanelToWholeRowsOf,
          AllFinite};
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if FLASHACL_ONCE
namespace flashacl::cpu {

FLASHACL_EXPORT(Pieces, PieceTable);

namespace {

using testing::FencedBytes;
using testing::OnTarget;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<int64_t> Targets() { return testing::TargetsHere(); }

class Piece : public ::testing::TestWithParam<int64_t> {
 protected:
  const OnTarget target_{GetParam()};
  const Pieces pieces_ = FLASHACL_DISPATCH(PieceTable);
  Random random_{7};

  std::vector<float> Exp(std::vector<float> from) const {
    const size_t count = from.size();
    from.resize(count + 64, 0.0f);
    std::vector<float> to(from.size());
    pieces_.exp(from.data(), static_cast<int64_t>(count), to.data());
    to.resize(count);
    return to;
  }

  float AnyFloat() {
    return std::bit_cast<float>(static_cast<uint32_t>(random_.Bits()));
  }
};

// Of every kernel.
TEST(Targets, HaveCodeOfTheirOwn) {
  std::set<void (*)()> codes;
  const auto insert = [&](auto* code) {
    return codes.insert(reinterpret_cast<void (*)()>(code)).second;
  };
  for (const int64_t target : Targets()) {
    const OnTarget on(target);
    EXPECT_TRUE(insert(Forward().attend) && insert(Forward().combine) &&
                insert(Decode().attend))
        << cpu::TargetName(target);
  }
  EXPECT_FALSE(codes.empty());
}

TEST_P(Piece, PanelsAreAsWideAsTwoVectors) {
  int64_t lanes = 4;
  if (GetParam() == HWY_AVX2 || GetParam() == HWY_SVE_256) lanes = 8;
  if (GetParam() == HWY_AVX3 || GetParam() == HWY_SVE) lanes = 16;
  EXPECT_EQ(pieces_.width, 2 * lanes);
}

TEST_P(Piece, ExpIsWithinItsBound) {
  // Every 61st float from -0 to -88.
  const auto last = std::bit_cast<uint32_t>(-88.0f);
  double worst = 0;  // share of what is allowed
  float worst_at = 0;
  std::vector<float> block;
  const auto check = [&] {
    const std::vector<float> found = Exp(block);
    for (size_t n = 0; n < block.size(); ++n) {
      if (block[n] < -87.69f) {
        EXPECT_EQ(found[n], 0.0f) << block[n];
        continue;
      }
      // -126.5 ln 2 is where rounding leaves what floats hold normally.
      if (block[n] < -87.68f) continue;
      // Subnormals, at the end, are as far apart as the smallest of them.
      const double truth = std::exp(double{block[n]});
      const double error = std::fabs(double{found[n]} - truth);
      const double share =
          error / (truth * (2.1e-7 - 2.8e-9 * double{block[n]}) + 0x1p-149);
      if (share > worst) {
        worst = share;
        worst_at = block[n];
      }
    }
    block.clear();
  };
  for (uint32_t bits = 0x80000000u; bits <= last; bits += 61) {
    block.push_back(std::bit_cast<float>(bits));
    if (block.size() == 4096) check();
  }
  check();
  EXPECT_LE(worst, 1) << "at " << worst_at;
}

TEST_P(Piece, ExpOfNothingIsZeroAndOfNaNIsNaN) {
  EXPECT_EQ(Exp({0.0f}), std::vector<float>{1.0f});
  EXPECT_EQ(Exp({-0.0f}), std::vector<float>{1.0f});
  for (const float t : {-kInfinity, -FLT_MAX, -1e10f, -88.0f, -87.71f}) {
    EXPECT_EQ(Exp({t}), std::vector<float>{0.0f}) << t;
  }
  for (int n = 0; n < 100000; ++n) {
    const auto payload = static_cast<uint32_t>(random_.Within(1, 0x7FFFFF));
    const uint32_t sign = random_.OneIn(2) ? 0x80000000u : 0;
    const float nan = std::bit_cast<float>(sign | 0x7F800000u | payload);
    ASSERT_TRUE(std::isnan(Exp({nan})[0])) << std::hex << payload;
  }
}

// Same number, same infinity, or NaN both.
void ExpectSame(float found, float expected, uint32_t from) {
  if (std::isnan(expected)) {
    EXPECT_TRUE(std::isnan(found)) << std::hex << from;
  } else {
    EXPECT_EQ(std::bit_cast<uint32_t>(found), std::bit_cast<uint32_t>(expected))
        << std::hex << from;
  }
}

ElementFormat FormatOf(DType dtype, int64_t step = 1) {
  ElementFormat format;
  format.dtype = dtype;
  format.step = step;
  format.element_bytes = SizeOf(dtype);
  return format;
}

TEST_P(Piece, LoadsEvery16BitFloat) {
  std::vector<uint16_t> all(0x10000);
  for (uint32_t n = 0; n < all.size(); ++n) all[n] = static_cast<uint16_t>(n);
  std::vector<float> found(all.size());
  for (const DType dtype : {DType::kF16, DType::kBf16}) {
    pieces_.load_row(FormatOf(dtype), reinterpret_cast<std::byte*>(all.data()),
                     static_cast<int64_t>(all.size()), found.data());
    for (uint32_t n = 0; n < all.size(); ++n) {
      const float expected =
          dtype == DType::kF16 ? F32FromF16(all[n]) : F32FromBf16(all[n]);
      ExpectSame(found[n], expected, n);
    }
  }
}

TEST_P(Piece, LoadsEveryByte) {
  std::vector<int8_t> all(256);
  std::vector<float> found(all.size());
  for (int n = 0; n < 256; ++n) {
    all[static_cast<size_t>(n)] = static_cast<int8_t>(n - 128);
  }
  pieces_.load_row(FormatOf(DType::kI8),
                   reinterpret_cast<std::byte*>(all.data()), 256, found.data());
  for (int n = 0; n < 256; ++n) {
    EXPECT_EQ(found[static_cast<size_t>(n)], static_cast<float>(n - 128));
  }
}

// Every number in every place of words of four bits, in rows that begin at any
// byte, read to their last word and no further.
TEST_P(Piece, LoadsFourBitsExactly) {
  for (int64_t count = 0; count < 150; ++count) {
    for (const int64_t step : {1, 2, 5}) {
      const int64_t words = CeilDiv(count, 8);
      const int64_t elements = words == 0 ? 0 : (words - 1) * step + 1;
      const FencedBytes memory(elements * 4);
      std::vector<float> expected(static_cast<size_t>(count)), found(expected);
      for (int64_t d = 0; d < count; ++d) {
        const auto value = static_cast<int32_t>((d * 5 + d / 16 + step) % 16);
        WriteFourBits(memory.data() + d / 8 * step * 4, d % 8, value);
        expected[static_cast<size_t>(d)] =
            static_cast<float>(value < 8 ? value : value - 16);
      }
      pieces_.load_row(FormatOf(DType::kI4x8, step), memory.data(), count,
                       found.data());
      EXPECT_EQ(found, expected) << count << " by " << step;
    }
  }
}

// Rows of any length and step, read to their last element and no further.
TEST_P(Piece, LoadsAndStoresRowsExactly) {
  for (const DType dtype :
       {DType::kF32, DType::kF16, DType::kBf16, DType::kI8}) {
    for (int64_t count = 0; count < 70; ++count) {
      for (const int64_t step : {1, 2, 5}) {
        const ElementFormat format = FormatOf(dtype, step);
        const int64_t size = format.element_bytes;
        const int64_t elements = count == 0 ? 0 : (count - 1) * step + 1;
        std::vector<float> row(static_cast<size_t>(count)), back(row);
        for (float& x : row) x = static_cast<float>(random_.Within(-9, 9));
        const FencedBytes memory(elements * size);
        pieces_.store_row(format, row.data(), count, memory.data());
        pieces_.load_row(format, memory.data(), count, back.data());
        EXPECT_EQ(back, row) << Name(dtype) << " * " << count << " by " << step;
        for (int64_t n = 0; n < elements * size; ++n) {
          if (n / size % step == 0) continue;
          EXPECT_EQ(memory.data()[n], std::byte{0xFF}) << "between elements";
        }
      }
    }
  }
}

// Past the caches or not, some channels of rows, whether they are lines or not:
// what one row at a time is, and nothing between rows.
TEST_P(Piece, StoresScaledRowsWhereTheyBelong) {
  constexpr int64_t kStride = 176, kRows = 9, kRowBytes = 2048;
  std::vector<float> from(kRows * kStride), scaled(from.size());
  for (int n = 0; n < 2000; ++n) {
    const DType dtype = testing::OneOf(
        random_, {DType::kF32, DType::kF16, DType::kBf16, DType::kI8});
    const bool lines = n % 2 == 0;
    const ElementFormat format =
        FormatOf(dtype, lines ? 1 : random_.Within(1, 2));
    const int64_t unit = lines ? 64 / format.element_bytes : 1;
    RowsToStore rows{from.data(),
                     kStride,
                     random_.Within(0, kRows),
                     {},
                     static_cast<float>(random_.Bell()),
                     random_.Within(0, 3) > 0};
    rows.channels.first = unit * random_.Within(0, 64 / unit);
    rows.channels.last =
        rows.channels.first + unit * random_.Within(0, 160 / unit);
    const int64_t skew = lines ? 0 : 4 * random_.Within(0, 16);
    for (size_t k = 0; k < from.size(); ++k) {
      from[k] = random_.Within(0, 99) == 0
                    ? AnyFloat()
                    : static_cast<float>(20 * random_.Bell());
      scaled[k] = from[k] * rows.scale;
    }
    const FencedBytes memory(kRows * kRowBytes, FencedBytes::Side::kStart);
    const FencedBytes expected(kRows * kRowBytes, FencedBytes::Side::kStart);
    const int64_t bytes = format.step * format.element_bytes;
    for (int64_t r = 0; r < rows.count; ++r) {
      pieces_.store_row(
          format, scaled.data() + r * kStride, rows.channels.size(),
          expected.data() + skew + r * kRowBytes + rows.channels.first * bytes);
    }
    pieces_.store_rows(format, rows, memory.data() + skew, kRowBytes);
    ASSERT_EQ(std::memcmp(memory.data(), expected.data(), kRows * kRowBytes), 0)
        << Name(dtype) << " * " << rows.channels.first << " to "
        << rows.channels.last << " by " << format.step << " of " << rows.count;
  }
}

// Every 16-bit number, the ties between neighbours and what is next to them;
// then numbers of any size, infinities and NaNs of any payload.
TEST_P(Piece, StoresWithOneRoundingToEven) {
  std::vector<float> from;
  for (uint32_t bits = 0; bits < 0xFFFF; ++bits) {
    const auto low = static_cast<uint16_t>(bits);
    const auto high = static_cast<uint16_t>(bits + 1);
    for (const auto& [a, b] :
         {std::pair(F32FromF16(low), F32FromF16(high)),
          std::pair(F32FromBf16(low), F32FromBf16(high))}) {
      const float tie = a / 2 + b / 2;
      from.insert(from.end(), {a, tie, std::nextafter(tie, kInfinity),
                               std::nextafter(tie, -kInfinity)});
    }
  }
  for (const float x : {65504.0f, 65519.996f, 65520.0f, 65536.0f, FLT_MAX,
                        0x1.FEp127f, 0x1.FFp127f, 0x1.FEFFFEp127f, kInfinity,
                        FLT_MIN, 0x1p-149f, 0x1p-24f, 0x1p-25f, 0x1.8p-25f}) {
    from.insert(from.end(), {x, -x});
  }
  for (int n = 0; n < 500000; ++n) from.push_back(AnyFloat());
  while (from.size() % 4 != 0) from.push_back(0);

  for (const DType dtype : {DType::kF16, DType::kBf16}) {
    std::vector<uint16_t> quads(from.size()), rows(from.size());
    for (size_t n = 0; n < from.size(); n += 4) {
      pieces_.store_quad(dtype, &from[n],
                         reinterpret_cast<std::byte*>(&quads[n]));
    }
    pieces_.store_row(FormatOf(dtype), from.data(),
                      static_cast<int64_t>(from.size()),
                      reinterpret_cast<std::byte*>(rows.data()));
    const auto wide = [dtype](uint16_t bits) {
      return dtype == DType::kF16 ? F32FromF16(bits) : F32FromBf16(bits);
    };
    for (size_t n = 0; n < from.size(); ++n) {
      const float expected = wide(dtype == DType::kF16 ? F16FromF32(from[n])
                                                       : Bf16FromF32(from[n]));
      ExpectSame(wide(quads[n]), expected, std::bit_cast<uint32_t>(from[n]));
      ExpectSame(wide(rows[n]), expected, std::bit_cast<uint32_t>(from[n]));
    }
    if (HasFailure()) return;
  }
}

// Element k of row r is lane r of element k of the panel, there and back.
TEST_P(Piece, RowsBecomePanelsAndBack) {
  constexpr int64_t kStride = 80;
  std::vector<float> rows(4 * kStride), back(rows.size());
  for (float& x : rows) x = random_.Bell();
  for (int64_t count = 1; count <= 70; ++count) {
    std::vector<float> panel(
        static_cast<size_t>(RoundUp(count, 4) * pieces_.width), 7.0f);
    pieces_.rows_to_panel(rows.data(), kStride, count, panel.data());
    pieces_.panel_to_rows(panel.data(), count, back.data(), kStride);
    for (int64_t k = 0; k < count; ++k) {
      for (int64_t lane = 0; lane < pieces_.width; ++lane) {
        const float found =
            panel[static_cast<size_t>(k * pieces_.width + lane)];
        if (lane >= 4) {
          ASSERT_EQ(found, 7.0f) << "lanes of others";
          continue;
        }
        const auto n = static_cast<size_t>(lane * kStride + k);
        ASSERT_EQ(found, rows[n]) << k << " of " << count;
        ASSERT_EQ(back[n], rows[n]) << k << " of " << count;
      }
    }
    ASSERT_TRUE(std::all_of(panel.begin() + count * pieces_.width, panel.end(),
                            [](float x) { return x == 7.0f; }))
        << "beyond " << count;
  }
}

TEST_P(Piece, LanesOfAVectorBecomeWholeRows) {
  const int64_t lanes = pieces_.width / 2;
  const int64_t stride = 4 * lanes;
  for (int64_t count = lanes; count <= 3 * lanes; count += lanes) {
    for (const int64_t first : {int64_t{0}, lanes}) {
      const auto floats = static_cast<size_t>(count * pieces_.width);
      const auto panel = hwy::AllocateAligned<float>(floats);
      for (size_t n = 0; n < floats; ++n) panel[n] = static_cast<float>(n);
      std::vector<float> rows(static_cast<size_t>(lanes * stride), -1.0f);
      pieces_.panel_to_whole_rows(panel.get() + first, count, rows.data(),
                                  stride);
      for (int64_t r = 0; r < lanes; ++r) {
        for (int64_t k = 0; k < stride; ++k) {
          const int64_t from = k * pieces_.width + first + r;
          const auto expected = static_cast<float>(k < count ? 2 * from : -1);
          ASSERT_EQ(rows[static_cast<size_t>(r * stride + k)], expected)
              << "row " << r << ", element " << k << " of " << count;
        }
      }
    }
  }
}

TEST_P(Piece, OneNumberThatIsNotFiniteIsFound) {
  for (int64_t channels = 1; channels < 70; ++channels) {
    std::vector<float> row(static_cast<size_t>(channels + 64), NAN);
    for (int64_t d = 0; d < channels; ++d) {
      row[static_cast<size_t>(d)] = random_.OneIn(9) ? FLT_MAX : random_.Bell();
    }
    EXPECT_TRUE(pieces_.all_finite(row.data(), channels));
    for (int64_t d = 0; d < channels; ++d) {
      for (const float special : {kInfinity, -kInfinity, NAN}) {
        std::vector<float> spoilt = row;
        spoilt[static_cast<size_t>(d)] = special;
        EXPECT_FALSE(pieces_.all_finite(spoilt.data(), channels)) << d;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EveryTarget, Piece, ::testing::ValuesIn(Targets()),
                         testing::TargetTestName);

}  // namespace
}  // namespace flashacl::cpu
#endif  // FLASHACL_ONCE
