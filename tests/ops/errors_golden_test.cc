// SPDX-License-Identifier: Apache-2.0
// What each operator answers when one argument of a valid call is spoiled, as
// text: a change of a message shows up in review as a change of
// tests/golden/errors.txt. Run with FLASHACL_UPDATE_GOLDENS=1 to write it anew.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "base/str.h"
#include "ops/operators.h"
#include "tests/testing/operator_call.h"

namespace flashacl::testing {
namespace {

// The largest number that an aclDataType can hold, which is no type's.
constexpr auto kNoDataType = static_cast<aclDataType>(63);

constexpr char kPath[] = FLASHACL_SOURCE_DIR "/tests/golden/errors.txt";

// In order of declaration.
std::vector<std::string_view> NamesOf(const OperatorCall& call) {
  std::vector<std::string_view> names;
  for (const acl::Operator* op : ops::AllOperators()) {
    if (op->name != call.name) continue;
    for (const acl::Argument& argument : op->arguments) {
      if (argument.need != acl::Need::kAbsent) names.push_back(argument.name);
    }
  }
  return names;
}

// The text after the title of the last message, its first line.
std::string LastText() {
  const char* const message = aclGetRecentErrMsg();
  std::string text = message == nullptr ? "NO MESSAGE" : message;
  const size_t title = text.find("): ");
  if (title != std::string::npos) text.erase(0, title + 3);
  return text.substr(0, text.find('\n'));
}

// One line: what was spoiled, and the answer.
std::string Answer(const OperatorCall& call, const std::string& what) {
  aclGetRecentErrMsg();
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  const aclnnStatus status = call.Prepare(&size, &executor);
  if (status == 0) {
    aclDestroyAclOpExecutor(executor);
    return Str("  {}: accepted\n", what);
  }
  return Str("  {}: {} {}\n", what, status, LastText());
}

std::string SpoiledTensors(const OperatorCall& good) {
  using Spoil = std::function<void(TensorArgument&)>;
  const std::pair<const char*, Spoil> kWays[] = {
      {"null", [](TensorArgument& t) { t.present = false; }},
      {"of DOUBLE", [](TensorArgument& t) { t.type = ACL_DOUBLE; }},
      {"of one dimension", [](TensorArgument& t) { t.dims = {3}; }},
      {"longer by one", [](TensorArgument& t) { ++t.dims.back(); }},
      {"in NZ", [](TensorArgument& t) { t.format = ACL_FORMAT_FRACTAL_NZ; }},
      {"of rank 11", [](TensorArgument& t) { t.dims.assign(11, 1); }},
      {"of type 63", [](TensorArgument& t) { t.type = kNoDataType; }},
  };
  std::string text;
  const std::vector<std::string_view> names = NamesOf(good);
  EXPECT_EQ(names.size(), good.tensors.size()) << good.name;
  for (size_t n = 0; n < good.tensors.size(); ++n) {
    if (!good.tensors[n].present) continue;
    for (const auto& [way, spoil] : kWays) {
      OperatorCall call = good;
      spoil(call.tensors[n]);
      text += Answer(call, Str("{} {}", names[n], way));
    }
  }
  return text;
}

std::string SpoiledScalars(const OperatorCall& good) {
  std::string text;
  for (size_t n = 0; n < good.arrays.size(); ++n) {
    OperatorCall call = good;
    call.arrays[n].reset();
    text += Answer(call, Str("array {} null", n));
    call.arrays[n] = std::vector<int64_t>{1, 1000, 2};
    text += Answer(call, Str("array {} = 1, 1000, 2", n));
  }
  for (size_t n = 0; n < good.reals.size(); ++n) {
    OperatorCall call = good;
    call.reals[n] = -1;
    text += Answer(call, Str("real {} = -1", n));
  }
  for (size_t n = 0; n < good.integers.size(); ++n) {
    for (const int64_t value : {int64_t{-1}, int64_t{99}}) {
      OperatorCall call = good;
      call.integers[n] = value;
      text += Answer(call, Str("integer {} = {}", n, value));
    }
  }
  for (size_t n = 0; n < good.texts.size(); ++n) {
    OperatorCall call = good;
    call.texts[n].reset();
    text += Answer(call, Str("text {} null", n));
    call.texts[n] = "ABC";
    text += Answer(call, Str("text {} = ABC", n));
  }
  for (size_t n = 0; n < good.scalars.size(); ++n) {
    OperatorCall call = good;
    call.scalars[n].present = false;
    text += Answer(call, Str("scalar {} null", n));
    call.scalars[n] = {ACL_DOUBLE};
    text += Answer(call, Str("scalar {} of DOUBLE", n));
    call.scalars[n] = {ACL_UINT64};
    text += Answer(call, Str("scalar {} of UINT64", n));
  }
  return text;
}

TEST(Errors, AreAsReviewed) {
  std::string today;
  for (const OperatorCall& call : AllOperatorCalls()) {
    today += Str("{}\n", call.name);
    today += SpoiledTensors(call) + SpoiledScalars(call);
  }
  EXPECT_EQ(today.find("NO MESSAGE"), std::string::npos);
  if (std::getenv("FLASHACL_UPDATE_GOLDENS") != nullptr) {
    std::ofstream(kPath) << today;
    GTEST_SKIP() << "wrote " << kPath;
  }
  std::ifstream file(kPath);
  const std::string golden{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(today, golden)
      << "if the change is meant: FLASHACL_UPDATE_GOLDENS=1 and run again";
}

}  // namespace
}  // namespace flashacl::testing
