// SPDX-License-Identifier: Apache-2.0
// aclnnAdd and aclnnInplaceAdd: values by hand, and the life of an executor
// that is no plan of attention. Refusals and random calls are in
// elementwise_test.cc.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "aclnnop/aclnn_add.h"
#include "tests/testing/elementwise_call.h"

namespace flashacl::testing {
namespace {

using Values = std::vector<double>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

class AddTest : public RuntimeTest {
 protected:
  // self + alpha * other as `type`, all of the same shape.
  static Values Sum(aclDataType type, const ElementTensor& self,
                    const ElementTensor& other, ScalarArgument alpha) {
    ElementTensor out(type, self.form().dims);
    EXPECT_TRUE(
        ElementwiseCall({"aclnnAdd", {&self, &other, &out}, {alpha}}).Run());
    return out.Values();
  }
};

TEST_F(AddTest, TheDocumentsExample) {
  ElementTensor self(ACL_FLOAT, {2, 2}, {1, 2, 3, 4});
  const ElementTensor other(ACL_FLOAT, {2}, {10, 20});
  const ElementTensor out(ACL_FLOAT, {2, 2});
  const ScalarArgument half{ACL_FLOAT, 0.5};
  EXPECT_TRUE(
      ElementwiseCall({"aclnnAdd", {&self, &other, &out}, {half}}).Run());
  EXPECT_EQ(out.Values(), (Values{6, 12, 8, 14}));
  EXPECT_TRUE(
      ElementwiseCall({"aclnnInplaceAdd", {&self, &other}, {half}}).Run());
  EXPECT_EQ(self.Values(), (Values{6, 12, 8, 14}));
}

TEST_F(AddTest, IntegersWrap) {
  const ElementTensor bytes(ACL_INT8, {3}, {127, -128, 100});
  EXPECT_EQ(Sum(ACL_INT8, bytes, bytes, {ACL_INT64, 1}), (Values{-2, 0, -56}));
  EXPECT_EQ(Sum(ACL_INT8, bytes, bytes, {ACL_INT64, 257}),
            (Values{-2, 0, -56}));
  const ElementTensor shorts(ACL_INT16, {2}, {32767, -32768});
  EXPECT_EQ(Sum(ACL_INT16, shorts, shorts, {ACL_INT64, 32767}),
            (Values{-32768, 0}));
  const ElementTensor ints(ACL_INT32, {2}, {2147483647.0, -2147483648.0});
  EXPECT_EQ(Sum(ACL_INT32, ints, ints, {ACL_INT32, 2}),
            (Values{2147483645.0, -2147483648.0}));
}

TEST_F(AddTest, BoolsAreOr) {
  const ElementTensor a(ACL_BOOL, {4}, {0, 0, 1, 1}),
      b(ACL_BOOL, {4}, {0, 1, 0, 1});
  EXPECT_EQ(Sum(ACL_BOOL, a, b, {ACL_BOOL, 1}), (Values{0, 1, 1, 1}));
  EXPECT_EQ(Sum(ACL_BOOL, a, b, {ACL_INT64, 3}), (Values{0, 1, 1, 1}));
  EXPECT_EQ(Sum(ACL_BOOL, a, b, {ACL_BOOL, 0}), a.Values());
  EXPECT_EQ(Sum(ACL_FLOAT, a, b, {ACL_BOOL, 1}), (Values{0, 1, 1, 1}));
}

// A byte that is neither 0 nor 1 is true, and is written as 1.
TEST_F(AddTest, AnyByteIsABool) {
  ElementTensor a(ACL_BOOL, {2}), b(ACL_BOOL, {2}), out(ACL_BOOL, {2});
  a.data()[0] = std::byte{2};
  b.data()[0] = std::byte{1};
  a.data()[1] = b.data()[1] = std::byte{0};
  EXPECT_TRUE(ElementwiseCall({"aclnnMul", {&a, &b, &out}}).Run());
  EXPECT_EQ(out.Image(), (std::vector{std::byte{1}, std::byte{0}}));
  EXPECT_TRUE(
      ElementwiseCall({"aclnnAdd", {&a, &a, &out}, {{ACL_BOOL}}}).Run());
  EXPECT_EQ(out.Image(), (std::vector{std::byte{1}, std::byte{0}}));
}

// 2048 + 1 is a tie of halves, and 2048 + 1.5 is not; a half of the product
// would be.
TEST_F(AddTest, HalvesRoundOnce) {
  const ElementTensor self(ACL_FLOAT16, {2}, {2048, 2048});
  const ElementTensor other(ACL_FLOAT16, {2}, {1, 1});
  EXPECT_EQ(Sum(ACL_FLOAT16, self, other, {ACL_FLOAT, 1}),
            (Values{2048, 2048}));
  EXPECT_EQ(Sum(ACL_FLOAT16, self, other, {ACL_DOUBLE, 1.00048828125}),
            (Values{2050, 2050}));
  // The sum is of FLOAT16, whatever out is.
  EXPECT_EQ(Sum(ACL_FLOAT, self, other, {ACL_FLOAT, 1}), (Values{2048, 2048}));
}

TEST_F(AddTest, InfinitiesAndNaN) {
  const double nan = std::nan("");
  const ElementTensor self(ACL_FLOAT, {4}, {kInfinity, kInfinity, 1, nan});
  const ElementTensor other(ACL_FLOAT, {4}, {1, -kInfinity, nan, 0});
  const Values sum = Sum(ACL_FLOAT, self, other, {ACL_FLOAT, 1});
  EXPECT_EQ(sum[0], kInfinity);
  for (const size_t n : {1, 2, 3}) EXPECT_TRUE(std::isnan(sum[n]));
  const ElementTensor large(ACL_FLOAT16, {1}, {65504});
  EXPECT_EQ(Sum(ACL_FLOAT16, large, large, {ACL_FLOAT, 1}),
            (Values{kInfinity}));
}

TEST_F(AddTest, OutMayBeEitherInput) {
  ElementTensor a(ACL_FLOAT16, {700}), b(ACL_FLOAT16, {700});
  for (int64_t n = 0; n < 700; ++n) {
    a.Set(n, static_cast<double>(n));
    b.Set(n, 1);
  }
  EXPECT_TRUE(ElementwiseCall({"aclnnAdd", {&a, &b, &a}, {{}}}).Run());
  EXPECT_EQ(a.Values()[699], 700);
  EXPECT_TRUE(ElementwiseCall({"aclnnAdd", {&a, &b, &b}, {{}}}).Run());
  EXPECT_EQ(b.Values()[699], 701);
  EXPECT_TRUE(ElementwiseCall({"aclnnAdd", {&b, &b, &b}, {{}}}).Run());
  EXPECT_EQ(b.Values()[699], 1402);
}

// Both phases of one executor.
class AddLifeTest : public AddTest {
 protected:
  aclnnStatus Launch(aclrtStream stream = nullptr) {
    return aclnnAdd(nullptr, 0, executor_, stream);
  }
  void ExpectOut(const ElementTensor& tensor, Values values) {
    EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(nullptr)));
    EXPECT_EQ(tensor.Values(), values);
  }

