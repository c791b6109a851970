// SPDX-License-Identifier: Apache-2.0
// aclTensor handles: what goes in comes out, and nothing else is followed.
#include "acl/tensor.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "acl/acl.h"

namespace flashacl::acl {
namespace {

using Dims = std::vector<int64_t>;

aclTensor* Create(const Dims& dims, const Dims* strides = nullptr,
                  int64_t offset = 0, void* data = nullptr) {
  return aclCreateTensor(dims.data(), dims.size(), ACL_FLOAT16,
                         strides == nullptr ? nullptr : strides->data(), offset,
                         ACL_FORMAT_ND, dims.data(), dims.size(), data);
}

Dims TakeDims(int64_t* values, uint64_t count) {
  Dims dims(values, values + count);
  delete[] values;
  return dims;
}

// The message of the last failure, which must exist.
std::string Message() {
  const char* text = aclGetRecentErrMsg();
  EXPECT_NE(text, nullptr);
  return text == nullptr ? "" : text;
}

TEST(Tensor, AnswersWhatItWasCreatedWith) {
  const Dims dims{2, 3, 4};
  const Dims strides{100, 7, 1};
  const Dims storage{400};
  int data = 0;
  aclTensor* tensor =
      aclCreateTensor(dims.data(), 3, ACL_BF16, strides.data(), 5,
                      ACL_FORMAT_NCL, storage.data(), 1, &data);
  ASSERT_NE(tensor, nullptr);
  int64_t* values = nullptr;
  uint64_t count = 0;
  ASSERT_EQ(aclGetViewShape(tensor, &values, &count), 0);
  EXPECT_EQ(TakeDims(values, count), dims);
  ASSERT_EQ(aclGetViewStrides(tensor, &values, &count), 0);
  EXPECT_EQ(TakeDims(values, count), strides);
  ASSERT_EQ(aclGetStorageShape(tensor, &values, &count), 0);
  EXPECT_EQ(TakeDims(values, count), storage);
  int64_t offset = 0;
  EXPECT_EQ(aclGetViewOffset(tensor, &offset), 0);
  EXPECT_EQ(offset, 5);
  aclFormat format = ACL_FORMAT_ND;
  EXPECT_EQ(aclGetFormat(tensor, &format), 0);
  EXPECT_EQ(format, ACL_FORMAT_NCL);
  aclDataType type = ACL_FLOAT;
  EXPECT_EQ(aclGetDataType(tensor, &type), 0);
  EXPECT_EQ(type, ACL_BF16);
  void* address = nullptr;
  EXPECT_EQ(aclGetRawTensorAddr(tensor, &address), 0);
  EXPECT_EQ(address, &data);
  int other = 0;
  EXPECT_EQ(aclSetRawTensorAddr(tensor, &other), 0);
  EXPECT_EQ(aclGetRawTensorAddr(tensor, &address), 0);
  EXPECT_EQ(address, &other);
  EXPECT_EQ(aclDestroyTensor(tensor), 0);
}

TEST(Tensor, NullStridesMeanContiguous) {
  const Dims dims{2, 0, 3};
  aclTensor* tensor = Create(dims);
  const std::shared_ptr<Tensor> object = Find<Tensor>(tensor);
  ASSERT_NE(object, nullptr);
  EXPECT_TRUE(object->contiguous());
  EXPECT_TRUE(object->empty());
  EXPECT_EQ(ShapeText(*object), "[2, 0, 3]");
  aclDestroyTensor(tensor);

  const Dims other{2, 3, 4};
  tensor = Create(other);
  int64_t* values = nullptr;
  uint64_t count = 0;
  ASSERT_EQ(aclGetViewStrides(tensor, &values, &count), 0);
  EXPECT_EQ(TakeDims(values, count), (Dims{12, 4, 1}));
  aclDestroyTensor(tensor);
}

// Bytes are those that the runtime answers, of every type whose elements are
// whole ones.
TEST(Tensor, HasTheBytesOfItsType) {
  const Dims dims{2, 3};
  int sized = 0;
  for (int type = -1; type <= 45; ++type) {
    Tensor tensor;
    tensor.acl_dtype = static_cast<aclDataType>(type);
    tensor.rank = dims.size();
    tensor.dims = {2, 3};
    tensor.strides = {4, 1};
    const int64_t bytes = tensor.BytesOf(1);
    EXPECT_EQ(tensor.extent_bytes(), type == ACL_INT4 ? 4 : 7 * bytes) << type;
    if (bytes == 0) continue;
    EXPECT_EQ(bytes, int64_t(aclDataTypeSize(tensor.acl_dtype))) << type;
    ++sized;
  }
  EXPECT_EQ(sized, 20);
}

TEST(Tensor, RankZeroIsATensorOfOneElement) {
  aclTensor* tensor = aclCreateTensor(nullptr, 0, ACL_FLOAT, nullptr, 0,
                                      ACL_FORMAT_ND, nullptr, 0, nullptr);
  ASSERT_NE(tensor, nullptr);
  int64_t* values = nullptr;
  uint64_t count = 7;
  ASSERT_EQ(aclGetViewShape(tensor, &values, &count), 0);
  EXPECT_EQ(count, 0u);
  ASSERT_NE(values, nullptr);
  delete[] values;
  aclDestroyTensor(tensor);
}

TEST(Tensor, RefusesWhatItCannotDescribe) {
  EXPECT_EQ(aclCreateTensor(nullptr, 3, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND,
                            nullptr, 0, nullptr),
            nullptr);
  EXPECT_NE(Message().find("viewDims"), std::string::npos);
  EXPECT_EQ(Create(Dims{2, -1}), nullptr);
  EXPECT_NE(Message().find("negative"), std::string::npos);
  EXPECT_EQ(Create(Dims(9, 1)), nullptr);
  EXPECT_NE(Message().find("at most 8"), std::string::npos);
}

TEST(Tensor, NullArgumentsAre161001) {
  aclTensor* tensor = Create(Dims{1});
  int64_t* values = nullptr;
  uint64_t count = 0;
  EXPECT_EQ(aclGetViewShape(nullptr, &values, &count), 161001);
  Message();
  EXPECT_EQ(aclGetViewShape(tensor, nullptr, &count), 161001);
  Message();
  EXPECT_EQ(aclGetViewStrides(tensor, &values, nullptr), 161001);
  Message();
  EXPECT_EQ(aclGetStorageShape(tensor, nullptr, &count), 161001);
  Message();
  EXPECT_EQ(aclGetViewOffset(tensor, nullptr), 161001);
  Message();
  EXPECT_EQ(aclGetFormat(tensor, nullptr), 161001);
  Message();
  EXPECT_EQ(aclGetDataType(nullptr, nullptr), 161001);
  Message();
  EXPECT_EQ(aclSetRawTensorAddr(nullptr, nullptr), 161001);
  Message();
  EXPECT_EQ(aclGetRawTensorAddr(tensor, nullptr), 161001);
  Message();
  EXPECT_EQ(aclInitTensor(nullptr, nullptr, 0, ACL_FLOAT, nullptr, 0,
                          ACL_FORMAT_ND, nullptr, 0, nullptr),
            161001);
  Message();
  aclDestroyTensor(tensor);
}

TEST(Tensor, ADestroyedHandleIsRecognised) {
  aclTensor* tensor = Create(Dims{1});
  EXPECT_EQ(aclDestroyTensor(nullptr), 0);
  EXPECT_EQ(aclDestroyTensor(tensor), 0);
  EXPECT_EQ(aclDestroyTensor(tensor), 0);  // programs do; strict mode tells
  int64_t offset = 0;
  EXPECT_EQ(aclGetViewOffset(tensor, &offset), 161002);
  EXPECT_NE(Message().find("not a live aclTensor"), std::string::npos);
  int foreign = 0;
  EXPECT_EQ(aclDestroyTensor(reinterpret_cast<aclTensor*>(&foreign)), 161002);
  Message();
}

TEST(Tensor, HandlesAreNotRecycled) {
  std::vector<aclTensor*> before;
  for (int n = 0; n < 1000; ++n) {
    aclTensor* tensor = Create(Dims{1});
    for (const aclTensor* old : before) ASSERT_NE(old, tensor);
    before.push_back(tensor);
    aclDestroyTensor(tensor);
  }
}

TEST(Tensor, InitTensorRewritesInPlace) {
  aclTensor* tensor = Create(Dims{1});
  const Dims dims{5, 6};
  ASSERT_EQ(aclInitTensor(tensor, dims.data(), 2, ACL_INT8, nullptr, 3,
                          ACL_FORMAT_ND, dims.data(), 2, nullptr),
            0);
  const std::shared_ptr<Tensor> object = Find<Tensor>(tensor);
  EXPECT_EQ(object->dtype(), DType::kI8);
  EXPECT_EQ(object->elements(), 30);
  EXPECT_EQ(object->offset_bytes(), 3);
  aclDestroyTensor(tensor);
}

TEST(Tensor, ElementCountDoesNotOverflow) {
  const int64_t huge = int64_t{1} << 40;
  aclTensor* tensor = Create(Dims{huge, huge, huge});
  EXPECT_EQ(Find<Tensor>(tensor)->elements(), INT64_MAX);
  aclDestroyTensor(tensor);
  tensor = Create(Dims{huge, huge, 0});
  EXPECT_EQ(Find<Tensor>(tensor)->elements(), 0);
  aclDestroyTensor(tensor);
}

}  // namespace
}  // namespace flashacl::acl
