// SPDX-License-Identifier: Apache-2.0
// Contents that point outside are named with their place.
#include "plan/device_checks.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace flashacl {
namespace {

template <typename T>
std::byte* Bytes(std::vector<T>& values) {
  return reinterpret_cast<std::byte*>(values.data());
}

TEST(DeviceChecks, EndsMustNotDecreaseNorPassTheTensor) {
  AttentionProblem problem;
  problem.lengths = {{{{0, 9}, {0, 20}}, {{0, 9}, {0, 20}}},
                     Lengths::Device::kEnds,
                     Lengths::Device::kNone};
  problem[Slot::kQueryLengths] = DenseSpec(DType::kI32, {2, 1, 1, 1});
  std::vector<int32_t> ends{4, 9};
  Bindings bindings;
  bindings[Slot::kQueryLengths] = Bytes(ends);
  EXPECT_TRUE(CheckDeviceTensors(problem, bindings).ok());
  ends = {4, 10};
  EXPECT_EQ(CheckDeviceTensors(problem, bindings).message(),
            "query lengths[1]: 10, expected 4 to 9");
  ends = {4, 3};
  EXPECT_EQ(CheckDeviceTensors(problem, bindings).message(),
            "query lengths[1]: 3, expected 4 to 9");
}

TEST(DeviceChecks, CountsAreEachTheirOwn) {
  AttentionProblem problem;
  problem.lengths = {{{{0, 9}, {0, 20}}, {{0, 9}, {0, 20}}},
                     Lengths::Device::kNone,
                     Lengths::Device::kCounts};
  problem[Slot::kKeyLengths] = DenseSpec(DType::kI64, {2, 1, 1, 1});
  std::vector<int64_t> counts{20, 3};
  Bindings bindings;
  bindings[Slot::kKeyLengths] = Bytes(counts);
  EXPECT_TRUE(CheckDeviceTensors(problem, bindings).ok());
  counts = {21, 3};
  EXPECT_EQ(CheckDeviceTensors(problem, bindings).message(),
            "key lengths[0]: 21, expected 0 to 20");
}

TEST(DeviceChecks, PagesAreCheckedAsFarAsTheyAreNeeded) {
  AttentionProblem problem;
  problem.lengths.sequences = {{{0, 1}, {0, 5}}};
  problem.kv.rows = KvSource::Rows::kPaged;
  problem.kv.page_rows = 4;
  problem[Slot::kKey] = DenseSpec(DType::kF32, {3, 4, 1, 8});
  problem[Slot::kBlockTable] = DenseSpec(DType::kI32, {1, 3, 1, 1});
  std::vector<int32_t> table{2, 0, -1};
  Bindings bindings;
  bindings[Slot::kBlockTable] = Bytes(table);
  EXPECT_TRUE(CheckDeviceTensors(problem, bindings).ok());
  table[1] = 3;
  EXPECT_EQ(CheckDeviceTensors(problem, bindings).message(),
            "block table[0][1]: page 3, but there are 3 pages");
  table[1] = -1;
  EXPECT_FALSE(CheckDeviceTensors(problem, bindings).ok());
}

TEST(DeviceChecks, ListsNameEachColumnOnceAndEndOnce) {
  AttentionProblem problem;
  problem.heads = problem.kv_heads = 1;
  problem.lengths.sequences = {{{0, 1}, {0, 9}}};
  problem.kv.selection = KvSource::Selection::kTopK;
  problem.kv.gather_rows = 4;
  problem[Slot::kTopK] = DenseSpec(DType::kI64, {1, 1, 1, 4});
  std::vector<int64_t> list{2, 0, -1, -1};
  Bindings bindings;
  bindings[Slot::kTopK] = Bytes(list);
  EXPECT_TRUE(CheckDeviceTensors(problem, bindings).ok());
  list = {2, 3, -1, -1};
  EXPECT_EQ(CheckDeviceTensors(problem, bindings).message(),
            "top-k[sequence 0, row 0], place 1: block 3, but there are 3");
  list = {2, 0, 2, -1};
  EXPECT_EQ(CheckDeviceTensors(problem, bindings).message(),
            "top-k[sequence 0, row 0], place 2: block 2 for the second time");
  list = {2, -1, 0, -1};
  EXPECT_EQ(CheckDeviceTensors(problem, bindings).message(),
            "top-k[sequence 0, row 0], place 2: 0 after the end (-1)");
}

std::vector<uint8_t> Canonical(int64_t rows) {
  std::vector<uint8_t> mask(static_cast<size_t>(rows * 2048));
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < 2048; ++j) {
      const bool hidden = i < 2048 ? j > i : j >= 1024;
      mask[static_cast<size_t>(i * 2048 + j)] = hidden ? 1 : 0;
    }
  }
  return mask;
}

TEST(CompressedMask, IsATriangleWithHalvesBelow) {
  for (const int64_t rows : {2048, 3072}) {
    std::vector<uint8_t> bytes = Canonical(rows);
    const CompressedMask mask{"attenMaskOptional", rows, 2048, 2048, 1};
    EXPECT_TRUE(mask.Check(Bytes(bytes)).ok());
    bytes.back() ^= 1;
    EXPECT_EQ(mask.Check(Bytes(bytes)).ok(), false);
  }
  std::vector<uint8_t> bytes = Canonical(2048);
  bytes[2048 * 5 + 6] = 0;
  const CompressedMask mask{"attenMaskOptional", 2048, 2048, 2048, 1};
  EXPECT_EQ(mask.Check(Bytes(bytes)).message(),
            "attenMaskOptional[5][6]: 0, expected 1 in a compressed mask");
}

}  // namespace
}  // namespace flashacl
