// SPDX-License-Identifier: Apache-2.0
// aclnnDropoutGenMask, V2, V2Tensor: known masks, where their arguments come
// from, where their bytes go, refusals.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "base/str.h"
#include "tests/testing/elementwise_call.h"
#include "tests/testing/philox.h"
#include "tests/testing/random.h"
#include "tests/testing/refusal.h"

namespace flashacl::testing {
namespace {

class DropoutGenMaskTest : public RuntimeTest {};

using Drawn = std::vector<uint8_t>;

int64_t BytesFor(int64_t n) { return (n + 127) / 128 * 16; }

ElementwiseCall Call(const ElementTensor& out, const PhiloxMask& mask,
                     std::vector<int64_t> shape) {
  return {.name = "aclnnDropoutGenMask",
          .tensors = {&out},
          .integers = {static_cast<int64_t>(mask.seed),
                       static_cast<int64_t>(mask.offset)},
          .reals = {mask.prob},
          .arrays = {std::move(shape)}};
}

Drawn BytesOf(const ElementTensor& mask) {
  Drawn bytes;
  for (int64_t n = 0; n < mask.count(); ++n) {
    bytes.push_back(static_cast<uint8_t>(*mask.at(n)));
  }
  return bytes;
}

Drawn Draw(const PhiloxMask& mask, int64_t n) {
  const ElementTensor out(ACL_UINT8, {BytesFor(n)});
  EXPECT_TRUE(Call(out, mask, {n}).Run());
  return BytesOf(out);
}

std::string Hex(const Drawn& bytes, size_t first) {
  std::string text;
  for (size_t n = first; n < first + 16; ++n) {
    text += Str("{:02x}", bytes[n]);
  }
  return text;
}

int64_t Kept(const Drawn& bytes, int64_t n) {
  int64_t kept = 0;
  for (int64_t g = 0; g < n; ++g) {
    kept += bytes[static_cast<size_t>(g / 8)] >> (g % 8) & 1;
  }
  return kept;
}

TEST_F(DropoutGenMaskTest, KnownMasks) {
  constexpr uint64_t kMinusOne = ~uint64_t{0};
  const struct {
    PhiloxMask mask;
    int64_t n;
    const char* first;
    int64_t kept;  // -1: not known
  } kCases[] = {
      {{0, 0, 0.5}, 128, "96e390ec7dd35319cb3ce49e392d2e41", 66},
      {{1, 0, 0.5}, 100, "e5bb0f40cf1d114e456721e9d44726bd", 48},
      {{1, 0, 0.5}, 128, "e5bb0f40cf1d114e456721e9d44726bd", 64},
      {{2, 0, 0.1}, 1000, "fffbfb7fffffff93edff79eefefcffff", 906},
      {{2, 12, 0.1}, 1000, "ff7ddef7fefdffffffbbffffefffeff7", 901},
      {{kMinusOne, 0, 0.5}, 128, "be2d31e760ffa8f5b702ba83bad11608", -1},
      {{1, kMinusOne, 0.5}, 128, "d573f050fd6ac605e5ef3e4600182cb9", -1},
      {{(uint64_t{1} << 40) + 7, (uint64_t{1} << 33) + 5, 0.25},
       128,
       "d9fdbfbf8836f767fdceeafeafdfa7bf",
       -1},
      {{1, 0, 0.9}, 128, "80120800041401404101204840000001", 17},
      {{1, 0, 1e-9}, 128, "ffffffffffffffffffffffffffffffff", -1},
      {{2, 0, 0.1}, 1000000, "fffbfb7fffffff93edff79eefefcffff", 899693},
  };
  for (const auto& known : kCases) {
    const Drawn bytes = Draw(known.mask, known.n);
    EXPECT_EQ(Hex(bytes, 0), known.first);
    if (known.kept >= 0) {
      EXPECT_EQ(Kept(bytes, known.n), known.kept);
    }
  }
  const Drawn thousand = Draw({2, 0, 0.1}, 1000);
  EXPECT_EQ(thousand.size(), 128u);
  EXPECT_EQ(Hex(thousand, 112), "fbffaffffffffdfffffffd3ff4fb7edf");
}

TEST_F(DropoutGenMaskTest, AMillionBitsHaveTheirChecksum) {
  uint32_t crc = ~uint32_t{0};
  const Drawn bytes = Draw({2, 0, 0.1}, 1000000);
  EXPECT_EQ(bytes.size(), 125008u);
  for (const uint8_t byte : bytes) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit) {
      crc = crc >> 1 ^ ((crc & 1) != 0 ? 0xEDB88320u : 0);
    }
  }
  EXPECT_EQ(~crc, 0x5ed9c1e3u);
}

