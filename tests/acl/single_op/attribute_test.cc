// SPDX-License-Identifier: Apache-2.0
// aclopAttr keeps copies by name, of every type there is.
#include "acl/single_op/attribute.h"

#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "acl/acl.h"
#include "tests/acl/single_op/handles.h"
#include "tests/testing/runtime.h"

namespace flashacl::acl {
namespace {

using ::flashacl::testing::BadHandles;
using ::flashacl::testing::FailsWith;
using ::flashacl::testing::Message;
using ::flashacl::testing::Succeeds;

class SingleOpAttribute : public ::testing::Test {
 protected:
  void SetUp() override {
    Message();
    attr_ = aclopCreateAttr();
    ASSERT_NE(attr_, nullptr);
  }
  void TearDown() override { aclopDestroyAttr(attr_); }

  Attribute Kept(const char* name) {
    return Find<Attributes>(attr_)->values.at(name);
  }

  aclopAttr* attr_ = nullptr;
};

TEST_F(SingleOpAttribute, KeepsEveryType) {
  EXPECT_TRUE(Succeeds(aclopSetAttrBool(attr_, "bool", 2)));
  EXPECT_TRUE(Succeeds(aclopSetAttrInt(attr_, "int", -7)));
  EXPECT_TRUE(Succeeds(aclopSetAttrFloat(attr_, "float", 0.5f)));
  char text[] = "BSH";
  EXPECT_TRUE(Succeeds(aclopSetAttrString(attr_, "text", text)));
  text[0] = 'X';
  EXPECT_TRUE(Succeeds(aclopSetAttrDataType(attr_, "type", ACL_BF16)));
  EXPECT_EQ(Kept("bool"), Attribute(true));
  EXPECT_EQ(Kept("int"), Attribute(int64_t{-7}));
  EXPECT_EQ(Kept("float"), Attribute(0.5f));
  EXPECT_EQ(Kept("text"), Attribute(std::string("BSH")));
  EXPECT_EQ(Kept("type"), Attribute(TypeNumber{ACL_BF16}));
}

TEST_F(SingleOpAttribute, CopiesLists) {
  uint8_t bools[] = {0, 3};
  int64_t ints[] = {1, 2};
  float floats[] = {1.5f};
  const char* texts[] = {"a", "b"};
  aclDataType types[] = {ACL_FLOAT, ACL_INT8};
  const int64_t* lists[] = {ints, nullptr, ints};
  int counts[] = {2, 0, 1};
  EXPECT_TRUE(Succeeds(aclopSetAttrListBool(attr_, "bools", 2, bools)));
  EXPECT_TRUE(Succeeds(aclopSetAttrListInt(attr_, "ints", 2, ints)));
  EXPECT_TRUE(Succeeds(aclopSetAttrListFloat(attr_, "floats", 1, floats)));
  EXPECT_TRUE(Succeeds(aclopSetAttrListString(attr_, "texts", 2, texts)));
  EXPECT_TRUE(Succeeds(aclopSetAttrListDataType(attr_, "types", 2, types)));
  EXPECT_TRUE(
      Succeeds(aclopSetAttrListListInt(attr_, "lists", 3, counts, lists)));
  bools[0] = 1;
  ints[0] = 9;
  floats[0] = 0;
  texts[0] = "c";
  types[0] = ACL_BOOL;
  EXPECT_EQ(Kept("bools"), Attribute(std::vector<bool>{false, true}));
  EXPECT_EQ(Kept("ints"), Attribute(std::vector<int64_t>{1, 2}));
  EXPECT_EQ(Kept("floats"), Attribute(std::vector<float>{1.5f}));
  EXPECT_EQ(Kept("texts"), Attribute(std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(Kept("types"),
            Attribute(std::vector<TypeNumber>{{ACL_FLOAT}, {ACL_INT8}}));
  EXPECT_EQ(Kept("lists"),
            Attribute(std::vector<std::vector<int64_t>>{{1, 2}, {}, {1}}));
}

TEST_F(SingleOpAttribute, TheSameNameReplaces) {
  EXPECT_TRUE(Succeeds(aclopSetAttrInt(attr_, "x", 1)));
  EXPECT_TRUE(Succeeds(aclopSetAttrString(attr_, "x", "two")));
  EXPECT_EQ(Kept("x"), Attribute(std::string("two")));
  EXPECT_TRUE(
      FailsWith(100000, aclopSetAttrString(attr_, "x", nullptr), "attrValue"));
  EXPECT_EQ(Kept("x"), Attribute(std::string("two")));
  EXPECT_EQ(Find<Attributes>(attr_)->values.size(), 1u);
}

// Every setter, with a count that lists alone look at.
using Setter =
    std::function<aclError(aclopAttr*, const char*, int count, bool null)>;

const std::vector<Setter>& Scalars() {
  static const std::vector<Setter> setters = {
      [](auto* a, auto* n, int, bool) { return aclopSetAttrBool(a, n, 1); },
      [](auto* a, auto* n, int, bool) { return aclopSetAttrInt(a, n, 1); },
      [](auto* a, auto* n, int, bool) { return aclopSetAttrFloat(a, n, 1); },
      [](auto* a, auto* n, int, bool) { return aclopSetAttrString(a, n, ""); },
      [](auto* a, auto* n, int, bool) {
        return aclopSetAttrDataType(a, n, ACL_FLOAT);
      },
  };
  return setters;
}

const std::vector<Setter>& Lists() {
  static const uint8_t bools[] = {0};
  static const int64_t ints[] = {0};
  static const float floats[] = {0};
  static const char* texts[] = {""};
  static const aclDataType types[] = {ACL_FLOAT};
  static const int counts[] = {1};
  static const int64_t* const lists[] = {ints};
  static const std::vector<Setter> setters = {
      [](auto* a, auto* n, int count, bool null) {
        return aclopSetAttrListBool(a, n, count, null ? nullptr : bools);
      },
      [](auto* a, auto* n, int count, bool null) {
        return aclopSetAttrListInt(a, n, count, null ? nullptr : ints);
      },
      [](auto* a, auto* n, int count, bool null) {
        return aclopSetAttrListFloat(a, n, count, null ? nullptr : floats);
      },
      [](auto* a, auto* n, int count, bool null) {
        return aclopSetAttrListString(a, n, count, null ? nullptr : texts);
      },
      [](auto* a, auto* n, int count, bool null) {
        return aclopSetAttrListDataType(a, n, count, null ? nullptr : types);
      },
      [](auto* a, auto* n, int count, bool null) {
        return aclopSetAttrListListInt(a, n, count, counts,
                                       null ? nullptr : lists);
      },
  };
  return setters;
}

TEST_F(SingleOpAttribute, EverySetterChecksHandleAndNameFirst) {
  aclopAttr* stale = aclopCreateAttr();
  aclopDestroyAttr(stale);
  aclDataBuffer* other = aclCreateDataBuffer(nullptr, 0);
  for (const auto* setters : {&Scalars(), &Lists()}) {
    for (const Setter& set : *setters) {
      for (aclopAttr* bad : BadHandles(stale, other)) {
        EXPECT_TRUE(FailsWith(100000, set(bad, nullptr, -1, true), "attr"));
      }
      EXPECT_TRUE(FailsWith(100000, set(attr_, nullptr, -1, true), "attrName"));
      EXPECT_TRUE(Succeeds(set(attr_, "", 1, false)));
    }
  }
  EXPECT_TRUE(Succeeds(aclDestroyDataBuffer(other)));
}

TEST_F(SingleOpAttribute, ListsCheckCountsAndValues) {
  for (const Setter& set : Lists()) {
    EXPECT_TRUE(FailsWith(100000, set(attr_, "x", -1, true), "num"));
    EXPECT_TRUE(FailsWith(100000, set(attr_, "x", 1, true), "values"));
    EXPECT_TRUE(Succeeds(set(attr_, "x", 0, true)));
  }
  const char* texts[] = {"a", nullptr};
  EXPECT_TRUE(FailsWith(100000, aclopSetAttrListString(attr_, "x", 2, texts),
                        "values[1]"));
  const int64_t* const lists[] = {nullptr};
  const int one[] = {1};
  const int less[] = {-1};
  EXPECT_TRUE(FailsWith(100000,
                        aclopSetAttrListListInt(attr_, "x", 1, nullptr, lists),
                        "numValues"));
  EXPECT_TRUE(FailsWith(
      100000, aclopSetAttrListListInt(attr_, "x", 1, one, lists), "values[0]"));
  EXPECT_TRUE(FailsWith(100000,
                        aclopSetAttrListListInt(attr_, "x", 1, less, lists),
                        "numValues[0]"));
  EXPECT_EQ(Kept("x"), Attribute(std::vector<std::vector<int64_t>>{}));
}

TEST_F(SingleOpAttribute, DestroysOnce) {
  aclopDestroyAttr(nullptr);
  EXPECT_EQ(Message(), "");
  aclopAttr* attr = aclopCreateAttr();
  aclopDestroyAttr(attr);
  EXPECT_EQ(Message(), "");
  aclopDestroyAttr(attr);
  EXPECT_NE(Message().find("set of attributes"), std::string::npos);
}

TEST_F(SingleOpAttribute, EveryThreadHasItsOwn) {
  std::vector<std::thread> threads;
  for (int64_t n = 0; n < 4; ++n) {
    threads.emplace_back([n] {
      for (int i = 0; i < 200; ++i) {
        aclopAttr* own = aclopCreateAttr();
        EXPECT_EQ(aclopSetAttrInt(own, "n", n), 0);
        EXPECT_EQ(Find<Attributes>(own)->values.at("n"), Attribute(n));
        aclopDestroyAttr(own);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace flashacl::acl