  ElementTensor self_{ACL_FLOAT, {2}, {1, 2}};
  ElementTensor other_{ACL_FLOAT, {2}, {10, 20}};
  ElementTensor out_{ACL_FLOAT, {2}};
  const ElementwiseCall call_{"aclnnAdd", {&self_, &other_, &out_}, {{}}};
  uint64_t size_ = 7;
  aclOpExecutor* executor_ = nullptr;
};

TEST_F(AddLifeTest, AnExecutorIsUsedUp) {
  ASSERT_TRUE(Succeeds(call_.Prepare(&size_, &executor_)));
  EXPECT_EQ(size_, 0u);
  EXPECT_TRUE(Succeeds(Launch()));
  ExpectOut(out_, {11, 22});
  EXPECT_TRUE(FailsWith(561000, Launch(), "not a live aclOpExecutor"));
  EXPECT_TRUE(FailsWith(161001, aclnnAdd(nullptr, 0, nullptr, nullptr)));
}

TEST_F(AddLifeTest, ARepeatableOneTakesOtherAddresses) {
  ASSERT_TRUE(Succeeds(call_.Prepare(&size_, &executor_)));
  ASSERT_TRUE(Succeeds(aclSetAclOpExecutorRepeatable(executor_)));
  const ElementTensor more(ACL_FLOAT, {2}, {100, 200}), result(ACL_FLOAT, {2});
  EXPECT_TRUE(Succeeds(Launch()));
  EXPECT_TRUE(Succeeds(
      aclSetInputTensorAddr(executor_, 1, other_.handle(), more.data())));
  EXPECT_TRUE(Succeeds(
      aclSetOutputTensorAddr(executor_, 0, out_.handle(), result.data())));
  EXPECT_TRUE(Succeeds(Launch()));
  ExpectOut(out_, {11, 22});
  ExpectOut(result, {101, 202});
  EXPECT_TRUE(
      Succeeds(aclSetTensorAddr(executor_, 0, self_.handle(), nullptr)));
  EXPECT_TRUE(FailsWith(161001, Launch(), "self: the tensor has no data"));
  EXPECT_TRUE(Succeeds(aclDestroyAclOpExecutor(executor_)));
}

