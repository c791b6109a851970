// SPDX-License-Identifier: Apache-2.0
// selfRef = src, broadcast and converted: aclnnInplaceCopy. Rules and limits
// are in docs/operators/elementwise.md.
#include <array>
#include <utility>

#include "aclnnop/aclnn_copy.h"
#include "ops/elementwise.h"
#include "ops/entry.h"
#include "ops/operators.h"

namespace flashacl::ops {
namespace {

using acl::Argument;
using acl::Arguments;

enum Row { kSelf, kSource, kRowCount };

// Not read, yet an input of CANN's operator: programs may set its address as
// that of either.
constexpr std::array<Argument, kRowCount> kTable{InPlace("selfRef"),
                                                 Required("src")};

struct Args {};

MadeComputation Lower(const Arguments& arguments, const Args&) {
  Operation operation;
  FLASHACL_RETURN_IF_ERROR(CheckElements(arguments, Takes::kAll));
  if (arguments[kSelf].empty() || arguments[kSource].empty()) {
    return std::shared_ptr<const Computation>();
  }
  FLASHACL_RETURN_IF_ERROR(LowerCopy(arguments, kSource, kSelf, operation));
  return Make(std::move(operation));
}

}  // namespace

const acl::Operator kInplaceCopy{"aclnnInplaceCopy", kTable, 161002};

}  // namespace flashacl::ops

using namespace flashacl::ops;

extern "C" aclnnStatus aclnnInplaceCopyGetWorkspaceSize(
    aclTensor* selfRef, const aclTensor* src, uint64_t* workspaceSize,
    aclOpExecutor** executor) {
  return Prepare(kInplaceCopy, {selfRef, src}, Args{}, Lower,
                 {workspaceSize, executor});
}

FLASHACL_PHASE_TWO(aclnnInplaceCopy)
