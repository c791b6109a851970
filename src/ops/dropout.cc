// SPDX-License-Identifier: Apache-2.0
// A mask and what it keeps: aclnnDropout. Rules and limits are in
// docs/operators/dropout.md.
#include <array>

#include "aclnnop/aclnn_dropout.h"
#include "ops/dropout_checks.h"
#include "ops/operators.h"

namespace flashacl::ops {
namespace {

using acl::Argument;
using acl::Arguments;

constexpr std::array<Argument, 3> kTable{Required("input", acl::kFloats),
                                         Output("out", kDropoutResults),
                                         Output("maskOut", kMaskType)};
constexpr DropoutRows kRows{.self = 0, .mask = 2, .out = 1};

struct Args {
  double p;
  bool train;
  int64_t seed, offset;
};

MadeComputation Lower(const Arguments& arguments, const Args& args) {
  if (arguments[kRows.self].empty()) {
    return std::shared_ptr<const Computation>();
  }
  FLASHACL_RETURN_IF_ERROR(arguments.CheckTypes());
  FLASHACL_RETURN_IF_ERROR(CheckProb("p", args.p));
  FLASHACL_RETURN_IF_ERROR(CheckSameShape(arguments, kRows));
  const double prob = args.train ? args.p : 0;
  if (prob == 0 || prob == 1) {
    return LowerAllOrNothing(arguments, kRows, prob);
  }
  FLASHACL_RETURN_IF_ERROR(CheckMaskBytes(arguments, kRows.mask,
                                          arguments[kRows.self].elements(),
                                          /*at_least=*/false));
  const Keep keep{prob, static_cast<float>(1 - prob)};
  return dropout::MakeDropout(
      {.prob = prob, .seed = args.seed, .offset = args.offset},
      SelectionOf(arguments, kRows, keep));
}

}  // namespace

const acl::Operator kDropout{"aclnnDropout", kTable, 161002};

}  // namespace flashacl::ops

using namespace flashacl::ops;

extern "C" aclnnStatus aclnnDropoutGetWorkspaceSize(
    const aclTensor* input, double p, bool train, int64_t seed, int64_t offset,
    aclTensor* out, aclTensor* maskOut, uint64_t* workspaceSize,
    aclOpExecutor** executor) {
  return Prepare(kDropout, {input, out, maskOut}, Args{p, train, seed, offset},
                 Lower, {workspaceSize, executor});
}

FLASHACL_PHASE_TWO(aclnnDropout)