// In place, the first tensor is an input and an output.
TEST_F(AddLifeTest, InPlaceEitherSideMoves) {
  const ElementwiseCall call{"aclnnInplaceAdd", {&self_, &other_}, {{}}};
  ASSERT_TRUE(Succeeds(call.Prepare(&size_, &executor_)));
  ASSERT_TRUE(Succeeds(aclSetAclOpExecutorRepeatable(executor_)));
  const ElementTensor one(ACL_FLOAT, {2}, {0, 0}), two(ACL_FLOAT, {2}, {5, 5});
  const auto launch = [&] {
    return aclnnInplaceAdd(nullptr, 0, executor_, nullptr);
  };
  EXPECT_TRUE(Succeeds(
      aclSetInputTensorAddr(executor_, 0, self_.handle(), one.data())));
  EXPECT_TRUE(Succeeds(launch()));
  EXPECT_TRUE(Succeeds(
      aclSetOutputTensorAddr(executor_, 0, self_.handle(), two.data())));
  EXPECT_TRUE(Succeeds(
      aclSetInputTensorAddr(executor_, 1, other_.handle(), two.data())));
  EXPECT_TRUE(Succeeds(launch()));
  ExpectOut(self_, {1, 2});
  ExpectOut(one, {10, 20});
  ExpectOut(two, {10, 10});
  EXPECT_TRUE(Succeeds(aclDestroyAclOpExecutor(executor_)));
}

TEST_F(AddLifeTest, IsCapturedAndUpdated) {
  ScopedStream stream, updates;
  aclmdlRI graph = nullptr;
  aclrtTaskGrp group = nullptr;
  ASSERT_TRUE(Succeeds(call_.Prepare(&size_, &executor_)));
  ASSERT_TRUE(Succeeds(
      aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED)));
  EXPECT_TRUE(Succeeds(aclmdlRICaptureTaskGrpBegin(stream)));
  EXPECT_TRUE(Succeeds(Launch(stream)));
  EXPECT_TRUE(Succeeds(aclmdlRICaptureTaskGrpEnd(stream, &group)));
  EXPECT_TRUE(Succeeds(aclmdlRICaptureEnd(stream, &graph)));
  out_.Set(0, 0);
  const auto replay = [&] {
    EXPECT_TRUE(Succeeds(aclmdlRIExecuteAsync(graph, stream)));
    EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  };
  replay();
  EXPECT_EQ(out_.Values(), (Values{11, 22}));
  const ElementTensor result(ACL_FLOAT, {2});
  const ElementwiseCall product{"aclnnAdd", {&other_, &other_, &result}, {{}}};
  ASSERT_TRUE(Succeeds(product.Prepare(&size_, &executor_)));
  EXPECT_TRUE(Succeeds(aclmdlRICaptureTaskUpdateBegin(updates, group)));
  EXPECT_TRUE(Succeeds(Launch(updates)));
  EXPECT_TRUE(Succeeds(aclmdlRICaptureTaskUpdateEnd(updates)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(updates)));
  out_.Set(0, 0);
  replay();
  EXPECT_EQ(out_.Values(), (Values{0, 22}));
  EXPECT_EQ(result.Values(), (Values{20, 40}));
  EXPECT_TRUE(Succeeds(aclmdlRIDestroy(graph)));
}

// Memory that is freed after the launch stays until the run is over.
TEST_F(AddLifeTest, MemoryMayBeFreedAfterTheLaunch) {
  constexpr int64_t kCount = 1 << 20;
  void* memory = nullptr;
  ASSERT_TRUE(Succeeds(
      aclrtMalloc(&memory, kCount * sizeof(float), ACL_MEM_MALLOC_HUGE_FIRST)));
  aclTensor* const tensor = aclCreateTensor(&kCount, 1, ACL_FLOAT, nullptr, 0,
                                            ACL_FORMAT_ND, &kCount, 1, memory);
  aclScalar* const alpha = NewScalar({ACL_FLOAT, 1});
  ASSERT_TRUE(Succeeds(aclnnAddGetWorkspaceSize(tensor, tensor, alpha, tensor,
                                                &size_, &executor_)));
  EXPECT_TRUE(Succeeds(Launch()));
  EXPECT_TRUE(Succeeds(aclrtFree(memory)));
  EXPECT_TRUE(Succeeds(aclDestroyTensor(tensor)));
  EXPECT_TRUE(Succeeds(aclDestroyScalar(alpha)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(nullptr)));
}

TEST_F(AddTest, AlphaMustBeAlive) {
  ElementTensor x(ACL_FLOAT, {1}, {1});
  aclScalar* const alpha = NewScalar({ACL_FLOAT, 1});
  ASSERT_TRUE(Succeeds(aclDestroyScalar(alpha)));
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  EXPECT_TRUE(FailsWith(161002,
                        aclnnAddGetWorkspaceSize(x.handle(), x.handle(), alpha,
                                                 x.handle(), &size, &executor),
                        "alpha: this is not a live aclScalar"));
}

}  // namespace
}  // namespace flashacl::testing
