// SPDX-License-Identifier: Apache-2.0
// out = self + alpha * other: aclnnAdd, aclnnInplaceAdd. Rules and limits are
// in docs/operators/elementwise.md.
#include <array>
#include <utility>

#include "aclnnop/aclnn_add.h"
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

struct Args {
  const TwoInputs& rows;
  const aclScalar* alpha;
};

MadeComputation Lower(const Arguments& arguments, const Args& args) {
  Operation operation;
  operation.kind = elementwise::Kind::kAdd;
  if (args.alpha == nullptr) {
    return NullArgument("The alpha cannot be nullptr.");
  }
  FLASHACL_RETURN_IF_ERROR(CheckElements(arguments, Takes::kNumbers));
  const Type promoted = Promoted(TypeOf(arguments[args.rows.self]),
                                 TypeOf(arguments[args.rows.other]));
  FLASHACL_RETURN_IF_ERROR(ReadAlpha(args.alpha, promoted, operation));
  FLASHACL_RETURN_IF_ERROR(LowerTwoInputs(arguments, args.rows, operation));
  return Make(std::move(operation));
}

}  // namespace

const acl::Operator kAdd{"aclnnAdd", kTable, 161002};
const acl::Operator kInplaceAdd{"aclnnInplaceAdd", kInPlace, 161002};

}  // namespace flashacl::ops

using namespace flashacl::ops;

extern "C" aclnnStatus aclnnAddGetWorkspaceSize(
    const aclTensor* self, const aclTensor* other, const aclScalar* alpha,
    aclTensor* out, uint64_t* workspaceSize, aclOpExecutor** executor) {
  return Prepare(kAdd, {self, other, out}, Args{kRows, alpha}, Lower,
                 {workspaceSize, executor});
}

extern "C" aclnnStatus aclnnInplaceAddGetWorkspaceSize(
    const aclTensor* selfRef, const aclTensor* other, const aclScalar* alpha,
    uint64_t* workspaceSize, aclOpExecutor** executor) {
  return Prepare(kInplaceAdd, {selfRef, other}, Args{kRowsInPlace, alpha},
                 Lower, {workspaceSize, executor});
}

FLASHACL_PHASE_TWO(aclnnAdd)

FLASHACL_PHASE_TWO(aclnnInplaceAdd)
