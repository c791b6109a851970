// SPDX-License-Identifier: Apache-2.0
// Types, shapes and strides of elementwise operators.
#include "ops/elementwise.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "acl/array.h"
#include "acl/raw_enum.h"
#include "acl/tensor.h"
#include "base/str.h"

namespace flashacl::ops {
namespace {

using acl::Arguments;
using acl::Entry;
using acl::Tensor;
using elementwise::IsComplex;
using elementwise::IsFloat;

struct TypeFact {
  aclDataType number;
  Type type;
  std::string_view name;
  bool promotes;
};

constexpr TypeFact kTypes[] = {
    {ACL_FLOAT16, Type::kF16, "FLOAT16", true},
    {ACL_BF16, Type::kBf16, "BFLOAT16", true},
    {ACL_FLOAT, Type::kF32, "FLOAT", true},
    {ACL_DOUBLE, Type::kF64, "DOUBLE", true},
    {ACL_INT8, Type::kI8, "INT8", true},
    {ACL_INT16, Type::kI16, "INT16", true},
    {ACL_INT32, Type::kI32, "INT32", true},
    {ACL_INT64, Type::kI64, "INT64", true},
    {ACL_UINT8, Type::kU8, "UINT8", true},
    {ACL_BOOL, Type::kBool, "BOOL", true},
    {ACL_UINT16, Type::kU16, "UINT16", false},
    {ACL_UINT32, Type::kU32, "UINT32", false},
    {ACL_UINT64, Type::kU64, "UINT64", false},
    {ACL_COMPLEX64, Type::kC64, "COMPLEX64", false},
    {ACL_COMPLEX128, Type::kC128, "COMPLEX128", false},
};

// Null if it is none of the above.
const TypeFact* Find(int number) {
  const auto* const found = std::ranges::find_if(
      kTypes, [number](const TypeFact& fact) { return fact.number == number; });
  return found == std::end(kTypes) ? nullptr : found;
}

std::string Expected(Takes takes) {
  std::string names;
  for (const TypeFact& fact : kTypes) {
    if (takes == Takes::kNumbers && !fact.promotes) continue;
    names += Str("{}{}", names.empty() ? "" : ", ", fact.name);
  }
  return names;
}

Status CheckEntry(const acl::Argument& row, const Tensor& tensor, Takes takes) {
  const TypeFact* const fact = Find(acl::Raw(tensor.acl_dtype));
  if (fact == nullptr || (takes == Takes::kNumbers && !fact->promotes)) {
    return Invalid("{}: data type {}, expected {}", row.name,
                   TypeWithNumber(tensor), Expected(takes));
  }
  if (tensor.elements() >= int64_t{1} << 59) {
    return Invalid("{}: shape {} has 2^59 elements or more", row.name,
                   ShapeText(tensor));
  }
  return {};
}

std::string Text(const Shape& shape) { return Str("[{}]", Join(shape, ", ")); }

Shape ShapeOf(const Tensor& tensor) {
  return {tensor.shape().begin(), tensor.shape().end()};
}

// Axis `axis` of `rank` as the tensor has it; 1 where it has none.
int64_t ExtentAt(const Tensor& tensor, size_t axis, size_t rank) {
  const size_t missing = rank - tensor.rank;
  return axis < missing ? 1 : tensor.dims[axis - missing];
}

}  // namespace

std::string TypeWithNumber(const Tensor& tensor) {
  const int number = acl::Raw(tensor.acl_dtype);
  const TypeFact* const fact = Find(number);
  return Str("{} ({})", fact == nullptr ? "that is not supported" : fact->name,
             number);
}

std::string_view TypeText(Type type) {
  for (const TypeFact& fact : kTypes) {
    if (fact.type == type) return fact.name;
  }
  return "";
}

Status CheckElements(const Arguments& arguments, Takes takes) {
  const auto row = [&](const Entry& entry) -> const acl::Argument& {
    return arguments.table()[static_cast<size_t>(entry.argument)];
  };
  for (const Entry& entry : arguments.entries()) {
    FLASHACL_RETURN_IF_ERROR(CheckEntry(row(entry), *entry.tensor, takes));
  }
  FLASHACL_RETURN_IF_ERROR(arguments.CheckTypes());
  for (const Entry& entry : arguments.entries()) {
    if (!row(entry).output) continue;
    FLASHACL_RETURN_IF_ERROR(acl::CheckApart(row(entry).name, *entry.tensor));
  }
  return {};
}

Type TypeOf(const Tensor& tensor) {
  return Find(acl::Raw(tensor.acl_dtype))->type;
}

Result<Type> ReadType(std::string_view name, int number) {
  if (const TypeFact* const fact = Find(number)) return fact->type;
  return Invalid("{}: data type {}, expected {}", name, number,
                 Expected(Takes::kAll));
}

Type Promoted(Type one, Type other) {
  if (one == other) return one;
  if (one == Type::kBool) return other;
  if (other == Type::kBool) return one;
  if (IsFloat(one) != IsFloat(other)) return IsFloat(one) ? one : other;
  if (IsFloat(one)) {
    const bool any_double = one == Type::kF64 || other == Type::kF64;
    return any_double ? Type::kF64 : Type::kF32;  // f16 and bf16 meet there
  }
  if (one == Type::kU8 || other == Type::kU8) {
    const Type with_sign = one == Type::kU8 ? other : one;
    return with_sign == Type::kI8 ? Type::kI16 : with_sign;
  }
  return elementwise::SizeOf(one) > elementwise::SizeOf(other) ? one : other;
}

bool ResultConverts(Type from, Type to) {
  if (IsComplex(from) || IsComplex(to)) return from == to;
  if (from == Type::kBool) return true;
  if (to == Type::kBool) return false;
  return !IsFloat(from) || IsFloat(to);
}

Status ReadAlpha(const aclScalar* alpha, Type promoted, Operation& operation) {
  const std::shared_ptr<acl::Scalar> live = acl::Find<acl::Scalar>(alpha);
  if (live == nullptr) {
    return Invalid("alpha: this is not a live aclScalar{}",
                   acl::IfParents<acl::Scalar>(alpha));
  }
  const TypeFact* const fact = Find(acl::Raw(live->type));
  if (fact == nullptr || !fact->promotes) {
    return Invalid("alpha: data type {}, expected {}", acl::Raw(live->type),
                   Expected(Takes::kNumbers));
  }
  if (IsFloat(fact->type) && !IsFloat(promoted)) {
    return Invalid("alpha: {} does not convert to {}, the type of the sum",
                   fact->name, TypeText(promoted));
  }
  const Type type = elementwise::ArithmeticType(promoted);
  elementwise::Alpha one{};
  elementwise::ConvertLoopOf(fact->type, type)(
      {reinterpret_cast<const std::byte*>(live->bytes.data()), 1},
      {operation.alpha.data(), 1}, 1);
  const std::byte number{1};
  elementwise::ConvertLoopOf(Type::kI8, type)({&number, 1}, {one.data(), 1}, 1);
  operation.scaled = operation.alpha != one;
  return {};
}

Result<Shape> BroadcastShape(const Arguments& arguments, int one, int other) {
  const Tensor& a = arguments[one];
  const Tensor& b = arguments[other];
  Shape shape(std::max(a.rank, b.rank));
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    const int64_t of_a = ExtentAt(a, axis, shape.size());
    const int64_t of_b = ExtentAt(b, axis, shape.size());
    if (of_a != of_b && of_a != 1 && of_b != 1) {
      return Invalid("{}: shape {} does not broadcast with {} of {}",
                     arguments.name(other), ShapeText(b), ShapeText(a),
                     arguments.name(one));
    }
    shape[axis] = of_a == 1 ? of_b : of_a;
  }
  return shape;
}

