// SPDX-License-Identifier: Apache-2.0
// What a mask keeps: aclnnDropoutDoMask. Rules and limits are in
// docs/operators/dropout.md.
#include <array>

#include "aclnnop/aclnn_dropout_do_mask.h"
#include "ops/dropout_checks.h"
#include "ops/operators.h"

namespace flashacl::ops {
namespace {

using acl::Arguments;

constexpr std::array<acl::Argument, 3> kTable = MaskedTable("self");

struct Args {
  double prob;
};

MadeComputation Lower(const Arguments& arguments, const Args& args) {
  if (arguments[kMaskedRows.self].empty()) {
    return std::shared_ptr<const Computation>();
  }
  FLASHACL_RETURN_IF_ERROR(arguments.CheckTypes());
  FLASHACL_RETURN_IF_ERROR(CheckProb("prob", args.prob));
  const Keep keep{args.prob, static_cast<float>(1 - args.prob)};
  return LowerKeep(arguments, kMaskedRows, keep, /*mask_may_be_larger=*/true);
}

}  // namespace

const acl::Operator kDropoutDoMask{"aclnnDropoutDoMask", kTable, 161002};

}  // namespace flashacl::ops

using namespace flashacl::ops;

extern "C" aclnnStatus aclnnDropoutDoMaskGetWorkspaceSize(
    const aclTensor* self, const aclTensor* mask, double prob, aclTensor* out,
    uint64_t* workspaceSize, aclOpExecutor** executor) {
  return Prepare(kDropoutDoMask, {self, mask, out}, Args{prob}, Lower,
                 {workspaceSize, executor});
}

FLASHACL_PHASE_TWO(aclnnDropoutDoMask)
