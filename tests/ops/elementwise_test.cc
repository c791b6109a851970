// SPDX-License-Identifier: Apache-2.0
// What elementwise operators share: promotion, conversion of results,
// broadcasting, refusals; and random calls of all of them against arithmetic on
// exact numbers.
#include "ops/elementwise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/str.h"
#include "tests/testing/elementwise_call.h"
#include "tests/testing/random.h"
#include "tests/testing/random_tensors.h"
#include "tests/testing/refusal.h"

namespace flashacl::ops {
namespace {

using testing::Element;
using testing::ElementTensor;
using testing::ElementwiseCall;
using testing::Form;
using testing::kInvalid;
using testing::kNull;
using testing::ScalarArgument;

constexpr aclDataType kNumbers[] = {
    ACL_UINT8,   ACL_INT8, ACL_INT16, ACL_INT32,  ACL_INT64,
    ACL_FLOAT16, ACL_BF16, ACL_FLOAT, ACL_DOUBLE, ACL_BOOL};
constexpr Type kTypes[] = {Type::kU8,  Type::kI8,  Type::kI16,  Type::kI32,
                           Type::kI64, Type::kF16, Type::kBf16, Type::kF32,
                           Type::kF64, Type::kBool};

// By row and column in the order above.
constexpr const char* kPromoted[10][10] = {
    {"u8", "i16", "i16", "i32", "i64", "f16", "bf16", "f32", "f64", "u8"},
    {"i16", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64", "i8"},
    {"i16", "i16", "i16", "i32", "i64", "f16", "bf16", "f32", "f64", "i16"},
    {"i32", "i32", "i32", "i32", "i64", "f16", "bf16", "f32", "f64", "i32"},
    {"i64", "i64", "i64", "i64", "i64", "f16", "bf16", "f32", "f64", "i64"},
    {"f16", "f16", "f16", "f16", "f16", "f16", "f32", "f32", "f64", "f16"},
    {"bf16", "bf16", "bf16", "bf16", "bf16", "f32", "bf16", "f32", "f64",
     "bf16"},
    {"f32", "f32", "f32", "f32", "f32", "f32", "f32", "f32", "f64", "f32"},
    {"f64", "f64", "f64", "f64", "f64", "f64", "f64", "f64", "f64", "f64"},
    {"u8", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64", "bool"},
};

// Of the position in kNumbers.
size_t PromotedIndex(size_t one, size_t other) {
  for (size_t n = 0; n < 10; ++n) {
    if (elementwise::Name(kTypes[n]) == kPromoted[one][other]) return n;
  }
  return 10;
}

constexpr bool IsReal(size_t n) { return n >= 5 && n < 9; }
constexpr bool IsBool(size_t n) { return n == 9; }
constexpr bool Converts(size_t from, size_t to) {
  if (IsBool(from)) return true;
  return !IsBool(to) && (!IsReal(from) || IsReal(to));
}

TEST(Elementwise, TypesPromoteAsInPyTorch) {
  for (size_t one = 0; one < 10; ++one) {
    for (size_t other = 0; other < 10; ++other) {
      EXPECT_EQ(elementwise::Name(Promoted(kTypes[one], kTypes[other])),
                kPromoted[one][other]);
    }
  }
}

TEST(Elementwise, ResultsConvertToWhatCanHoldThem) {
  for (size_t from = 0; from < 10; ++from) {
    for (size_t to = 0; to < 10; ++to) {
      EXPECT_EQ(ResultConverts(kTypes[from], kTypes[to]), Converts(from, to));
    }
  }
  EXPECT_FALSE(ResultConverts(Type::kC64, Type::kC128));
}

class ElementwiseTest : public testing::RuntimeTest {};

TEST_F(ElementwiseTest, NullArgumentsAreNamed) {
  const ElementTensor x(ACL_FLOAT, {2});
  const ScalarArgument one;
  const ScalarArgument none{.present = false};
  const struct {
    ElementwiseCall call;
    const char* words;
  } kCases[] = {
      {{"aclnnAdd", {nullptr, &x, &x}, {one}}, "The self cannot be nullptr"},
      {{"aclnnAdd", {&x, nullptr, &x}, {one}}, "The other cannot be nullptr"},
      {{"aclnnAdd", {&x, &x, nullptr}, {one}}, "The out cannot be nullptr"},
      {{"aclnnAdd", {&x, &x, &x}, {none}}, "The alpha cannot be nullptr"},
      {{"aclnnInplaceAdd", {nullptr, &x}, {one}}, "selfRef"},
      {{"aclnnInplaceAdd", {&x, nullptr}, {one}}, "other"},
      {{"aclnnInplaceAdd", {&x, &x}, {none}}, "alpha"},
      {{"aclnnMul", {nullptr, &x, &x}}, "self"},
      {{"aclnnMul", {&x, nullptr, &x}}, "other"},
      {{"aclnnMul", {&x, &x, nullptr}}, "out"},
      {{"aclnnInplaceMul", {nullptr, &x}}, "selfRef"},
      {{"aclnnInplaceMul", {&x, nullptr}}, "other"},
      {{"aclnnInplaceCopy", {nullptr, &x}}, "selfRef"},
      {{"aclnnInplaceCopy", {&x, nullptr}}, "src"},
      {{"aclnnCast", {nullptr, &x}, {}, {ACL_FLOAT}}, "self"},
      {{"aclnnCast", {&x, nullptr}, {}, {ACL_FLOAT}}, "out"},
  };
  for (const auto& one_case : kCases) {
    EXPECT_TRUE(one_case.call.IsRefused(kNull, one_case.words));
  }
}

TEST_F(ElementwiseTest, TypesThatDoNotFitAreNamed) {
  const ElementTensor f(ACL_FLOAT, {2}), h(ACL_FLOAT16, {2}), i(ACL_INT32, {2}),
      b(ACL_BOOL, {2}), u(ACL_UINT16, {2}), c(ACL_COMPLEX64, {2}),
      z(ACL_COMPLEX128, {2}), s(ACL_STRING, {2});
  const ScalarArgument one;
  const ScalarArgument whole{ACL_INT64, 2};
  const struct {
    ElementwiseCall call;
    const char* words;
  } kCases[] = {
      {{"aclnnAdd", {&u, &f, &f}, {one}},
       "self: data type UINT16 (7), expected FLOAT16, BFLOAT16, FLOAT, DOUBLE, "
       "INT8, INT16, INT32, INT64, UINT8, BOOL"},
      {{"aclnnMul", {&f, &c, &f}}, "other: data type COMPLEX64 (16)"},
      {{"aclnnMul", {&f, &f, &s}}, "out: data type that is not supported (13)"},
      {{"aclnnAdd", {&i, &i, &i}, {one}},
       "alpha: FLOAT does not convert to INT32, the type of the sum"},
      {{"aclnnInplaceAdd", {&b, &b}, {{ACL_DOUBLE, 1}}},
       "alpha: DOUBLE does not convert to BOOL"},
      {{"aclnnAdd", {&f, &f, &f}, {{ACL_UINT32, 1}}},
       "alpha: data type 8, expected FLOAT16"},
      {{"aclnnAdd", {&i, &h, &i}, {one}},
       "out: data type INT32 (3), but the result is FLOAT16, which does not "
       "convert to it"},
      {{"aclnnInplaceAdd", {&i, &f}, {one}},
       "selfRef: data type INT32 (3), but the result is FLOAT"},
      {{"aclnnMul", {&i, &b, &b}},
       "out: data type BOOL (12), but the result is INT32"},
      {{"aclnnInplaceAdd", {&b, &i}, {whole}},
       "selfRef: data type BOOL (12), but the result is INT32"},
      {{"aclnnInplaceCopy", {&f, &c}},
       "src: data type COMPLEX64 (16), but complex numbers are copied as they "
       "are, and selfRef has FLOAT"},
      {{"aclnnInplaceCopy", {&z, &c}}, "src: data type COMPLEX64 (16)"},
      {{"aclnnInplaceCopy", {&s, &f}}, "selfRef: data type"},
      {{"aclnnCast", {&f, &c}, {}, {ACL_COMPLEX64}},
       "self: data type FLOAT (0), but complex"},
      {{"aclnnCast", {&f, &h}, {}, {ACL_INT8}},
       "out: data type FLOAT16 (1), expected INT8 as dtype"},
      {{"aclnnCast", {&f, &h}, {}, {99}}, "dtype: data type 99, expected"},
      {{"aclnnCast", {&f, &h}, {}, {-1}}, "dtype: data type -1, expected"},
  };
  for (const auto& one_case : kCases) {
    EXPECT_TRUE(one_case.call.IsRefused(kInvalid, one_case.words));
  }
}

TEST_F(ElementwiseTest, ShapesThatDoNotFitAreNamed) {
  const ElementTensor a(ACL_FLOAT, {2, 3}), row(ACL_FLOAT, {3}),
      two(ACL_FLOAT, {2}), cube(ACL_FLOAT, {4, 2, 3});
  const ScalarArgument one;
  const struct {
    ElementwiseCall call;
    const char* words;
  } kCases[] = {
      {{"aclnnAdd", {&a, &two, &a}, {one}},
       "other: shape [2] does not broadcast with [2, 3] of self"},
      {{"aclnnAdd", {&a, &row, &cube}, {one}},
       "out: shape [4, 2, 3], expected [2, 3], to which self and other "
       "broadcast"},
      {{"aclnnMul", {&a, &cube, &a}}, "out: shape [2, 3], expected [4, 2, 3]"},
      {{"aclnnInplaceAdd", {&row, &a}, {one}},
       "selfRef: shape [3], expected [2, 3], to which selfRef and other"},
      {{"aclnnInplaceMul", {&row, &cube}}, "selfRef: shape [3], expected"},
      {{"aclnnInplaceCopy", {&row, &a}},
       "src: shape [2, 3] does not broadcast to [3] of selfRef"},
      {{"aclnnInplaceCopy", {&a, &two}}, "src: shape [2] does not broadcast"},
      {{"aclnnCast", {&row, &a}, {}, {ACL_FLOAT}},
       "out: shape [2, 3], expected [3] as self"},
  };
  for (const auto& one_case : kCases) {
    EXPECT_TRUE(one_case.call.IsRefused(kInvalid, one_case.words));
  }
}

TEST_F(ElementwiseTest, StridesAndFormatsThatDoNotFitAreNamed) {
  const ElementTensor in(ACL_FLOAT, {4});
  const ElementTensor repeats(Form{ACL_FLOAT, {4}, {0}});
  const ElementTensor nz(Form{ACL_FLOAT, {4}, {1}, 0, ACL_FORMAT_FRACTAL_NZ});
  const ElementwiseCall add{"aclnnAdd", {&in, &in, &repeats}, {{}}};
  EXPECT_TRUE(add.IsRefused(kInvalid, "out: stride 0 of axis 0"));
  const ElementwiseCall copy{"aclnnInplaceCopy", {&repeats, &in}};
  EXPECT_TRUE(copy.IsRefused(kInvalid, "selfRef: stride 0 of axis 0"));
  const ElementwiseCall mul{"aclnnMul", {&nz, &in, &in}};
  EXPECT_TRUE(mul.IsRefused(kInvalid, "self: private format 29"));
}

// On the memory of one element, which nobody touches.
TEST_F(ElementwiseTest, ExtentsAndStridesBeyondCountingAreRefused) {
  const auto refuses = [](const std::array<int64_t, 2>& dims, int64_t stride,
                          const std::string& words) {
    const int64_t strides[] = {stride, 1};
    float number = 0;
    aclTensor* const made =
        aclCreateTensor(dims.data(), 2, ACL_FLOAT, strides, 0, ACL_FORMAT_ND,
                        dims.data(), 2, &number);
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    const auto& entry = testing::EntryPointsOf("aclnnMul");
    EXPECT_TRUE(testing::FailsWith(
        kInvalid,
        entry.phase_one({.tensors = {made, made, made}}, &size, &executor),
        words));
    EXPECT_EQ(aclDestroyTensor(made), 0);
  };
  constexpr int64_t kMany = int64_t{1} << 40;
  refuses({kMany, kMany}, 1, "2^59 elements or more");
  // Found before anything is multiplied by it.
  refuses({3, 4}, INT64_MIN, "of axis 0, expected at least 0");
}

TEST_F(ElementwiseTest, NoElementsAreNoWork) {
  const ElementTensor none(ACL_FLOAT, {0, 3}), row(ACL_FLOAT, {3}),
      empty(ACL_FLOAT, {0});
  EXPECT_TRUE(ElementwiseCall({"aclnnAdd", {&none, &row, &none}, {{}}}).Run());
  EXPECT_TRUE(ElementwiseCall({"aclnnInplaceMul", {&none, &row}}).Run());
  EXPECT_TRUE(
      ElementwiseCall({"aclnnCast", {&none, &none}, {}, {ACL_FLOAT}}).Run());
  EXPECT_TRUE(ElementwiseCall({"aclnnInplaceCopy", {&none, &row}}).Run());
  const auto before = row.Image();
  EXPECT_TRUE(ElementwiseCall({"aclnnInplaceCopy", {&row, &empty}}).Run());
  EXPECT_EQ(row.Image(), before);
}

// A random call, its tensors filled, and what it should write.
class RandomCall {
 public:
  explicit RandomCall(uint64_t seed) : random_(seed) {
    const int64_t rank = random_.Within(0, 8);
    int64_t most = 4;  // of all axes together some thousand elements
    for (int64_t axis = 0; axis < rank; ++axis) {
      if (axis == 3) most = 2;
      shape_.push_back(random_.OneIn(40) ? 0 : random_.Within(1, most));
    }
    if (rank > 0 && rank < 4 && random_.OneIn(4)) {
      shape_.back() = random_.Within(500, 1100);
    }
    copies_ = random_.OneIn(2);
    in_place_ = random_.OneIn(2);
    if (copies_) {
      MakeCopy();
    } else {
      MakeArithmetic();
    }
  }

  std::string ToString() const {
    return std::string(call_.name) + tensors_.ToString();
  }

  void Check() {
    std::vector<Element> expected;
    for (int64_t n = 0; n < out().count(); ++n) expected.push_back(Expect(n));
    tensors_.BeforeCall();
    ASSERT_TRUE(call_.Run());
    const aclDataType type = out().form().type;
    int wrong = 0;
    for (int64_t n = 0; n < out().count() && wrong < 3; ++n) {
      if (testing::IsElement(type, out().at(n),
                             expected[static_cast<size_t>(n)])) {
        continue;
      }
      ++wrong;
      ADD_FAILURE() << "element " << n;
    }
    const ElementTensor* const results[] = {&out()};
    tensors_.ExpectOnlyWritten(results);
  }

 private:
  const ElementTensor& out() const { return tensors_[out_]; }

  // A tensor that broadcasts to the shape, or has it.
  const ElementTensor* New(aclDataType type, bool output) {
    Form form{type, shape_};
    if (!output && random_.OneIn(2)) {
      for (int64_t& dim : form.dims) dim = random_.OneIn(3) ? 1 : dim;
      const int64_t fewer =
          random_.Within(0, static_cast<int64_t>(form.dims.size()));
      if (random_.OneIn(3)) {
        form.dims.erase(form.dims.begin(), form.dims.begin() + fewer);
      }
    }
    ElementTensor* const tensor = tensors_.New(form, !output);
    tensor->Fill(random_);
    return tensor;
  }

  size_t AnyNumber() { return static_cast<size_t>(random_.Within(0, 9)); }

  void MakeArithmetic() {
    const bool adds = random_.OneIn(2);
    size_t self = AnyNumber(), other = AnyNumber(), out = AnyNumber();
    if (random_.OneIn(2)) other = self;
    const auto promoted = [&] { return PromotedIndex(self, other); };
    while (in_place_ && !Converts(promoted(), self)) other = AnyNumber();
    while (!in_place_ && !Converts(promoted(), out)) out = AnyNumber();
    type_ = kNumbers[promoted()];
    const ElementTensor* const one = New(kNumbers[self], in_place_);
    const ElementTensor* const two = New(kNumbers[other], false);
    call_.tensors = {one, two};
    if (!in_place_) {
      // The shape may be that of no input.
      shape_ = Broadcast(one->form().dims, two->form().dims);
      out_ = 2;
      call_.tensors.push_back(New(kNumbers[out], true));
    }
    call_.name = in_place_ ? adds ? "aclnnInplaceAdd" : "aclnnInplaceMul"
                 : adds    ? "aclnnAdd"
                           : "aclnnMul";
    if (!adds) return;
    ScalarArgument alpha{ACL_INT64, static_cast<double>(random_.Within(-3, 3))};
    if (random_.OneIn(4)) alpha = {ACL_BOOL, 1};
    if (IsReal(promoted()) && random_.OneIn(2)) alpha = {ACL_DOUBLE, 0.3};
    if (IsReal(promoted()) && random_.OneIn(3)) alpha = {ACL_FLOAT, -1.5};
    call_.scalars = {alpha};
  }

  void MakeCopy() {
    constexpr aclDataType kMore[] = {ACL_UINT16, ACL_UINT32, ACL_UINT64};
    const auto any = [&] {
      const size_t n = static_cast<size_t>(random_.Within(0, 12));
      return n < 10 ? kNumbers[n] : kMore[n - 10];
    };
    type_ = any();
    if (in_place_) {
      const ElementTensor* const to = New(type_, true);
      call_ = {"aclnnInplaceCopy", {to, New(any(), false)}};
      return;
    }
    const ElementTensor* const from = New(any(), true);
    out_ = 1;
    call_ = {"aclnnCast", {from, New(type_, true)}, {}, {type_}};
  }

  static std::vector<int64_t> Broadcast(std::vector<int64_t> one,
                                        std::vector<int64_t> other) {
    if (one.size() < other.size()) std::swap(one, other);
    for (size_t n = 1; n <= other.size(); ++n) {
      int64_t& dim = one[one.size() - n];
      if (dim == 1) dim = other[other.size() - n];
    }
    return one;
  }

  Element Read(size_t tensor, int64_t n) const {
    const ElementTensor& from = tensors_[tensor];
    return testing::ReadElement(from.form().type,
                                from.at(n, out().form().dims));
  }

  Element Expect(int64_t n) const {
    const aclDataType type = out().form().type;
    if (copies_) {
      return testing::ConvertElement(Read(in_place_ ? 1 : 0, n), type);
    }
    if (call_.scalars.empty()) {
      return testing::ConvertElement(
          testing::MultiplyElements(Read(0, n), Read(1, n), type_), type);
    }
    const ScalarArgument& alpha = call_.scalars[0];
    const Element factor =
        alpha.type == ACL_FLOAT || alpha.type == ACL_DOUBLE
            ? testing::RealElement(alpha.value)
            : testing::WholeElement(static_cast<testing::Whole>(alpha.value));
    return testing::ConvertElement(
        testing::AddElements(Read(0, n), Read(1, n), factor, type_), type);
  }

  Random random_;
  std::vector<int64_t> shape_;
  bool copies_ = false;
  bool in_place_ = false;
  aclDataType type_ = ACL_FLOAT;  // that is computed in
  testing::RandomTensors tensors_{random_};
  size_t out_ = 0;
  ElementwiseCall call_;
};

TEST_F(ElementwiseTest, RandomCallsAreExact) {
  testing::CheckRandomCalls<RandomCall>(3000);
}

}  // namespace
}  // namespace flashacl::ops
