// SPDX-License-Identifier: Apache-2.0
// aclTensorDesc keeps what it is given, shows the origin, and refuses what it
// should in the order that the headers say.
#include "acl/single_op/tensor_desc.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

#include "acl/acl.h"
#include "tests/acl/single_op/handles.h"
#include "tests/testing/runtime.h"

namespace flashacl::acl {
namespace {

using ::flashacl::testing::BadHandles;
using ::flashacl::testing::FailsWith;
using ::flashacl::testing::Message;
using ::flashacl::testing::Succeeds;

class SingleOpTensorDesc : public ::testing::Test {
 protected:
  void SetUp() override {
    Message();
    const int64_t dims[] = {2, 3, 4};
    desc_ = aclCreateTensorDesc(ACL_FLOAT16, 3, dims, ACL_FORMAT_NCHW);
    ASSERT_NE(desc_, nullptr);
  }
  void TearDown() override { aclDestroyTensorDesc(desc_); }

  // Behind the handle.
  TensorDesc& Inside() { return *Find<TensorDesc>(desc_); }

  // The message of a call that answers by a value alone.
  void ExpectMessage(const std::string& part) {
    EXPECT_NE(Message().find(part), std::string::npos) << part;
  }

  std::vector<aclTensorDesc*> Bad() {
    aclTensorDesc* stale =
        aclCreateTensorDesc(ACL_FLOAT, 0, nullptr, ACL_FORMAT_ND);
    aclDestroyTensorDesc(stale);
    return BadHandles(stale, aclCreateDataBuffer(nullptr, 0));
  }

