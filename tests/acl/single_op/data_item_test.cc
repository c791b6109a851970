// SPDX-License-Identifier: Apache-2.0
// Data items keep what they are made of, datasets their order; channels are not
// there.
#include "acl/single_op/data_item.h"

#include <gtest/gtest.h>

#include "acl/acl.h"
#include "tests/acl/single_op/handles.h"
#include "tests/testing/runtime.h"

namespace flashacl::acl {
namespace {

using ::flashacl::testing::BadHandles;
using ::flashacl::testing::FailsWith;
using ::flashacl::testing::Message;
using ::flashacl::testing::Succeeds;

TEST(SingleOpDataItem, KeepsWhatItIsMadeOf) {
  int64_t dims[] = {2, 3};
  int data = 0;
  acltdtDataItem* item = acltdtCreateDataItem(ACL_TENSOR_DATA_TENSOR, dims, 2,
                                              ACL_INT32, &data, 24);
  ASSERT_NE(item, nullptr);
  dims[0] = 7;
  EXPECT_EQ(acltdtGetTensorTypeFromItem(item), ACL_TENSOR_DATA_TENSOR);
  EXPECT_EQ(acltdtGetDataTypeFromItem(item), ACL_INT32);
  EXPECT_EQ(acltdtGetDataAddrFromItem(item), &data);
  EXPECT_EQ(acltdtGetDataSizeFromItem(item), 24u);
  EXPECT_EQ(acltdtGetDimNumFromItem(item), 2u);
  int64_t read[] = {0, 0, -5};
  EXPECT_TRUE(Succeeds(acltdtGetDimsFromItem(item, read, 3)));
  EXPECT_EQ(read[0], 2);
  EXPECT_EQ(read[1], 3);
  EXPECT_EQ(read[2], -5);
  size_t slices = 7, slice = 7;
  EXPECT_TRUE(Succeeds(acltdtGetSliceInfoFromItem(item, &slices, &slice)));
  EXPECT_EQ(slices, 0u);
  EXPECT_EQ(slice, 0u);
  EXPECT_TRUE(Succeeds(acltdtDestroyDataItem(item)));
}

TEST(SingleOpDataItem, MayBeEmpty) {
  acltdtDataItem* item =
      acltdtCreateDataItem(ACL_TENSOR_DATA_END_OF_SEQUENCE, nullptr, 0,
                           ACL_DT_UNDEFINED, nullptr, 0);
  ASSERT_NE(item, nullptr);
  EXPECT_EQ(acltdtGetDimNumFromItem(item), 0u);
  EXPECT_TRUE(Succeeds(acltdtGetDimsFromItem(item, nullptr, 0)));
  EXPECT_TRUE(Succeeds(acltdtDestroyDataItem(item)));
}

TEST(SingleOpDataItem, IsNotMadeOfNonsense) {
  const int64_t dims[] = {1};
  struct Case {
    acltdtTensorType kind;
    const int64_t* dims;
    size_t count;
    const char* part;
  };
  for (const Case& c :
       {Case{ACL_TENSOR_DATA_TENSOR, nullptr, 1, "dims"},
        Case{ACL_TENSOR_DATA_TENSOR, dims, 0, "dimNum"},
        Case{static_cast<acltdtTensorType>(5), dims, 1, "tdtType"},
        Case{static_cast<acltdtTensorType>(-2), dims, 1, "tdtType"}}) {
    Message();
    EXPECT_EQ(
        acltdtCreateDataItem(c.kind, c.dims, c.count, ACL_INT8, nullptr, 0),
        nullptr);
    EXPECT_NE(Message().find(c.part), std::string::npos) << c.part;
  }
}

TEST(SingleOpDataItem, ChecksWhereDimsGo) {
  const int64_t dims[] = {2, 3};
  int64_t read[] = {-5, -5};
  acltdtDataItem* item = acltdtCreateDataItem(ACL_TENSOR_DATA_TENSOR, dims, 2,
                                              ACL_INT32, nullptr, 0);
  EXPECT_TRUE(FailsWith(100000, acltdtGetDimsFromItem(nullptr, nullptr, 2),
                        "dataItem"));
  EXPECT_TRUE(
      FailsWith(100000, acltdtGetDimsFromItem(item, nullptr, 2), "dims"));
  EXPECT_TRUE(
      FailsWith(100000, acltdtGetDimsFromItem(item, read, 0), "dimNum"));
  EXPECT_TRUE(
      FailsWith(100000, acltdtGetDimsFromItem(item, read, 1), "dimNum"));
  EXPECT_TRUE(
      FailsWith(100000, acltdtGetDimsFromItem(item, nullptr, 0), "dimNum"));
  EXPECT_EQ(read[0], -5);
  size_t number = 0;
  EXPECT_TRUE(FailsWith(
      100000, acltdtGetSliceInfoFromItem(item, nullptr, nullptr), "sliceNum"));
  EXPECT_TRUE(FailsWith(
      100000, acltdtGetSliceInfoFromItem(item, &number, nullptr), "sliceId"));
  EXPECT_TRUE(Succeeds(acltdtDestroyDataItem(item)));
}

TEST(SingleOpDataItem, RefusesBadHandles) {
  Message();
  acltdtDataItem* stale = acltdtCreateDataItem(ACL_TENSOR_DATA_TENSOR, nullptr,
                                               0, ACL_INT8, nullptr, 0);
  EXPECT_TRUE(Succeeds(acltdtDestroyDataItem(stale)));
  acltdtDataset* dataset = acltdtCreateDataset();
  size_t number = 0;
  for (acltdtDataItem* bad : BadHandles(stale, dataset)) {
    const auto quiet = [](bool same) {
      EXPECT_TRUE(same);
      EXPECT_NE(Message().find("dataItem"), std::string::npos);
    };
    quiet(acltdtGetTensorTypeFromItem(bad) == ACL_TENSOR_DATA_UNDEFINED);
    quiet(acltdtGetDataTypeFromItem(bad) == ACL_DT_UNDEFINED);
    quiet(acltdtGetDataAddrFromItem(bad) == nullptr);
    quiet(acltdtGetDataSizeFromItem(bad) == 0);
    quiet(acltdtGetDimNumFromItem(bad) == 0);
    EXPECT_TRUE(FailsWith(100000, acltdtGetDimsFromItem(bad, nullptr, 0)));
    EXPECT_TRUE(
        FailsWith(100000, acltdtGetSliceInfoFromItem(bad, &number, &number)));
    EXPECT_TRUE(FailsWith(100000, acltdtAddDataItem(dataset, bad), "dataItem"));
    EXPECT_TRUE(FailsWith(100000, acltdtDestroyDataItem(bad), "dataItem"));
  }
  EXPECT_EQ(acltdtGetDatasetSize(dataset), 0u);
  EXPECT_TRUE(Succeeds(acltdtDestroyDataset(dataset)));
}

TEST(SingleOpDataset, KeepsItemsInOrder) {
  acltdtDataset* dataset = acltdtCreateDataset();
  ASSERT_NE(dataset, nullptr);
  EXPECT_STREQ(acltdtGetDatasetName(dataset), "");
  acltdtDataItem* items[3];
  for (acltdtDataItem*& item : items) {
    item = acltdtCreateDataItem(ACL_TENSOR_DATA_TENSOR, nullptr, 0, ACL_INT8,
                                nullptr, 0);
    EXPECT_TRUE(Succeeds(acltdtAddDataItem(dataset, item)));
  }
  EXPECT_EQ(acltdtGetDatasetSize(dataset), 3u);
  for (size_t n = 0; n < 3; ++n) {
    EXPECT_EQ(acltdtGetDataItem(dataset, n), items[n]);
  }
  EXPECT_EQ(Message(), "");
  EXPECT_EQ(acltdtGetDataItem(dataset, 3), nullptr);
  EXPECT_NE(Message().find("index"), std::string::npos);
  // The items are not the dataset's.
  EXPECT_TRUE(Succeeds(acltdtDestroyDataset(dataset)));
  for (acltdtDataItem* item : items) {
    EXPECT_TRUE(Succeeds(acltdtDestroyDataItem(item)));
  }
}

TEST(SingleOpDataset, RefusesBadHandles) {
  Message();
  acltdtDataset* stale = acltdtCreateDataset();
  EXPECT_TRUE(Succeeds(acltdtDestroyDataset(stale)));
  acltdtDataItem* item = acltdtCreateDataItem(ACL_TENSOR_DATA_TENSOR, nullptr,
                                              0, ACL_INT8, nullptr, 0);
  for (acltdtDataset* bad : BadHandles(stale, item)) {
    const auto quiet = [](bool same) {
      EXPECT_TRUE(same);
      EXPECT_NE(Message().find("dataset"), std::string::npos);
    };
    quiet(acltdtGetDatasetSize(bad) == 0);
    quiet(acltdtGetDatasetName(bad) == nullptr);
    quiet(acltdtGetDataItem(bad, 0) == nullptr);
    EXPECT_TRUE(FailsWith(100000, acltdtAddDataItem(bad, nullptr), "dataset"));
    EXPECT_TRUE(FailsWith(100000, acltdtDestroyDataset(bad), "dataset"));
  }
  EXPECT_TRUE(Succeeds(acltdtDestroyDataItem(item)));
}

TEST(SingleOpDataset, HasNoChannel) {
  EXPECT_EQ(acltdtCreateChannel(0, "x"), nullptr);
  EXPECT_NE(Message().find("acltdtCreateChannel is not supported"),
            std::string::npos);
  EXPECT_TRUE(FailsWith(207000, acltdtSendTensor(nullptr, nullptr, 0)));
  EXPECT_TRUE(FailsWith(207000, acltdtReceiveTensor(nullptr, nullptr, 0)));
}

}  // namespace
}  // namespace flashacl::acl
