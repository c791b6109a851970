// SPDX-License-Identifier: Apache-2.0
// Probabilities, masks and what they keep.
#include "ops/dropout_checks.h"

#include <utility>

#include "acl/tensor.h"

namespace flashacl::ops {

using acl::Arguments;
using acl::Tensor;

Status CheckProb(std::string_view name, double prob) {
  if (prob >= 0 && prob <= 1) return {};  // a NaN is neither
  return Invalid("{}: {}, expected 0 to 1", name, prob);
}

Status CheckMaskBytes(const Arguments& arguments, int row, int64_t elements,
                      bool at_least) {
  const int64_t bytes = dropout::MaskBytes(elements);
  const int64_t given = arguments[row].elements();
  if (given == bytes || (at_least && given > bytes)) return {};
  return Invalid("{}: shape {} has {} elements, expected {}{} for the {} bits",
                 arguments.name(row), ShapeText(arguments[row]), given,
                 at_least ? "at least " : "", bytes, elements);
}

dropout::MaskTensor MaskOf(const Arguments& arguments, int row) {
  const Tensor& tensor = arguments[row];
  const auto rank = static_cast<int64_t>(tensor.rank);
  // Member by member: where the second of two in braces throws, GCC 11 forgets
  // the first.
  dropout::MaskTensor mask;
  mask.argument = static_cast<size_t>(row);
  mask.extents.assign(tensor.dims.begin(), tensor.dims.begin() + rank);
  mask.strides.assign(tensor.strides.begin(), tensor.strides.begin() + rank);
  mask.offset = tensor.offset;
  return mask;
}

Status CheckSameShape(const Arguments& arguments, const DropoutRows& rows) {
  const auto shape = arguments[rows.self].shape();
  return CheckShape(arguments, rows.out, {shape.begin(), shape.end()},
                    Str(" as {}", arguments.name(rows.self)));
}

dropout::Selection SelectionOf(const Arguments& arguments,
                               const DropoutRows& rows, const Keep& keep) {
  const auto dims = arguments[rows.self].shape();
  const Shape shape(dims.begin(), dims.end());
  dropout::Selection selection;  // member by member, as above
  selection.extents = shape;
  selection.self = Walked(arguments, rows.self, shape);
  selection.out = Walked(arguments, rows.out, shape);
  selection.mask = MaskOf(arguments, rows.mask);
  selection.amount = keep.amount;
  selection.divides = keep.divides;
  return selection;
}

MadeComputation LowerAllOrNothing(const Arguments& arguments,
                                  const DropoutRows& rows, double prob) {
  if (prob == 0) {
    Operation copy;
    FLASHACL_RETURN_IF_ERROR(LowerCopy(arguments, rows.self, rows.out, copy));
    return Make(std::move(copy));
  }
  dropout::Selection nothing = SelectionOf(arguments, rows, {});
  nothing.mask.reset();
  return dropout::MakeSelection(std::move(nothing));
}

MadeComputation LowerKeep(const Arguments& arguments, const DropoutRows& rows,
                          const Keep& keep, bool mask_may_be_larger) {
  FLASHACL_RETURN_IF_ERROR(CheckSameShape(arguments, rows));
  const bool reads_mask = keep.prob > 0 && keep.prob < 1;
  if (reads_mask || !arguments[rows.mask].empty()) {
    FLASHACL_RETURN_IF_ERROR(CheckMaskBytes(arguments, rows.mask,
                                            arguments[rows.self].elements(),
                                            mask_may_be_larger));
  }
  if (!reads_mask) return LowerAllOrNothing(arguments, rows, keep.prob);
  return dropout::MakeSelection(SelectionOf(arguments, rows, keep));
}

}  // namespace flashacl::ops
