// SPDX-License-Identifier: Apache-2.0
// The checks every operator shares, and the snapshot it works from.
#include "acl/arguments.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "acl/acl.h"

namespace flashacl::acl {
namespace {

constexpr Argument kTable[] = {
    {.name = "query", .need = Need::kRequired, .dtypes = kHalves},
    {.name = "key", .need = Need::kRequired, .dtypes = kHalves, .list = true},
    {.name = "maskOptional", .dtypes = kMaskBytes},
    {.name = "paddingMaskOptional", .need = Need::kIgnored},
    {.name = "out", .need = Need::kRequired, .dtypes = kHalves, .output = true},
};

aclTensor* Create(std::vector<int64_t> dims, aclDataType type,
                  aclFormat format = ACL_FORMAT_ND) {
  return aclCreateTensor(dims.data(), dims.size(), type, nullptr, 0, format,
                         dims.data(), dims.size(), nullptr);
}

class ArgumentsTest : public testing::Test {
 protected:
  ArgumentsTest() {
    const aclTensor* members[] = {Create({3}, ACL_FLOAT16),
                                  Create({4}, ACL_FLOAT16)};
    key_ = aclCreateTensorList(members, 2);
  }
  ~ArgumentsTest() override {
    for (const aclTensor* tensor : {query_, mask_, out_}) {
      aclDestroyTensor(tensor);
    }
    aclDestroyTensorList(key_);
  }

  Result<Arguments> Read() {
    const std::vector<Passed> passed{query_, key_, mask_, padding_, out_};
    return Arguments::Read(kTable, passed);
  }

