// SPDX-License-Identifier: Apache-2.0
// What programs do wrong in phase one. Phase two and handles:
// misuse_handles_test.cc; the runtime: tests/acl.
#include "tests/testing/misuse.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "acl/acl.h"
#include "tests/testing/operator_call.h"
#include "tests/testing/runtime.h"

namespace flashacl::testing {
namespace {

// Rows of the call's tensors, and of its other arguments.
enum Of { kQuery = 0, kKey = 1, kMask = 6, kOut = 10 };
enum Array { kQueryEnds = 1, kKeyEnds = 2 };
enum Integer { kHeadNum = 2, kSparseMode = 4 };
constexpr size_t kKeepProb = 1, kLayout = 0;

// Attention to packed sequences of 3 rows and 4 keys each.
OperatorCall Attention() { return AllOperatorCalls()[0]; }

OperatorCall CallOf(std::string_view name) {
  for (const OperatorCall& call : AllOperatorCalls()) {
    if (name == call.name) return call;
  }
  ADD_FAILURE() << name;
  return Attention();
}

using Change = std::function<void(OperatorCall&)>;

// Phase one of the call with a change.
std::function<int(Scene&)> Planned(Change change) {
  return [change = std::move(change)](Scene&) {
    OperatorCall call = Attention();
    change(call);
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    const int status = call.Prepare(&size, &executor);
    if (status == 0) aclDestroyAclOpExecutor(executor);
    return status;
  };
}

Change Dims(size_t tensor, std::vector<int64_t> dims) {
  return [=](OperatorCall& c) { c.tensors[tensor].dims = dims; };
}
Change Type(size_t tensor, int type) {
  return [=](OperatorCall& c) {
    c.tensors[tensor].type = static_cast<aclDataType>(type);
  };
}
Change Ends(size_t array, std::vector<int64_t> ends) {
  return [=](OperatorCall& c) { c.arrays[array] = ends; };
}
Change Number(size_t integer, int64_t value) {
  return [=](OperatorCall& c) { c.integers[integer] = value; };
}
Change Real(size_t real, double value) {
  return [=](OperatorCall& c) { c.reals[real] = value; };
}

using Misused = RuntimeTest;

TEST_F(Misused, TensorsOfPhaseOne) {
  ExpectRefusals({
      {"no query",
       Planned([](OperatorCall& c) { c.tensors[kQuery].present = false; }),
       161001,
       {"query", "cannot be nullptr"}},
      {"a query of DOUBLE",
       Planned(Type(kQuery, ACL_DOUBLE)),
       161002,
       {"query", "DOUBLE (11)", "expected FLOAT16, BFLOAT16, FLOAT"}},
      {"a query of a type that nobody knows",
       Planned(Type(kQuery, 63)),
       161002,
       {"query", "63", "expected FLOAT16, BFLOAT16, FLOAT"}},
      {"a query of one dimension",
       Planned(Dims(kQuery, {3})),
       161002,
       {"query", "[3]", "1 dimensions", "layout TND has 3"}},
      {"a query of nine dimensions",
       Planned(Dims(kQuery, {1, 1, 1, 1, 1, 1, 1, 1, 1})),
       161001,
       {"query", "9 dimensions", "8"}},
      {"a query of eleven dimensions",
       Planned(Dims(kQuery, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1})),
       161001,
       {"query", "11 dimensions", "8"}},
      {"a key of other channels",
       Planned(Dims(kKey, {8, 2, 9})),
       161002,
       {"key", "head dim 9", "query head dim 8"}},
  });
}

TEST_F(Misused, ViewsOfPhaseOne) {
  ExpectRefusals({
      {"a query of -6 rows",
       Planned(Dims(kQuery, {-6, 4, 8})),
       161001,
       {"query", "viewDims", "[-6, 4, 8]", "negative extent"}},
      {"a query of more elements than numbers count",
       Planned(Dims(kQuery, {INT64_MAX / 2, 4, 8})),
       161002,
       {"query", "4611686018427387903"}},
      {"a query with a negative stride",
       Planned([](OperatorCall& c) {
         c.tensors[kQuery].strides = {-32, 8, 1};
       }),
       161002,
       {"query", "stride", "-32"}},
      {"a query at a negative offset",
       Planned([](OperatorCall& c) { c.tensors[kQuery].offset = -1; }),
       161002,
       {"query", "offset", "-1"}},
      {"a query in a private format",
       Planned([](OperatorCall& c) {
         c.tensors[kQuery].format = ACL_FORMAT_FRACTAL_NZ;
       }),
       161002,
       {"query", "format 29", "expected ND"}},
      {"a mask of another shape",
       Planned(Dims(kMask, {3, 5})),
       561103,
       {"attenMaskOptional", "[3, 5]", "expected [3, 4]"}},
      {"an output of another shape",
       Planned(Dims(kOut, {6, 4, 9})),
       161002,
       {"attentionOutOut", "[6, 4, 9]", "expected [6, 4, 8]"}},
      {"an output of another type",
       Planned(Type(kOut, ACL_INT8)),
       161002,
       {"attentionOutOut", "INT8 (2)", "expected FLOAT16, BFLOAT16, FLOAT"}},
  });
}

TEST_F(Misused, NumbersOfPhaseOne) {
  constexpr int kDeep = 561103;
  ExpectRefusals({
      {"a layout that is none",
       Planned([](OperatorCall& c) { c.texts[kLayout] = "ABC"; }),
       161002,
       {"inputLayout", "\"ABC\"", "expected \"TND\""}},
      {"no layout",
       Planned([](OperatorCall& c) { c.texts[kLayout].reset(); }),
       161001,
       {"inputLayout", "cannot be nullptr"}},
      {"-1 heads",
       Planned(Number(kHeadNum, -1)),
       161002,
       {"headNum", "-1", "expected at least 1"}},
      {"no heads",
       Planned(Number(kHeadNum, 0)),
       161002,
       {"headNum", "0", "expected at least 1"}},
      {"99 heads of 4",
       Planned(Number(kHeadNum, 99)),
       kDeep,
       {"headNum", "99", "4 heads of query"}},
      {"sparse mode 99",
       Planned(Number(kSparseMode, 99)),
       kDeep,
       {"sparseMode", "99", "expected 0 to"}},
  });
}

TEST_F(Misused, LengthsOfPhaseOne) {
  constexpr int kDeep = 561103;
  ExpectRefusals({
      {"ends that decrease, of a mask for other lengths",
       Planned(Ends(kQueryEnds, {6, 3})),
       kDeep,
       {"attenMaskOptional", "[3, 4]", "expected [6, 4]"}},
      {"a negative length",
       [](Scene&) {
         OperatorCall call = CallOf("aclnnPromptFlashAttentionV3");
         call.arrays[0] = {{-2, 3}};
         uint64_t size = 0;
         aclOpExecutor* executor = nullptr;
         return call.Prepare(&size, &executor);
       },
       kDeep,
       {"actualSeqLengths", "-2"}},
      {"ends past the rows",
       Planned(Ends(kKeyEnds, {4, 99})),
       kDeep,
       {"actualSeqKvLenOptional", "99", "8"}},
      {"an end that overflows",
       Planned(Ends(kKeyEnds, {4, INT64_MAX})),
       kDeep,
       {"actualSeqKvLenOptional", "9223372036854775807", "8"}},
      {"ends of another number of sequences",
       Planned(Ends(kQueryEnds, {3, 4, 6})),
       kDeep,
       {"actualSeqKvLenOptional", "2 elements", "actualSeqQLenOptional has 3"}},
      {"no ends",
       Planned([](OperatorCall& c) { c.arrays[kQueryEnds].reset(); }),
       161001,
       {"actualSeqQLenOptional", "cannot be nullptr"}},
      {"dropout that keeps nothing",
       Planned(Real(kKeepProb, 0)),
       kDeep,
       {"keepProbOptional", "0", "more than 0 and at most 1"}},
      {"dropout that keeps 2",
       Planned(Real(kKeepProb, 2)),
       kDeep,
       {"keepProbOptional", "2", "more than 0 and at most 1"}},
  });
}

}  // namespace
}  // namespace flashacl::testing
