// SPDX-License-Identifier: Apache-2.0
// Masks of random bits: aclnnDropoutGenMask, V2, V2Tensor. Rules and limits are
// in docs/operators/dropout.md.
#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "acl/raw_enum.h"
#include "aclnnop/aclnn_dropout_gen_mask.h"
#include "ops/dropout_checks.h"
#include "ops/operators.h"

namespace flashacl::ops {
namespace {

using acl::Argument;
using acl::Arguments;

constexpr std::array<Argument, 1> kTable{Output("out", kMaskType)};

enum TensorRow { kSeed, kOffset, kTensorRowOut };
constexpr std::array<Argument, 3> kTensorTable{
    Required("seedTensor", acl::Bit(DType::kI64)),
    Required("offsetTensor", acl::Bit(DType::kI64)), Output("out", kMaskType)};

struct Args {
  const aclIntArray* shape;
  double prob;
  int64_t seed;  // where no tensor has it
  int64_t offset;
  int prob_type = acl::Raw(ACL_FLOAT);  // as the caller passed it
  int out_row = 0;
};

bool HasZero(const std::vector<int64_t>& shape) {
  return std::ranges::count(shape, 0) > 0;
}

Result<int64_t> ElementsOf(const std::vector<int64_t>& shape) {
  for (const int64_t axis : shape) {
    if (axis < 0) return Invalid("shape: axis {}, expected at least 0", axis);
  }
  if (HasZero(shape)) return int64_t{0};
  int64_t elements = 1;
  for (const int64_t axis : shape) {
    if (__builtin_mul_overflow(elements, axis, &elements)) {
      return Invalid("shape: [{}] has 2^63 elements or more",
                     Join(shape, ", "));
    }
  }
  return elements;
}

Result<dropout::DeviceNumber> NumberOf(const Arguments& arguments, int row) {
  if (arguments[row].elements() != 1) {
    return Invalid("{}: shape {}, expected one element", arguments.name(row),
                   ShapeText(arguments[row]));
  }
  return dropout::DeviceNumber{static_cast<size_t>(row), arguments[row].offset};
}

Status CheckProbType(int number) {
  const int types[] = {acl::Raw(ACL_FLOAT), acl::Raw(ACL_FLOAT16),
                       acl::Raw(ACL_BF16)};
  if (std::ranges::count(types, number) > 0) return {};
  return Invalid(
      "probDataType: data type {}, expected FLOAT, FLOAT16 or BFLOAT16",
      number);
}

MadeComputation Lower(const Arguments& arguments, const Args& args) {
  if (args.shape == nullptr) {
    return NullArgument("The shape cannot be nullptr.");
  }
  const Result<std::vector<int64_t>> shape =
      acl::ReadArray("shape", args.shape);
  if (!shape.ok()) return shape.status();
  if (HasZero(*shape) && arguments[args.out_row].empty()) {
    return std::shared_ptr<const Computation>();
  }
  FLASHACL_RETURN_IF_ERROR(arguments.CheckTypes());
  dropout::Generator generator{
      .prob = args.prob, .seed = args.seed, .offset = args.offset};
  if (args.out_row == kTensorRowOut) {
    const auto seed = NumberOf(arguments, kSeed);
    if (!seed.ok()) return seed.status();
    const auto offset = NumberOf(arguments, kOffset);
    if (!offset.ok()) return offset.status();
    generator.device_seed = *seed;
    generator.device_offset = *offset;
  }
  FLASHACL_RETURN_IF_ERROR(CheckProbType(args.prob_type));
  FLASHACL_RETURN_IF_ERROR(CheckProb("prob", args.prob));
  const Result<int64_t> elements = ElementsOf(*shape);
  if (!elements.ok()) return elements.status();
  FLASHACL_RETURN_IF_ERROR(
      CheckMaskBytes(arguments, args.out_row, *elements, /*at_least=*/false));
  return dropout::MakeMask(std::move(generator),
                           MaskOf(arguments, args.out_row));
}

}  // namespace

const acl::Operator kDropoutGenMask{"aclnnDropoutGenMask", kTable, 161002};
const acl::Operator kDropoutGenMaskV2{"aclnnDropoutGenMaskV2", kTable, 161002};
const acl::Operator kDropoutGenMaskV2Tensor{"aclnnDropoutGenMaskV2Tensor",
                                            kTensorTable, 161002};

}  // namespace flashacl::ops

using namespace flashacl::ops;

extern "C" aclnnStatus aclnnDropoutGenMaskGetWorkspaceSize(
    const aclIntArray* shape, double prob, int64_t seed, int64_t offset,
    aclTensor* out, uint64_t* workspaceSize, aclOpExecutor** executor) {
  return Prepare(kDropoutGenMask, {out}, Args{shape, prob, seed, offset}, Lower,
                 {workspaceSize, executor});
}

extern "C" aclnnStatus aclnnDropoutGenMaskV2GetWorkspaceSize(
    const aclIntArray* shape, double prob, int64_t seed, int64_t offset,
    aclDataType probDataType, aclTensor* out, uint64_t* workspaceSize,
    aclOpExecutor** executor) {
  return Prepare(
      kDropoutGenMaskV2, {out},
      Args{shape, prob, seed, offset, flashacl::acl::Raw(probDataType)}, Lower,
      {workspaceSize, executor});
}

extern "C" aclnnStatus aclnnDropoutGenMaskV2TensorGetWorkspaceSize(
    const aclIntArray* shape, double prob, const aclTensor* seedTensor,
    const aclTensor* offsetTensor, int64_t offset, aclDataType probDataType,
    aclTensor* out, uint64_t* workspaceSize, aclOpExecutor** executor) {
  return Prepare(kDropoutGenMaskV2Tensor, {seedTensor, offsetTensor, out},
                 Args{shape, prob, 0, offset, flashacl::acl::Raw(probDataType),
                      kTensorRowOut},
                 Lower, {workspaceSize, executor});
}

FLASHACL_PHASE_TWO(aclnnDropoutGenMask)

FLASHACL_PHASE_TWO(aclnnDropoutGenMaskV2)

FLASHACL_PHASE_TWO(aclnnDropoutGenMaskV2Tensor)
