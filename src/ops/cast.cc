// SPDX-License-Identifier: Apache-2.0
// out = self as another type: aclnnCast. Rules and limits are in
// docs/operators/elementwise.md.
#include <array>
#include <utility>

#include "acl/raw_enum.h"
#include "aclnnop/aclnn_cast.h"
#include "ops/elementwise.h"
#include "ops/entry.h"
#include "ops/operators.h"

namespace flashacl::ops {
namespace {

using acl::Argument;
using acl::Arguments;

enum Row { kSelf, kOut, kRowCount };

constexpr std::array<Argument, kRowCount> kTable{Required("self"),
                                                 Output("out")};

struct Args {
  int type;  // as the caller passed it
};

MadeComputation Lower(const Arguments& arguments, const Args& args) {
  Operation operation;
  FLASHACL_RETURN_IF_ERROR(CheckElements(arguments, Takes::kAll));
  const Result<Type> type = ReadType("dtype", args.type);
  if (!type.ok()) return type.status();
  if (TypeOf(arguments[kOut]) != *type) {
    return Invalid("out: data type {}, expected {} as dtype",
                   TypeWithNumber(arguments[kOut]), TypeText(*type));
  }
  const auto shape = arguments[kSelf].shape();
  FLASHACL_RETURN_IF_ERROR(
      CheckShape(arguments, kOut, {shape.begin(), shape.end()}, " as self"));
  FLASHACL_RETURN_IF_ERROR(LowerCopy(arguments, kSelf, kOut, operation));
  return Make(std::move(operation));
}

}  // namespace

const acl::Operator kCast{"aclnnCast", kTable, 161002};

}  // namespace flashacl::ops

using namespace flashacl::ops;

extern "C" aclnnStatus aclnnCastGetWorkspaceSize(const aclTensor* self,
                                                 const aclDataType dtype,
                                                 aclTensor* out,
                                                 uint64_t* workspaceSize,
                                                 aclOpExecutor** executor) {
  return Prepare(kCast, {self, out}, Args{flashacl::acl::Raw(dtype)}, Lower,
                 {workspaceSize, executor});
}

FLASHACL_PHASE_TWO(aclnnCast)
