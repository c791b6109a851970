// SPDX-License-Identifier: Apache-2.0
// Computations as the runtime has them: their line, and the same bits however
// many workers there are and in whatever order they come.
#include "dropout/dropout.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/random.h"
#include "plan/host_queue.h"
#include "tests/testing/philox.h"
#include "tests/testing/shuffled_workers.h"

namespace flashacl::dropout {
namespace {

using elementwise::Type;
using Bytes = std::vector<std::byte>;

constexpr int64_t kRows = 301;
constexpr int64_t kColumns = 1001;
constexpr int64_t kElements = kRows * kColumns;

MaskTensor Dense(size_t argument) {
  return {argument, {MaskBytes(kElements)}, {1}};
}

Selection Halves() {
  Selection selection;
  selection.extents = {kRows, kColumns};
  selection.self = {0, Type::kF16, {kColumns, 1}};
  selection.out = {1, Type::kBf16, {1, kRows}};
  selection.mask = Dense(2);
  selection.amount = 0.75f;
  return selection;
}

TEST(Dropout, SaysWhatItComputes) {
  const auto mask = MakeMask({.prob = 0.5}, Dense(0));
  EXPECT_EQ(mask->name(), "dropout/mask");
  EXPECT_EQ(mask->Describe(), "37664 bytes, prob 0.5");
  EXPECT_EQ(mask->workspace_bytes(), 0);
  const auto select = MakeSelection(Halves());
  EXPECT_EQ(select->name(), "dropout/select");
  EXPECT_EQ(select->Describe(), "f16 divided by 0.75 to bf16: [301, 1001]");
  const auto both = MakeDropout({.prob = 0.25}, Halves());
  EXPECT_EQ(both->name(), "dropout/mask and select");
}

TEST(Dropout, MasksAreWholeUnits) {
  EXPECT_EQ(MaskBytes(0), 0);
  EXPECT_EQ(MaskBytes(1), 16);
  EXPECT_EQ(MaskBytes(128), 16);
  EXPECT_EQ(MaskBytes(129), 32);
  EXPECT_EQ(MaskBytes(INT64_MAX), int64_t{1} << 60);
}

TEST(Dropout, IsTheSameForAnyWorkers) {
  Random random(1);
  Bytes self(kElements * 2);
  for (std::byte& byte : self) {
    byte = static_cast<std::byte>(random.Within(0, 255));
  }
  const auto dropout = MakeDropout({.prob = 0.25, .seed = 3}, Halves());
  const testing::PhiloxMask mask{3, 0, 0.25};
  const std::vector<uint8_t> drawn_alone = mask.Bytes(kElements);
  Bytes first;
  for (const int workers : {1, 2, 7}) {
    Bytes out(kElements * 2);
    std::vector<uint8_t> drawn(drawn_alone.size());
    ShuffledWorkers shuffled(workers);
    HostQueue queue(shuffled);
    std::byte* const at[] = {self.data(), out.data(),
                             reinterpret_cast<std::byte*>(drawn.data())};
    ASSERT_TRUE(dropout->Run(at, nullptr, queue).ok());
    EXPECT_EQ(drawn, drawn_alone);
    if (first.empty()) first = out;
    EXPECT_EQ(out, first);
  }
}

}  // namespace
}  // namespace flashacl::dropout