  aclTensorDesc* desc_ = nullptr;
};

TEST_F(SingleOpTensorDesc, ShowsWhatItWasMadeOf) {
  EXPECT_EQ(aclGetTensorDescType(desc_), ACL_FLOAT16);
  EXPECT_EQ(aclGetTensorDescFormat(desc_), ACL_FORMAT_NCHW);
  EXPECT_EQ(aclGetTensorDescNumDims(desc_), 3u);
  EXPECT_EQ(aclGetTensorDescElementCount(desc_), 24u);
  EXPECT_EQ(aclGetTensorDescSize(desc_), 48u);
  EXPECT_EQ(aclGetTensorDescDim(desc_, 2), 4);
  int64_t dim = 0;
  EXPECT_TRUE(Succeeds(aclGetTensorDescDimV2(desc_, 1, &dim)));
  EXPECT_EQ(dim, 3);
  EXPECT_STREQ(aclGetTensorDescName(desc_), "");
  EXPECT_EQ(aclGetTensorDescByIndex(desc_, 0), desc_);
  EXPECT_EQ(aclGetTensorDescAddress(desc_), nullptr);
  EXPECT_EQ(Message(), "");
}

TEST_F(SingleOpTensorDesc, CountsElements) {
  struct Case {
    std::vector<int64_t> dims;
    int type;
    size_t count, size;
  };
  const int64_t half = int64_t{1} << 62;
  for (const Case& c : std::vector<Case>{
           {{}, ACL_INT32, 1, 4},
           {{5}, ACL_BF16, 5, 10},
           {{5, 0}, ACL_BF16, 0, 0},
           {{5, -1}, ACL_BF16, 0, 0},
           {{-2}, ACL_BF16, 0, 0},
           {{half, 4}, ACL_INT8, 0, 0},
           {{half, 3}, ACL_INT32, size_t{3} << 62, 0},
           {{half + 1}, ACL_INT32, (size_t{1} << 62) + 1, 0},
           {{7}, ACL_STRING, 7, 0},
           {{7}, 1234, 7, 56},
       }) {
    aclTensorDesc* desc = aclCreateTensorDesc(static_cast<aclDataType>(c.type),
                                              static_cast<int>(c.dims.size()),
                                              c.dims.data(), ACL_FORMAT_ND);
    ASSERT_NE(desc, nullptr);
    EXPECT_EQ(aclGetTensorDescElementCount(desc), c.count);
    EXPECT_EQ(aclGetTensorDescSize(desc), c.size);
    aclDestroyTensorDesc(desc);
  }
}

TEST_F(SingleOpTensorDesc, TellsAnUnknownRank) {
  const int64_t dims[] = {-2};
  EXPECT_TRUE(Succeeds(aclSetTensorOriginShape(desc_, 1, dims)));
  EXPECT_EQ(aclGetTensorDescNumDims(desc_), ACL_UNKNOWN_RANK);
}

TEST_F(SingleOpTensorDesc, IsNotMadeOfNonsense) {
  const int64_t dims[] = {2};
  EXPECT_EQ(aclCreateTensorDesc(ACL_FLOAT, -1, dims, ACL_FORMAT_ND), nullptr);
  ExpectMessage("numDims");
  EXPECT_EQ(aclCreateTensorDesc(ACL_FLOAT, 1, nullptr, ACL_FORMAT_ND), nullptr);
  ExpectMessage("dims");
  aclDestroyTensorDesc(nullptr);
  EXPECT_EQ(Message(), "");
}

TEST_F(SingleOpTensorDesc, KeepsOriginAndStorageApart) {
  const int64_t one[] = {24};
  const int64_t two[] = {4, 6};
  EXPECT_TRUE(Succeeds(aclSetTensorFormat(desc_, ACL_FORMAT_FRACTAL_NZ)));
  EXPECT_TRUE(Succeeds(aclSetTensorShape(desc_, 1, one)));
  EXPECT_EQ(Inside().storage.format, ACL_FORMAT_FRACTAL_NZ);
  EXPECT_EQ(Inside().storage.dims, (std::vector<int64_t>{24}));
  EXPECT_EQ(aclGetTensorDescFormat(desc_), ACL_FORMAT_NCHW);
  EXPECT_EQ(aclGetTensorDescNumDims(desc_), 3u);

  EXPECT_TRUE(Succeeds(aclSetTensorStorageFormat(desc_, ACL_FORMAT_NHWC)));
  EXPECT_TRUE(Succeeds(aclSetTensorStorageShape(desc_, 2, two)));
  EXPECT_EQ(Inside().storage.format, ACL_FORMAT_NHWC);
  EXPECT_EQ(Inside().storage.dims, (std::vector<int64_t>{4, 6}));

  EXPECT_TRUE(Succeeds(aclSetTensorOriginFormat(desc_, ACL_FORMAT_ND)));
  EXPECT_TRUE(Succeeds(aclSetTensorOriginShape(desc_, 1, one)));
  EXPECT_EQ(aclGetTensorDescFormat(desc_), ACL_FORMAT_ND);
  EXPECT_EQ(aclGetTensorDescDim(desc_, 0), 24);
  EXPECT_EQ(Inside().storage.dims, (std::vector<int64_t>{4, 6}));
}

TEST_F(SingleOpTensorDesc, ChecksShapes) {
  const int64_t dims[] = {2};
  for (auto* set : {&aclSetTensorShape, &aclSetTensorStorageShape,
                    &aclSetTensorOriginShape}) {
    EXPECT_TRUE(FailsWith(100000, set(nullptr, -1, nullptr), "desc"));
    EXPECT_TRUE(FailsWith(100000, set(desc_, -1, nullptr), "numDims"));
    EXPECT_TRUE(FailsWith(100000, set(desc_, 0, nullptr), "dims"));
    EXPECT_TRUE(FailsWith(100000, set(desc_, 1, nullptr), "dims"));
    EXPECT_TRUE(Succeeds(set(desc_, 0, dims)));
  }
  EXPECT_EQ(aclGetTensorDescNumDims(desc_), 0u);
}

TEST_F(SingleOpTensorDesc, KeepsRanges) {
  int64_t ranges[][2] = {{1, 8}, {-1, 4}};
  int64_t read[] = {0, 0};
  EXPECT_TRUE(
      FailsWith(100000, aclGetTensorDescDimRange(desc_, 0, 2, read), "index"));
  EXPECT_TRUE(Succeeds(aclSetTensorShapeRange(desc_, 2, ranges)));
  EXPECT_TRUE(Succeeds(aclGetTensorDescDimRange(desc_, 1, 2, read)));
  EXPECT_EQ(read[0], -1);
  EXPECT_EQ(read[1], 4);
  EXPECT_TRUE(FailsWith(100000, aclGetTensorDescDimRange(desc_, 2, 0, nullptr),
                        "dimRange"));
  EXPECT_TRUE(
      FailsWith(100000, aclGetTensorDescDimRange(desc_, 2, 0, read), "index"));
  EXPECT_TRUE(FailsWith(100000, aclGetTensorDescDimRange(desc_, 1, 1, read),
                        "dimRangeNum"));

  EXPECT_TRUE(Succeeds(aclSetTensorShapeRange(desc_, 1, ranges)));
  EXPECT_TRUE(FailsWith(100000, aclGetTensorDescDimRange(desc_, 1, 2, read)));
  EXPECT_TRUE(FailsWith(100000, aclSetTensorShapeRange(desc_, 1, nullptr),
                        "dimsRange"));
  EXPECT_TRUE(Succeeds(aclSetTensorShapeRange(desc_, 0, nullptr)));

  EXPECT_TRUE(Succeeds(aclSetTensorValueRange(desc_, 2, ranges)));
  EXPECT_EQ(Inside().value_ranges.size(), 2u);
  EXPECT_TRUE(FailsWith(100000, aclSetTensorValueRange(desc_, 1, nullptr),
                        "valueRange"));
}

TEST_F(SingleOpTensorDesc, KeepsName) {
  char name[] = "query";
  aclSetTensorDescName(desc_, name);
  name[0] = 'Q';
  EXPECT_STREQ(aclGetTensorDescName(desc_), "query");
  aclSetTensorDescName(desc_, nullptr);
  EXPECT_STREQ(aclGetTensorDescName(desc_), "");
  EXPECT_EQ(Message(), "");
  aclSetTensorDescName(nullptr, "x");
  EXPECT_EQ(Message(), "");
}

TEST_F(SingleOpTensorDesc, KeepsWhereItLies) {
  for (const aclMemType type : {ACL_MEMTYPE_DEVICE, ACL_MEMTYPE_HOST,
                                ACL_MEMTYPE_HOST_COMPILE_INDEPENDENT}) {
    EXPECT_TRUE(Succeeds(aclSetTensorPlaceMent(desc_, type)));
    EXPECT_EQ(Inside().placement, type);
  }
  EXPECT_TRUE(FailsWith(
      100000, aclSetTensorPlaceMent(desc_, static_cast<aclMemType>(3)),
      "memType"));
}

TEST_F(SingleOpTensorDesc, CopiesConstants) {
  int32_t data[] = {7, 8};
  EXPECT_TRUE(Succeeds(aclSetTensorConst(desc_, data, sizeof data)));
  data[0] = 9;
  int32_t kept = 0;
  ASSERT_EQ(Inside().constant.size(), sizeof data);
  std::memcpy(&kept, Inside().constant.data(), sizeof kept);
  EXPECT_EQ(kept, 7);
  EXPECT_TRUE(
      FailsWith(100000, aclSetTensorConst(desc_, nullptr, 0), "dataBuffer"));
  EXPECT_TRUE(FailsWith(100000, aclSetTensorConst(desc_, data, 0), "length"));

  EXPECT_TRUE(Succeeds(aclSetTensorDynamicInput(desc_, "values")));
  EXPECT_EQ(Inside().dynamic_input, "values");
  EXPECT_TRUE(FailsWith(100000, aclSetTensorDynamicInput(desc_, nullptr),
                        "dynamicInputName"));
}

TEST_F(SingleOpTensorDesc, RefusesPlacesThatAreNot) {
  int64_t dim = 5;
  EXPECT_TRUE(
      FailsWith(100000, aclGetTensorDescDimV2(desc_, 3, nullptr), "dimSize"));
  EXPECT_TRUE(
      FailsWith(100000, aclGetTensorDescDimV2(desc_, 3, &dim), "index"));
  EXPECT_EQ(dim, 5);
  EXPECT_EQ(aclGetTensorDescDim(desc_, 3), -1);
  ExpectMessage("aclGetTensorDescDim");
  EXPECT_EQ(aclGetTensorDescByIndex(desc_, 1), nullptr);
  ExpectMessage("index");
  aclTensorDesc* made = nullptr;
  EXPECT_TRUE(FailsWith(100000,
                        aclTransTensorDescFormat(desc_, ACL_FORMAT_ND, nullptr),
                        "dstDesc"));
  EXPECT_TRUE(
      FailsWith(200001, aclTransTensorDescFormat(desc_, ACL_FORMAT_ND, &made)));
  EXPECT_EQ(made, nullptr);
}

TEST_F(SingleOpTensorDesc, FormatsOfNullAreNoError) {
  for (auto* set : {&aclSetTensorFormat, &aclSetTensorStorageFormat,
                    &aclSetTensorOriginFormat}) {
    EXPECT_EQ(set(nullptr, ACL_FORMAT_ND), 0);
    EXPECT_EQ(Message(), "");
  }
}

TEST_F(SingleOpTensorDesc, RefusesBadHandles) {
  const int64_t dims[] = {2};
  int64_t ranges[][2] = {{1, 8}};
  int64_t number = 0;
  aclTensorDesc* made = nullptr;
  int data = 0;
  for (aclTensorDesc* bad : Bad()) {
    for (const int status :
         {aclSetTensorShape(bad, 1, dims),
          aclSetTensorStorageShape(bad, 1, dims),
          aclSetTensorOriginShape(bad, 1, dims),
          aclSetTensorShapeRange(bad, 1, ranges),
          aclSetTensorValueRange(bad, 1, ranges),
          aclSetTensorPlaceMent(bad, ACL_MEMTYPE_HOST),
          aclSetTensorConst(bad, &data, 1), aclSetTensorDynamicInput(bad, "x"),
          aclGetTensorDescDimV2(bad, 0, &number),
          aclGetTensorDescDimRange(bad, 0, 2, &number),
          aclTransTensorDescFormat(bad, ACL_FORMAT_ND, &made)}) {
      EXPECT_EQ(status, 100000);
    }
    ExpectMessage("esc");
    const auto quiet = [&](bool same) {
      EXPECT_TRUE(same);
      ExpectMessage("desc");
    };
    quiet(aclGetTensorDescType(bad) == ACL_DT_UNDEFINED);
    quiet(aclGetTensorDescFormat(bad) == ACL_FORMAT_UNDEFINED);
    quiet(aclGetTensorDescSize(bad) == 0);
    quiet(aclGetTensorDescElementCount(bad) == 0);
    quiet(aclGetTensorDescNumDims(bad) == 0);
    quiet(aclGetTensorDescDim(bad, 0) == -1);
    quiet(std::strcmp(aclGetTensorDescName(bad), "") == 0);
    quiet(aclGetTensorDescByIndex(bad, 0) == nullptr);
    quiet(aclGetTensorDescAddress(bad) == nullptr);
    if (bad == nullptr) continue;
    EXPECT_TRUE(FailsWith(100000, aclSetTensorFormat(bad, ACL_FORMAT_ND)));
    aclSetTensorDescName(bad, "x");
    ExpectMessage("desc");
    aclDestroyTensorDesc(bad);
    ExpectMessage("tensor description");
  }
}

// One description for each thread, and one that all of them read.
TEST_F(SingleOpTensorDesc, ServesThreads) {
  std::vector<std::thread> threads;
  for (int64_t n = 1; n <= 4; ++n) {
    threads.emplace_back([this, n] {
      for (int i = 0; i < 200; ++i) {
        aclTensorDesc* own =
            aclCreateTensorDesc(ACL_FLOAT, 1, &n, ACL_FORMAT_ND);
        EXPECT_EQ(aclGetTensorDescSize(own), static_cast<size_t>(4 * n));
        EXPECT_EQ(aclGetTensorDescSize(desc_), 48u);
        aclDestroyTensorDesc(own);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace flashacl::acl