Status CheckShape(const Arguments& arguments, int row, const Shape& shape,
                  std::string_view whose) {
  if (std::ranges::equal(arguments[row].shape(), shape)) return {};
  return Invalid("{}: shape {}, expected {}{}", arguments.name(row),
                 ShapeText(arguments[row]), Text(shape), whose);
}

elementwise::Operand Walked(const Arguments& arguments, int row,
                            const Shape& shape) {
  const Tensor& tensor = arguments[row];
  elementwise::Operand operand;
  operand.argument = static_cast<size_t>(row);
  operand.type = TypeOf(tensor);
  operand.offset = tensor.offset;
  const size_t missing = shape.size() - tensor.rank;
  for (size_t axis = 0; axis < tensor.rank; ++axis) {
    const bool repeats = tensor.dims[axis] != shape[missing + axis];
    operand.strides[missing + axis] = repeats ? 0 : tensor.strides[axis];
  }
  return operand;
}

Status LowerTwoInputs(const Arguments& arguments, const TwoInputs& rows,
                      Operation& operation) {
  const Type promoted =
      Promoted(TypeOf(arguments[rows.self]), TypeOf(arguments[rows.other]));
  if (!ResultConverts(promoted, TypeOf(arguments[rows.out]))) {
    return Invalid(
        "{}: data type {}, but the result is {}, which does not "
        "convert to it",
        arguments.name(rows.out), TypeWithNumber(arguments[rows.out]),
        TypeText(promoted));
  }
  const Result<Shape> shape = BroadcastShape(arguments, rows.self, rows.other);
  if (!shape.ok()) return shape.status();
  const std::string whose =
      Str(", to which {} and {} broadcast", arguments.name(rows.self),
          arguments.name(rows.other));
  FLASHACL_RETURN_IF_ERROR(CheckShape(arguments, rows.out, *shape, whose));
  operation.type = promoted;
  operation.extents = *shape;
  operation.inputs = {Walked(arguments, rows.self, *shape),
                      Walked(arguments, rows.other, *shape)};
  operation.out = Walked(arguments, rows.out, *shape);
  return {};
}

Status LowerCopy(const Arguments& arguments, int self, int out,
                 Operation& operation) {
  const Type from = TypeOf(arguments[self]);
  const Type to = TypeOf(arguments[out]);
  if ((IsComplex(from) || IsComplex(to)) && from != to) {
    return Invalid(
        "{}: data type {}, but complex numbers are copied as they "
        "are, and {} has {}",
        arguments.name(self), TypeWithNumber(arguments[self]),
        arguments.name(out), TypeText(to));
  }
  const Shape shape = ShapeOf(arguments[out]);
  const Tensor& tensor = arguments[self];
  bool fits = tensor.rank <= shape.size();
  for (size_t axis = 0; fits && axis < shape.size(); ++axis) {
    const int64_t extent = ExtentAt(tensor, axis, shape.size());
    fits = extent == 1 || extent == shape[axis];
  }
  if (!fits) {
    return Invalid("{}: shape {} does not broadcast to {} of {}",
                   arguments.name(self), ShapeText(tensor), Text(shape),
                   arguments.name(out));
  }
  operation.kind = elementwise::Kind::kCopy;
  operation.type = to;
  operation.extents = shape;
  operation.inputs = {Walked(arguments, self, shape)};
  operation.out = Walked(arguments, out, shape);
  return {};
}

MadeComputation Make(Operation operation) {
  if (std::ranges::count(operation.extents, 0) > 0) {
    return std::shared_ptr<const Computation>();
  }
  return elementwise::MakeElementwise(std::move(operation));
}

}  // namespace flashacl::ops