  aclTensor* query_ = Create({2, 8}, ACL_FLOAT16);
  aclTensorList* key_ = nullptr;
  aclTensor* mask_ = nullptr;
  aclTensor* padding_ = nullptr;
  aclTensor* out_ = Create({2, 8}, ACL_FLOAT16);
};

TEST_F(ArgumentsTest, ReadsTensorsAndLists) {
  Result<Arguments> arguments = Read();
  ASSERT_TRUE(arguments.ok());
  EXPECT_TRUE(arguments->CheckPresent().ok());
  EXPECT_TRUE(arguments->CheckTypes().ok());
  EXPECT_EQ((*arguments)[0].dims[1], 8);
  ASSERT_EQ(arguments->list(1).size(), 2u);
  EXPECT_EQ(arguments->list(1)[1]->dims[0], 4);
  EXPECT_FALSE(arguments->has(2));
  EXPECT_EQ(arguments->name(4), "out");
}

TEST_F(ArgumentsTest, IsASnapshot) {
  Result<Arguments> arguments = Read();
  aclDestroyTensor(query_);
  EXPECT_EQ((*arguments)[0].dims[0], 2);
}

TEST_F(ArgumentsTest, NamesTheMissingOne) {
  aclTensorList* const key = std::exchange(key_, nullptr);
  const Status status = Read()->CheckPresent();
  key_ = key;
  EXPECT_EQ(status.code(), Code::kNullArgument);
  EXPECT_EQ(status.message(), "The key cannot be nullptr.");
}

TEST_F(ArgumentsTest, NamesTheMissingMember) {
  aclDestroyTensorList(key_);
  const aclTensor* members[] = {Create({3}, ACL_FLOAT16), nullptr};
  key_ = aclCreateTensorList(members, 2);
  EXPECT_EQ(Read()->CheckPresent().message(), "The key[1] cannot be nullptr.");
}

TEST_F(ArgumentsTest, SaysWhichTypesAreExpected) {
  mask_ = Create({2}, ACL_FLOAT);
  const Status status = Read()->CheckTypes();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "maskOptional: data type FLOAT (0), expected INT8, UINT8, BOOL");
}

TEST_F(ArgumentsTest, AnEmptyOptionalTensorIsAbsentWhateverItsType) {
  mask_ = Create({0}, ACL_FLOAT);
  Result<Arguments> arguments = Read();
  EXPECT_TRUE(arguments->CheckTypes().ok());
  EXPECT_FALSE(arguments->has(2));
}

TEST_F(ArgumentsTest, AnOptionalTensorOfRankZeroIsAbsentWhateverItsType) {
  mask_ = Create({}, ACL_FLOAT, ACL_FORMAT_FRACTAL_NZ);
  Result<Arguments> arguments = Read();
  EXPECT_TRUE(arguments->CheckTypes().ok());
  EXPECT_FALSE(arguments->has(2));
}

// Where a number is asked for, rank 0 is one.
TEST_F(ArgumentsTest, WhatMayBeEmptyIsPresentWithoutAxes) {
  std::vector<Argument> table(std::begin(kTable), std::end(kTable));
  table[2].need = Need::kMayBeEmpty;
  const auto read = [&] {
    const std::vector<Passed> passed{query_, key_, mask_, padding_, out_};
    return Arguments::Read(table, passed);
  };
  EXPECT_FALSE(read()->has(2));
  mask_ = Create({0}, ACL_FLOAT);
  EXPECT_FALSE(read()->has(2));
  EXPECT_TRUE(read()->CheckTypes().ok());
  aclDestroyTensor(mask_);
  mask_ = Create({}, ACL_BOOL);
  EXPECT_TRUE(read()->has(2));
  EXPECT_TRUE(read()->CheckTypes().ok());
  aclDestroyTensor(mask_);
  mask_ = Create({}, ACL_FLOAT);
  EXPECT_FALSE(read()->CheckTypes().ok());
}

TEST_F(ArgumentsTest, RefusesPrivateFormats) {
  mask_ = Create({2}, ACL_BOOL, ACL_FORMAT_FRACTAL_NZ);
  EXPECT_EQ(Read()->CheckTypes().message(),
            "maskOptional: private format 29, expected ND");
}

// A view of a [2, 8] tensor.
aclTensor* View(std::vector<int64_t> strides, int64_t offset) {
  const int64_t dims[] = {2, 8};
  return aclCreateTensor(dims, 2, ACL_FLOAT16, strides.data(), offset,
                         ACL_FORMAT_ND, dims, 2, nullptr);
}

TEST_F(ArgumentsTest, RefusesStridesAndOffsetsNobodyCanFollow) {
  struct Case {
    std::vector<int64_t> strides;
    int64_t offset;
    const char* message;
  };
  const Case cases[] = {
      {{8, -1}, 0, "query: stride -1 of axis 1, expected at least 0"},
      {{INT64_MIN, 1},
       0,
       "query: stride -9223372036854775808 of axis 0, expected at least 0"},
      {{8, 1}, -1, "query: offset -1, expected at least 0"},
      {{8, 1},
       INT64_MIN,
       "query: offset -9223372036854775808, expected at least 0"},
      {{INT64_MAX, 1},
       0,
       "query: shape [2, 8] with its strides and offset 0 spans more than 2^59 "
       "elements"},
      {{1, INT64_MAX},
       3,
       "query: shape [2, 8] with its strides and offset 3 spans more than 2^59 "
       "elements"},
      {{8, 1},
       INT64_MAX,
       "query: shape [2, 8] with its strides and offset 9223372036854775807 "
       "spans more than 2^59 elements"},
  };
  for (const Case& c : cases) {
    aclDestroyTensor(query_);
    query_ = View(c.strides, c.offset);
    const Status status = Read()->CheckTypes();
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_EQ(status.message(), c.message);
  }
}

// Where elements would be that there are none of is nobody's concern.
TEST_F(ArgumentsTest, EmptyTensorsAreNowhere) {
  aclDestroyTensor(query_);
  const int64_t dims[] = {0, 8};
  const int64_t strides[] = {INT64_MAX, INT64_MAX};
  query_ = aclCreateTensor(dims, 2, ACL_FLOAT16, strides, INT64_MAX,
                           ACL_FORMAT_ND, dims, 2, nullptr);
  Result<Arguments> arguments = Read();
  EXPECT_TRUE(arguments->CheckTypes().ok());
  EXPECT_EQ((*arguments)[0].offset_bytes(), 0);
  EXPECT_EQ((*arguments)[0].strides[1], 1);
}

TEST_F(ArgumentsTest, InputsMayRepeatAndOutputsMayNot) {
  aclDestroyTensor(query_);
  query_ = View({0, 0}, 5);
  EXPECT_TRUE(Read()->CheckTypes().ok());
  struct Case {
    std::vector<int64_t> strides;  // of shape [2, 8]
    const char* message;
  };
  const Case cases[] = {
      {{8, 1}, ""},
      {{1, 2}, ""},
      {{15, 2}, ""},
      {{0, 1}, "out: stride 0 of axis 0 in shape [2, 8], expected at least 1"},
      {{8, 0}, "out: stride 0 of axis 1 in shape [2, 8], expected at least 1"},
      {{1, 1}, "out: stride 1 of axis 1 in shape [2, 8], expected at least 2"},
      {{7, 1}, "out: stride 7 of axis 0 in shape [2, 8], expected at least 8"},
      {{14, 2},
       "out: stride 14 of axis 0 in shape [2, 8], expected at least 15"},
  };
  for (const Case& c : cases) {
    aclDestroyTensor(out_);
    out_ = View(c.strides, 0);
    const Status status = Read()->CheckTypes();
    EXPECT_EQ(status.ok(), *c.message == 0);
    EXPECT_TRUE(status.message().starts_with(c.message)) << status.message();
  }
  // An axis of one element takes no step; no elements share nothing.
  struct Shape {
    std::vector<int64_t> dims, strides;
  };
  for (const Shape& shape :
       {Shape{{1, 8}, {0, 1}}, Shape{{3, 0, 8}, {0, 0, 0}}}) {
    aclDestroyTensor(out_);
    out_ = aclCreateTensor(shape.dims.data(), shape.dims.size(), ACL_FLOAT16,
                           shape.strides.data(), 0, ACL_FORMAT_ND,
                           shape.dims.data(), shape.dims.size(), nullptr);
    EXPECT_EQ(Read()->CheckTypes().message(), "");
  }
}

TEST_F(ArgumentsTest, RefusesShapesBeyondAnyMemory) {
  mask_ = Create({INT64_MAX, INT64_MAX, INT64_MAX}, ACL_BOOL);
  EXPECT_EQ(Read()->CheckTypes().message(),
            "maskOptional: shape [9223372036854775807, 9223372036854775807, "
            "9223372036854775807] with its strides and offset 0 spans more "
            "than 2^59 elements");
}

TEST_F(ArgumentsTest, NeverFollowsADeadHandle) {
  mask_ = Create({2}, ACL_BOOL);
  aclDestroyTensor(mask_);
  Result<Arguments> arguments = Read();
  ASSERT_FALSE(arguments.ok());
  EXPECT_EQ(arguments.status().code(), Code::kInvalidArgument);
  mask_ = nullptr;
}

TEST_F(ArgumentsTest, IgnoredOnesMayBeAnything) {
  int garbage = 0;
  padding_ = reinterpret_cast<aclTensor*>(&garbage);
  EXPECT_TRUE(Read().ok());
  padding_ = nullptr;
}

// As if the row were not in the table, but for the numbers of those after it.
TEST_F(ArgumentsTest, AbsentOnesAreNotThere) {
  std::vector<Argument> table(std::begin(kTable), std::end(kTable));
  table[0].need = Need::kAbsent;
  const std::vector<Passed> passed{key_, mask_, padding_, out_};
  const Result<Arguments> arguments = Arguments::Read(table, passed);
  ASSERT_TRUE(arguments.ok());
  EXPECT_TRUE(arguments->CheckPresent().ok());
  EXPECT_TRUE(arguments->CheckTypes().ok());
  EXPECT_FALSE(arguments->has(0));
  EXPECT_TRUE(arguments->list(0).empty());
  EXPECT_EQ((*arguments)[4].dims[1], 8);
  EXPECT_EQ(arguments->entries().size(), Read()->entries().size() - 1);
}

TEST(ReadText, IsBoundedAndForgivesNull) {
  EXPECT_EQ(ReadText(nullptr), "");
  EXPECT_EQ(ReadText("TND"), "TND");
  char endless[100];
  std::memset(endless, 'x', sizeof(endless));
  EXPECT_EQ(ReadText(endless).size(), 64u);
}

TEST(ReadArray, SaysOfTwoNumbersThatTheyAreInt32) {
  const auto both = [](int64_t first, int64_t second) {
    return (second << 32) + first;
  };
  EXPECT_EQ(IfTwoOfInt32(both(64, 40), 64),
            "; it is 64 and 40 as INT32, but an aclIntArray is made of INT64");
  for (const int64_t other :
       {both(65, 40), both(64, 65), int64_t{65}, both(0, -1), int64_t{-1}}) {
    EXPECT_EQ(IfTwoOfInt32(other, 64), "") << other;
  }
}

TEST(ReadArray, NullIsEmptyAndDeadIsAnError) {
  EXPECT_TRUE(ReadArray("lengths", nullptr)->empty());
  const int64_t value = 7;
  aclIntArray* array = aclCreateIntArray(&value, 1);
  EXPECT_EQ(*ReadArray("lengths", array), std::vector<int64_t>{7});
  aclDestroyIntArray(array);
  EXPECT_FALSE(ReadArray("lengths", array).ok());
}

}  // namespace
}  // namespace flashacl::acl