TEST_F(DropoutGenMaskTest, AllOrNothing) {
  EXPECT_EQ(Draw({3, 4, 0}, 200), Drawn(32, 0xFF));
  EXPECT_EQ(Draw({3, 4, 1}, 200), Drawn(32, 0));
}

TEST_F(DropoutGenMaskTest, FewerElementsHaveTheBeginningOfMore) {
  const Drawn more = Draw({7, 8, 0.3}, 70000);
  for (const int64_t n : {1, 127, 128, 129, 65536, 65537}) {
    Drawn fewer = Draw({7, 8, 0.3}, n);
    EXPECT_EQ(fewer, Drawn(more.begin(), more.begin() + BytesFor(n)));
  }
}

TEST_F(DropoutGenMaskTest, OnlyTheProductOfTheShapeCounts) {
  const PhiloxMask mask{1, 2, 0.5};
  const std::vector<int64_t> kShapes[] = {
      {200}, {4, 50}, {50, 4}, {2, 2, 5, 10, 1}};
  for (const auto& shape : kShapes) {
    const ElementTensor out(ACL_UINT8, {2, 16});
    EXPECT_TRUE(Call(out, mask, shape).Run());
    EXPECT_EQ(BytesOf(out), mask.Bytes(200));
  }
  const ElementTensor one(ACL_UINT8, {16});
  EXPECT_TRUE(Call(one, mask, {}).Run());
  EXPECT_EQ(BytesOf(one), mask.Bytes(1));
}

TEST_F(DropoutGenMaskTest, OutMayLieAnywhere) {
  Random random(1);
  const PhiloxMask mask{1, 2, 0.5};
  for (int round = 0; round < 30; ++round) {
    const int64_t rows = random.Within(1, 9);
    const auto side =
        random.OneIn(2) ? FencedBytes::Side::kStart : FencedBytes::Side::kEnd;
    const ElementTensor out(
        AnyStrides(random, {ACL_UINT8, {rows, 4, 40}}, false), side);
    const auto before = out.Image();
    ASSERT_TRUE(Call(out, mask, {rows * 1280}).Run());
    EXPECT_EQ(BytesOf(out), mask.Bytes(rows * 1280));
    for (int64_t n = 0; n < out.count(); ++n) *out.at(n) = std::byte{0xFF};
    EXPECT_EQ(out.Image(), before) << "gaps";
  }
}

TEST_F(DropoutGenMaskTest, V2IsTheSameForAllTypes) {
  const PhiloxMask mask{2, 12, 0.1};
  for (const aclDataType type : {ACL_FLOAT, ACL_FLOAT16, ACL_BF16}) {
    const ElementTensor out(ACL_UINT8, {128});
    ElementwiseCall call = Call(out, mask, {1000});
    call.name = "aclnnDropoutGenMaskV2";
    call.integers.push_back(type);
    EXPECT_TRUE(call.Run());
    EXPECT_EQ(BytesOf(out), mask.Bytes(1000));
  }
}

ElementTensor* Number(int64_t value) {
  auto* const tensor = new ElementTensor(ACL_INT64, {1});
  WriteElement(ACL_INT64, tensor->at(0), WholeElement(value));
  return tensor;
}

ElementwiseCall TensorCall(const ElementTensor& seed,
                           const ElementTensor& offset, int64_t more,
                           const ElementTensor& out) {
  return {.name = "aclnnDropoutGenMaskV2Tensor",
          .tensors = {&seed, &offset, &out},
          .integers = {more, ACL_FLOAT16},
          .reals = {0.1},
          .arrays = {{{1000}}}};
}

TEST_F(DropoutGenMaskTest, V2TensorAddsOffsetsModulo2To64) {
  const struct {
    int64_t seed, offset, more;
  } kCases[] = {{2, 5, 7}, {-3, INT64_MAX, INT64_MAX}, {0, -5, 2}};
  for (const auto& [seed, offset, more] : kCases) {
    const std::unique_ptr<ElementTensor> seed_tensor(Number(seed));
    const std::unique_ptr<ElementTensor> offset_tensor(Number(offset));
    const ElementTensor out(ACL_UINT8, {128});
    EXPECT_TRUE(TensorCall(*seed_tensor, *offset_tensor, more, out).Run());
    const PhiloxMask mask{
        static_cast<uint64_t>(seed),
        static_cast<uint64_t>(offset) + static_cast<uint64_t>(more), 0.1};
    EXPECT_EQ(BytesOf(out), mask.Bytes(1000));
  }
}

