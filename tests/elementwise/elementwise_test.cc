// SPDX-License-Identifier: Apache-2.0
// Computations as the runtime has them: their line, and the same bits however
// many workers there are and in whatever order they come.
#include "elementwise/elementwise.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/random.h"
#include "plan/host_queue.h"
#include "tests/testing/shuffled_workers.h"

namespace flashacl::elementwise {
namespace {

using Bytes = std::vector<std::byte>;

constexpr int64_t kRows = 70;
constexpr int64_t kColumns = 1001;

Operation Sum() {
  Operation operation;
  operation.kind = Kind::kAdd;
  operation.type = Type::kF32;
  operation.extents = {kRows, kColumns};
  operation.inputs = {{0, Type::kF16, {kColumns, 1}}, {1, Type::kF32, {0, 1}}};
  operation.out = {2, Type::kBf16, {1, kRows}};
  return operation;
}

TEST(Elementwise, SayWhatTheyCompute) {
  const auto sum = MakeElementwise(Sum());
  EXPECT_EQ(sum->name(), "elementwise/add");
  EXPECT_EQ(sum->Describe(), "f16, f32 in f32 to bf16: [70, 1001]");
  EXPECT_EQ(sum->workspace_bytes(), 0);
  Operation copy;
  copy.type = Type::kI64;
  copy.extents = {3};
  copy.inputs = {{1, Type::kU8, {1}}};
  copy.out = {0, Type::kI64, {1}};
  EXPECT_EQ(MakeElementwise(copy)->name(), "elementwise/copy");
  EXPECT_EQ(MakeElementwise(copy)->Describe(), "u8 in i64 to i64: [3]");
}

TEST(Elementwise, AreTheSameForAnyWorkers) {
  Random random(1);
  Bytes self(kRows * kColumns * 2), other(kColumns * 4);
  for (Bytes* bytes : {&self, &other}) {
    for (std::byte& byte : *bytes) {
      byte = static_cast<std::byte>(random.Within(0, 255));
    }
  }
  const auto sum = MakeElementwise(Sum());
  Bytes first;
  for (const int workers : {1, 2, 7}) {
    Bytes out(kRows * kColumns * 2);
    ShuffledWorkers shuffled(workers);
    HostQueue queue(shuffled);
    std::byte* const at[] = {self.data(), other.data(), out.data()};
    ASSERT_TRUE(sum->Run(at, nullptr, queue).ok());
    if (first.empty()) first = out;
    EXPECT_EQ(out, first);
  }
}

}  // namespace
}  // namespace flashacl::elementwise
