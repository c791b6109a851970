// SPDX-License-Identifier: Apache-2.0
// The gradient of what a mask kept: aclnnDropoutBackward. Rules and limits are
// in docs/operators/dropout.md.
#include <array>

#include "aclnnop/aclnn_dropout_backward.h"
#include "ops/dropout_checks.h"
#include "ops/operators.h"

namespace flashacl::ops {
namespace {

using acl::Arguments;

constexpr std::array<acl::Argument, 3> kTable = MaskedTable("gradOutput");

struct Args {
  double scale;
};

MadeComputation Lower(const Arguments& arguments, const Args& args) {
  if (arguments[kMaskedRows.self].empty()) {
    return std::shared_ptr<const Computation>();
  }
  FLASHACL_RETURN_IF_ERROR(arguments.CheckTypes());
  const double scale = args.scale;
  if (scale != 0 && !(scale >= 1)) {
    return Invalid("scale: {}, expected 0 or at least 1", scale);
  }
  const Keep keep{scale == 0 ? 1 : 1 - 1 / scale, static_cast<float>(scale),
                  /*divides=*/false};
  return LowerKeep(arguments, kMaskedRows, keep, /*mask_may_be_larger=*/false);
}

}  // namespace

const acl::Operator kDropoutBackward{"aclnnDropoutBackward", kTable, 161002};

}  // namespace flashacl::ops

using namespace flashacl::ops;

extern "C" aclnnStatus aclnnDropoutBackwardGetWorkspaceSize(
    const aclTensor* gradOutput, const aclTensor* mask, double scale,
    aclTensor* out, uint64_t* workspaceSize, aclOpExecutor** executor) {
  return Prepare(kDropoutBackward, {gradOutput, mask, out}, Args{scale}, Lower,
                 {workspaceSize, executor});
}

FLASHACL_PHASE_TWO(aclnnDropoutBackward)
