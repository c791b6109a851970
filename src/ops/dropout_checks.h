// SPDX-License-Identifier: Apache-2.0
// What the operators of dropout share: the range of probabilities, the size of
// masks, and what is kept of a tensor. Errors are kInvalidArgument and name the
// argument.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "acl/arguments.h"
#include "base/status.h"
#include "dropout/dropout.h"
#include "ops/elementwise.h"
#include "ops/entry.h"

namespace flashacl::ops {

inline constexpr acl::DTypeSet kMaskType = acl::Bit(DType::kU8);
// What a tensor with dropped elements may be.
inline constexpr acl::DTypeSet kDropoutResults =
    acl::kFloats | acl::Bit(DType::kF64);

// What a mask keeps of the tensor that is called `self`.
constexpr std::array<acl::Argument, 3> MaskedTable(std::string_view self) {
  return {Required(self, acl::kFloats), Required("mask", kMaskType),
          Output("out", kDropoutResults)};
}
// Rows of a table.
struct DropoutRows {
  int self, mask, out;
};
inline constexpr DropoutRows kMaskedRows{0, 1, 2};

Status CheckProb(std::string_view name, double prob);

// The mask in `row` has the bytes of `elements`, or more where `at_least`.
Status CheckMaskBytes(const acl::Arguments& arguments, int row,
                      int64_t elements, bool at_least);

// The mask in `row`.
dropout::MaskTensor MaskOf(const acl::Arguments& arguments, int row);

// What is done with what is kept.
struct Keep {
  double prob = 0;  // 0: all is kept; 1: nothing
  float amount = 1;
  bool divides = true;  // else multiplies
};

// out's shape is that of `self`.
Status CheckSameShape(const acl::Arguments& arguments, const DropoutRows& rows);

// What `keep` leaves of the tensor, which has elements; for a prob of neither 0
// nor 1.
dropout::Selection SelectionOf(const acl::Arguments& arguments,
                               const DropoutRows& rows, const Keep& keep);

// The computation of a selection, of a copy or of zeros, by the mask that is
// passed. The table's types have not been checked before.
MadeComputation LowerKeep(const acl::Arguments& arguments,
                          const DropoutRows& rows, const Keep& keep,
                          bool mask_may_be_larger);

// out = self, or zeros, for a prob of 0 or 1.
MadeComputation LowerAllOrNothing(const acl::Arguments& arguments,
                                  const DropoutRows& rows, double prob);

}  // namespace flashacl::ops
