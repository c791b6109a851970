// SPDX-License-Identifier: Apache-2.0
// What Add, Mul, InplaceCopy and Cast share: which element types there are and
// what becomes of them, which shapes go together, and how a call becomes an
// operation. Errors are kInvalidArgument and name the argument.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "acl/arguments.h"
#include "aclnn/acl_meta.h"
#include "base/status.h"
#include "elementwise/elementwise.h"
#include "ops/entry.h"

namespace flashacl::ops {

using elementwise::Operation;
using elementwise::Type;

// Which types an operator takes.
enum class Takes : uint8_t {
  kNumbers,  // what promotes: floats, signed integers, UINT8, BOOL
  kAll,      // and other unsigned integers and complex numbers
};

// "FLOAT16 (1)" of a tensor.
std::string TypeWithNumber(const acl::Tensor& tensor);
// As the documents spell it.
std::string_view TypeText(Type type);

// Formats and strides can be followed, types are known, results are apart.
Status CheckElements(const acl::Arguments& arguments, Takes takes);

// Of a tensor that was checked.
Type TypeOf(const acl::Tensor& tensor);
// Of a number as it came from C.
Result<Type> ReadType(std::string_view name, int number);

// The type in which two tensors meet: PyTorch's, of tensors with axes. Of
// kNumbers.
Type Promoted(Type one, Type other);
// Whether a result becomes another type: nothing becomes BOOL but BOOL, and
// floats remain floats.
bool ResultConverts(Type from, Type to);

// The host scalar `alpha` as an element of what `promoted` is computed in, and
// whether it is not 1.
Status ReadAlpha(const aclScalar* alpha, Type promoted, Operation& operation);

// A shape that tensors are broadcast to, from the last axis on.
using Shape = std::vector<int64_t>;

// That of the tensors in two rows.
Result<Shape> BroadcastShape(const acl::Arguments& arguments, int one,
                             int other);
// The tensor in `row` has this shape; `whose` says where it is from.
Status CheckShape(const acl::Arguments& arguments, int row, const Shape& shape,
                  std::string_view whose);

// The tensor in `row`, broadcast to `shape`.
elementwise::Operand Walked(const acl::Arguments& arguments, int row,
                            const Shape& shape);

// out = self op other for the rows of tables of the two: null if there are no
// elements.
struct TwoInputs {
  int self, other, out;
};
// Fills extents, operands and type of `operation`; alpha is the caller's.
Status LowerTwoInputs(const acl::Arguments& arguments, const TwoInputs& rows,
                      Operation& operation);

// out = self in out's type; self is broadcast.
Status LowerCopy(const acl::Arguments& arguments, int self, int out,
                 Operation& operation);

// Nothing where an extent is 0.
MadeComputation Make(Operation operation);

}  // namespace flashacl::ops
