// SPDX-License-Identifier: Apache-2.0
// out = self * other: aclnnMul, aclnnInplaceMul. Rules and limits are in
// docs/operators/elementwise.md.
#include <array>
#include <utility>

#include "aclnnop/aclnn_mul.h"
#include "ops/elementwise.h"
#include "ops/entry.h"
#include "ops/operators.h"

namespace flashacl::ops {
namespace {

using acl::Argument;
using acl::Arguments;

constexpr std::array<Argument, 3> kTable{Required("self"), Required("other"),
                                         Output("out")};
constexpr TwoInputs kRows{0, 1, 2};

constexpr std::array<Argument, 2> kInPlace{InPlace("selfRef"),
                                           Required("other")};
constexpr TwoInputs kRowsInPlace{0, 1, 0};

MadeComputation Lower(const Arguments& arguments, const TwoInputs& rows) {
  Operation operation;
  operation.kind = elementwise::Kind::kMul;
  FLASHACL_RETURN_IF_ERROR(CheckElements(arguments, Takes::kNumbers));
  FLASHACL_RETURN_IF_ERROR(LowerTwoInputs(arguments, rows, operation));
  return Make(std::move(operation));
}

}  // namespace

const acl::Operator kMul{"aclnnMul", kTable, 161002};
const acl::Operator kInplaceMul{"aclnnInplaceMul", kInPlace, 161002};

}  // namespace flashacl::ops

using namespace flashacl::ops;

extern "C" aclnnStatus aclnnMulGetWorkspaceSize(const aclTensor* self,
                                                const aclTensor* other,
                                                aclTensor* out,
                                                uint64_t* workspaceSize,
                                                aclOpExecutor** executor) {
  return Prepare(kMul, {self, other, out}, kRows, Lower,
                 {workspaceSize, executor});
}

extern "C" aclnnStatus aclnnInplaceMulGetWorkspaceSize(
    aclTensor* selfRef, const aclTensor* other, uint64_t* workspaceSize,
    aclOpExecutor** executor) {
  return Prepare(kInplaceMul, {selfRef, other}, kRowsInPlace, Lower,
                 {workspaceSize, executor});
}

FLASHACL_PHASE_TWO(aclnnMul)

FLASHACL_PHASE_TWO(aclnnInplaceMul)
