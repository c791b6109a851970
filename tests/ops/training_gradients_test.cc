// SPDX-License-Identifier: Apache-2.0
// The backward's tensors: which count as given, and which of two mistakes is
// reported.
#include "ops/training_gradients.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace flashacl::ops::backward {
namespace {

// A call's tensors, given by row; without data, as planning never looks.
class Call {
 public:
  Call() {
    for (const int row : {kQuery, kDq, kDy, kAttentionIn}) Give(row, {5, 2, 8});
    for (const int row : {kKey, kValue, kDk, kDv}) Give(row, {6, 1, 8});
  }
  ~Call() {
    for (const aclTensor* tensor : tensors_) aclDestroyTensor(tensor);
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  void Give(int row, std::vector<int64_t> dims, aclDataType type = ACL_BF16) {
    aclDestroyTensor(tensors_[static_cast<size_t>(row)]);
    tensors_[static_cast<size_t>(row)] =
        aclCreateTensor(dims.data(), dims.size(), type, nullptr, 0,
                        ACL_FORMAT_ND, dims.data(), dims.size(), nullptr);
  }
  void Rope() {
    Give(kQueryRope, {5, 2, 4});
    Give(kDqRope, {5, 2, 4});
    Give(kKeyRope, {6, 1, 4});
    Give(kDkRope, {6, 1, 4});
    Give(kAttenMask, {3, 4}, ACL_BOOL);
  }

  acl::Arguments Read() const {
    std::vector<acl::Passed> passed(tensors_.begin(), tensors_.end());
    auto read = acl::Arguments::Read(kTable, passed);
    EXPECT_TRUE(read.ok());
    return *read;
  }
  Status Check(const Scalars& scalars = {.head_num = 2}) const {
    return CheckTensors(Read(), scalars).status();
  }

 private:
  std::array<const aclTensor*, kRows> tensors_{};
};

TEST(CheckTensors, TakesWhatTheDocumentDescribes) {
  Call call;
  EXPECT_TRUE(call.Check().ok());
  call.Give(kSink, {2}, ACL_FLOAT);
  EXPECT_TRUE(call.Check().ok());
  call.Rope();
  EXPECT_TRUE(call.Check().ok()) << call.Check().message();
}

TEST(CheckTensors, ReportsTheEarlierOfTwoMistakes) {
  Call call;
  call.Give(kValue, {6, 1, 8}, ACL_FLOAT);
  call.Give(kDq, {5, 2, 9});
  EXPECT_EQ(call.Check({.head_num = 0}).message().substr(0, 7), "headNum");
  EXPECT_EQ(call.Check().message().substr(0, 5), "value");
  call.Give(kValue, {6, 1, 8});
  EXPECT_EQ(call.Check().message().substr(0, 5), "dqOut");
}

TEST(CheckTensors, ReadsDenseLayouts) {
  Call call;
  for (const int row : {kQuery, kDq, kDy, kAttentionIn}) {
    call.Give(row, {3, 5, 16});
  }
  for (const int row : {kKey, kValue, kDk, kDv}) call.Give(row, {3, 6, 8});
  const auto arguments = call.Read();
  const auto rows =
      CheckTensors(arguments, {.dense = true, .layout = "BSH", .head_num = 2});
  ASSERT_TRUE(rows.ok()) << rows.status().message();
  EXPECT_EQ(rows->of_query.dim, 8);
  EXPECT_EQ(rows->of_key.heads, 1);
  // To the letter.
  EXPECT_FALSE(
      call.Check({.dense = true, .layout = "bsh", .head_num = 2}).ok());
  EXPECT_FALSE(call.Check().ok());
}

TEST(CheckTensors, RopeNeedsItsCompanions) {
  Call call;
  call.Give(kQueryRope, {5, 2, 4});
  EXPECT_EQ(call.Check().code(), Code::kNullArgument);
  call.Rope();
  EXPECT_EQ(call.Check({.head_num = 2, .keep_prob = 0.5}).code(),
            Code::kInvalidArgument);
  EXPECT_EQ(call.Check({.head_num = 2, .sparse_mode = 6}).code(),
            Code::kInvalidArgument);
}

TEST(NothingToWrite, IsWhenAllGradientsAreEmpty) {
  Call call;
  EXPECT_FALSE(NothingToWrite(call.Read()));
  call.Give(kDq, {0, 2, 8});
  call.Give(kDk, {0, 1, 8});
  EXPECT_FALSE(NothingToWrite(call.Read()));
  call.Give(kDv, {0, 1, 8});
  EXPECT_TRUE(NothingToWrite(call.Read()));
  call.Give(kDsink, {2}, ACL_FLOAT);  // without sink not written
  EXPECT_TRUE(NothingToWrite(call.Read()));
  call.Give(kSink, {2}, ACL_FLOAT);
  EXPECT_FALSE(NothingToWrite(call.Read()));
  call.Give(kSink, {0}, ACL_FLOAT);
  call.Give(kDpse, {4});
  EXPECT_FALSE(NothingToWrite(call.Read()));
}

// dpse may be anything at all.
TEST(Table, TakesAnyTypeOfPseGradient) {
  Call call;
  call.Give(kDpse, {4}, ACL_COMPLEX64);
  EXPECT_TRUE(call.Check().ok());
}

}  // namespace
}  // namespace flashacl::ops::backward