// A graph that is replayed has new numbers there.
TEST_F(DropoutGenMaskTest, V2TensorReadsWhenTheTaskRuns) {
  const std::unique_ptr<ElementTensor> seed(Number(2));
  const std::unique_ptr<ElementTensor> offset(Number(5));
  const ElementTensor out(ACL_UINT8, {128});
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  ASSERT_TRUE(
      Succeeds(TensorCall(*seed, *offset, 0, out).Prepare(&size, &executor)));
  ASSERT_TRUE(Succeeds(aclSetAclOpExecutorRepeatable(executor)));
  const auto& entry = EntryPointsOf("aclnnDropoutGenMaskV2Tensor");
  for (const int64_t now : {5, 6, -1}) {
    WriteElement(ACL_INT64, offset->at(0), WholeElement(now));
    EXPECT_TRUE(Succeeds(entry.phase_two(nullptr, 0, executor, nullptr)));
    EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(nullptr)));
    const PhiloxMask mask{2, static_cast<uint64_t>(now), 0.1};
    EXPECT_EQ(BytesOf(out), mask.Bytes(1000));
  }
  EXPECT_TRUE(Succeeds(aclDestroyAclOpExecutor(executor)));
}

TEST_F(DropoutGenMaskTest, NoElementsAreNoWork) {
  const ElementTensor none(ACL_UINT8, {0});
  EXPECT_TRUE(Call(none, {1, 2, 0.5}, {3, 0}).Run());
  // Nothing else is looked at then.
  EXPECT_TRUE(Call(none, {1, 2, 7}, {0, -1}).Run());
}

TEST_F(DropoutGenMaskTest, Refusals) {
  const ElementTensor out(ACL_UINT8, {16}), words(ACL_INT32, {16}),
      nz(Form{ACL_UINT8, {16}, {1}, 0, ACL_FORMAT_FRACTAL_NZ}),
      repeats(Form{ACL_UINT8, {16}, {0}}), seed(ACL_INT64, {1}),
      two(ACL_INT64, {2}), narrow(ACL_INT32, {1}), none(ACL_INT64, {0});
  const PhiloxMask mask{1, 2, 0.5};
  ElementwiseCall no_out = Call(out, mask, {9});
  no_out.tensors = {nullptr};
  ElementwiseCall no_shape = Call(out, mask, {9});
  no_shape.arrays = {std::nullopt};
  ElementwiseCall v2 = Call(out, mask, {9});
  v2.name = "aclnnDropoutGenMaskV2";
  v2.integers.push_back(ACL_DOUBLE);
  ElementwiseCall no_seed = TensorCall(seed, seed, 0, out);
  no_seed.tensors[0] = nullptr;
  ElementwiseCall no_offset = TensorCall(seed, seed, 0, out);
  no_offset.tensors[1] = nullptr;
  const struct {
    ElementwiseCall call;
    aclnnStatus status;
    const char* words;
  } kCases[] = {
      {no_out, kNull, "The out cannot be nullptr"},
      {no_shape, kNull, "The shape cannot be nullptr"},
      {no_seed, kNull, "The seedTensor cannot be nullptr"},
      {no_offset, kNull, "The offsetTensor cannot be nullptr"},
      {Call(words, mask, {9}), kInvalid,
       "out: data type INT32 (3), expected UINT8"},
      {Call(nz, mask, {9}), kInvalid, "out: private format 29"},
      {Call(repeats, mask, {9}), kInvalid, "out: stride 0 of axis 0"},
      {TensorCall(narrow, seed, 0, out), kInvalid,
       "seedTensor: data type INT32 (3), expected INT64"},
      {TensorCall(seed, two, 0, out), kInvalid,
       "offsetTensor: shape [2], expected one element"},
      {TensorCall(none, seed, 0, out), kInvalid,
       "seedTensor: shape [0], expected one element"},
      {v2, kInvalid,
       "probDataType: data type 11, expected FLOAT, FLOAT16 or BFLOAT16"},
      {Call(out, {1, 2, 1.5}, {9}), kInvalid, "prob: 1.5, expected 0 to 1"},
      {Call(out, {1, 2, -0.1}, {9}), kInvalid, "prob: -0.1, expected 0 to 1"},
      {Call(out, {1, 2, std::nan("")}, {9}), kInvalid, "prob: nan, expected"},
      {Call(out, mask, {9, -1}), kInvalid,
       "shape: axis -1, expected at least 0"},
      {Call(out, mask, {int64_t{1} << 32, int64_t{1} << 31}), kInvalid,
       "shape: [4294967296, 2147483648] has 2^63 elements or more"},
      {Call(out, mask, {129}), kInvalid,
       "out: shape [16] has 16 elements, expected 32 for the 129 bits"},
      {Call(out, mask, {0}), kInvalid,
       "out: shape [16] has 16 elements, expected 0 for the 0 bits"},
  };
  for (const auto& one_case : kCases) {
    EXPECT_TRUE(one_case.call.IsRefused(one_case.status, one_case.words));
  }
}

}  // namespace
}  // namespace flashacl::testing
