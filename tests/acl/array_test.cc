// SPDX-License-Identifier: Apache-2.0
// Arrays and scalars copy; lists own their members' destruction.
#include "acl/array.h"

#include <gtest/gtest.h>

#include <memory>

#include "acl/acl.h"
#include "acl/tensor.h"
#include "aclnn/aclnn_base.h"

namespace flashacl::acl {
namespace {

aclTensor* OneElement() {
  const int64_t dim = 1;
  return aclCreateTensor(&dim, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, &dim, 1,
                         nullptr);
}

TEST(Array, CopiesItsValues) {
  int64_t values[] = {3, -4, 5};
  aclIntArray* array = aclCreateIntArray(values, 3);
  values[0] = 99;
  EXPECT_EQ(Find<IntArray>(array)->values, (std::vector<int64_t>{3, -4, 5}));
  uint64_t size = 0;
  EXPECT_EQ(aclGetIntArraySize(array, &size), 0);
  EXPECT_EQ(size, 3u);
  EXPECT_EQ(aclDestroyIntArray(array), 0);
  EXPECT_EQ(aclGetIntArraySize(array, &size), 161002);
  EXPECT_NE(aclGetRecentErrMsg(), nullptr);
}

TEST(Array, FloatsAndBools) {
  const float floats[] = {1.5f};
  aclFloatArray* reals = aclCreateFloatArray(floats, 1);
  const bool bools[] = {true, false};
  aclBoolArray* flags = aclCreateBoolArray(bools, 2);
  uint64_t size = 0;
  EXPECT_EQ(aclGetFloatArraySize(reals, &size), 0);
  EXPECT_EQ(size, 1u);
  EXPECT_EQ(aclGetBoolArraySize(flags, &size), 0);
  EXPECT_EQ(size, 2u);
  EXPECT_EQ(Find<BoolArray>(flags)->values[0], 1);
  EXPECT_EQ(aclDestroyFloatArray(reals), 0);
  EXPECT_EQ(aclDestroyBoolArray(flags), 0);
}

TEST(Array, SizeZeroIsAnArray) {
  aclIntArray* array = aclCreateIntArray(nullptr, 0);
  ASSERT_NE(array, nullptr);
  uint64_t size = 9;
  EXPECT_EQ(aclGetIntArraySize(array, &size), 0);
  EXPECT_EQ(size, 0u);
  aclDestroyIntArray(array);
}

TEST(Array, NullsAreReported) {
  EXPECT_EQ(aclCreateIntArray(nullptr, 2), nullptr);
  EXPECT_NE(aclGetRecentErrMsg(), nullptr);
  uint64_t size = 0;
  EXPECT_EQ(aclGetIntArraySize(nullptr, &size), 161001);
  EXPECT_NE(aclGetRecentErrMsg(), nullptr);
  EXPECT_EQ(aclDestroyIntArray(nullptr), 0);
  EXPECT_EQ(aclDestroyFloatArray(nullptr), 0);
  EXPECT_EQ(aclDestroyBoolArray(nullptr), 0);
  EXPECT_EQ(aclDestroyScalar(nullptr), 0);
  EXPECT_EQ(aclDestroyTensorList(nullptr), 0);
  EXPECT_EQ(aclDestroyScalarList(nullptr), 0);
  EXPECT_EQ(aclCreateScalar(nullptr, ACL_FLOAT), nullptr);
  EXPECT_NE(aclGetRecentErrMsg(), nullptr);
}

TEST(Array, MoreThanMemoryHasIsReported) {
  const int64_t one = 1;
  for (const int bits : {60, 61, 62, 63}) {
    EXPECT_EQ(aclCreateIntArray(&one, uint64_t{1} << bits), nullptr) << bits;
    EXPECT_NE(aclGetRecentErrMsg(), nullptr) << bits;
  }
}

TEST(Scalar, CopiesItsValue) {
  double value = 2.5;
  aclScalar* scalar = aclCreateScalar(&value, ACL_DOUBLE);
  value = 0;
  const std::shared_ptr<Scalar> object = Find<Scalar>(scalar);
  ASSERT_EQ(object->bytes.size(), sizeof(double));
  EXPECT_EQ(aclDestroyScalar(scalar), 0);
}

TEST(Scalar, ReadsNoMoreThanTheTypeTakes) {
  const auto value = std::make_unique<uint8_t>(uint8_t{7});
  for (const int type : {38, 39, 40, 41, 60}) {
    aclScalar* scalar =
        aclCreateScalar(value.get(), static_cast<aclDataType>(type));
    EXPECT_LE(Find<Scalar>(scalar)->bytes.size(), 1u) << type;
    EXPECT_EQ(aclDestroyScalar(scalar), 0);
  }
}

TEST(List, DestroysItsMembers) {
  const aclTensor* members[] = {OneElement(), nullptr, OneElement()};
  aclTensorList* list = aclCreateTensorList(members, 3);
  uint64_t size = 0;
  EXPECT_EQ(aclGetTensorListSize(list, &size), 0);
  EXPECT_EQ(size, 3u);
  EXPECT_EQ(aclDestroyTensorList(list), 0);
  EXPECT_EQ(Find<Tensor>(members[0]), nullptr);
  EXPECT_EQ(Find<Tensor>(members[2]), nullptr);
  EXPECT_EQ(aclDestroyTensor(members[0]), 0);  // again, as programs do
}

TEST(List, MembersMayGoFirst) {
  const aclTensor* members[] = {OneElement()};
  aclTensorList* list = aclCreateTensorList(members, 1);
  EXPECT_EQ(aclDestroyTensor(members[0]), 0);
  const aclTensor* innocent = OneElement();
  EXPECT_EQ(aclDestroyTensorList(list), 0);
  EXPECT_NE(Find<Tensor>(innocent), nullptr);
  aclDestroyTensor(innocent);
}

TEST(List, OfScalars) {
  float value = 1;
  const aclScalar* members[] = {aclCreateScalar(&value, ACL_FLOAT)};
  aclScalarList* list = aclCreateScalarList(members, 1);
  uint64_t size = 0;
  EXPECT_EQ(aclGetScalarListSize(list, &size), 0);
  EXPECT_EQ(size, 1u);
  EXPECT_EQ(aclDestroyScalarList(list), 0);
  EXPECT_EQ(Find<Scalar>(members[0]), nullptr);
}

TEST(Base, InitFinalizeAndDumpNeedNothing) {
  EXPECT_EQ(aclnnInit(nullptr), 0);
  EXPECT_EQ(aclnnInit("/no/such/file"), 0);
  EXPECT_EQ(aclnnFinalize(), 0);
  EXPECT_EQ(aclDumpOpTensors("type", "name", nullptr, 0, 0, nullptr), 0);
}

}  // namespace
}  // namespace flashacl::acl
