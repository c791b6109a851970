// SPDX-License-Identifier: Apache-2.0
#include "verify/check/row_result_layout.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/str.h"
#include "problem/grid.h"
#include "verify/check/operand_rows.h"

namespace flashacl {
namespace {

constexpr int64_t kCopies = 8;  // of training's maxima and sums

// A letter for each axis: B sequences, S or T rows, N heads, C copies of a
// number, 1 one.
constexpr std::string_view kDense[] = {"BNSC", "BNS", "B1SN"};
constexpr std::string_view kPacked[] = {"TNC", "TN", "NTC", "NT", "1TN"};

// Of one sequence both, as its axis may be there or not.
std::vector<std::string_view> FormsOf(std::string_view layout,
                                      const RowExtents& extents) {
  std::vector<std::string_view> forms;
  const auto add = [&forms](std::span<const std::string_view> some) {
    forms.insert(forms.end(), some.begin(), some.end());
  };
  if (IsPacked(layout)) add(kPacked);
  if (!IsPacked(layout) || extents.sequences == 1) add(kDense);
  if (!IsPacked(layout) && extents.sequences == 1) add(kPacked);
  return forms;
}

bool Fits(char letter, int64_t dim, const RowExtents& extents, Slot slot) {
  switch (letter) {
    case 'B':
      return dim == extents.sequences;
    case 'S':
      return dim >= extents.longest;
    case 'T':
      return dim >= extents.total;
    case 'N':
      return dim == extents.heads;
    case 'C':
      return dim == 1 || (dim == kCopies && slot != Slot::kLse);
    default:
      return dim == 1;
  }
}

// Where axes are what the letters say.
std::optional<TensorSpec> SpecOf(std::string_view form, Slot slot,
                                 const std::vector<int64_t>& dims,
                                 const RowExtents& extents) {
  if (form.size() != dims.size()) return {};
  TensorSpec spec{.dtype = DType::kF32,
                  .dims = {std::max<int64_t>(extents.sequences, 1), 1, 1, 1},
                  .strides = {0, 0, 0, 1}};
  int64_t stride = 1;
  for (size_t n = form.size(); n-- > 0;) {
    const int64_t dim = dims[n];
    if (!Fits(form[n], dim, extents, slot)) return {};
    constexpr std::string_view kAxes = "BNSC";
    const char letter = form[n] == 'T' ? 'S' : form[n];
    const size_t axis = kAxes.find(letter);
    if (axis != kAxes.npos) {
      spec.dims[axis] = dim;
      spec.strides[axis] = stride;
    }
    if (form[n] == 'T') spec.placement = Placement::kTensorRows;
    stride *= std::max<int64_t>(dim, 1);
  }
  return spec;
}

TensorSpec InBlocks(const TensorSpec& spec) {
  return {.dtype = DType::kF32,
          .placement = Placement::kBlocks,
          .dims = {spec.dims[0], spec.dims[1], TensorSpec::kPerSequence,
                   spec.dims[3]},
          .strides = {0, 0, 0, 1}};
}

// Whether every row of every sequence and head is at the same place.
bool SamePlaces(const AttentionProblem& problem, const TensorSpec& a,
                const TensorSpec& b) {
  const std::vector<Sequence>& sequences = problem.lengths.sequences;
  const Grid first(a, sequences);
  const Grid second(b, sequences);
  for (int64_t n = 0; n < problem.lengths.count(); ++n) {
    const int64_t rows = sequences[static_cast<size_t>(n)].rows();
    for (int64_t h = 0; h < problem.heads && rows > 0; ++h) {
      const GridPlane here = first.Plane(n, h);
      const GridPlane there = second.Plane(n, h);
      if (here.At(0, 0) != there.At(0, 0)) return false;
      if (here.At(rows - 1, 0) != there.At(rows - 1, 0)) return false;
    }
  }
  return true;
}

// "(T, N, 8), (T, N, 1), (T, N)"
std::string FormsText(const std::vector<std::string_view>& forms, Slot slot) {
  std::vector<std::string> shapes;
  const auto add = [&](std::string_view form, int64_t copies) {
    std::vector<std::string> axes;
    for (const char letter : form) {
      axes.push_back(letter == 'C' ? Str("{}", copies)
                                   : std::string(1, letter));
    }
    shapes.push_back(Str("({})", Join(axes, ", ")));
  };
  for (const std::string_view form : forms) {
    const bool copies = form.back() == 'C';
    if (copies && slot != Slot::kLse) add(form, kCopies);
    add(form, 1);
  }
  return Join(shapes, ", ");
}

}  // namespace

Result<TensorSpec> RowResultSpec(const AttentionProblem& problem, Slot slot,
                                 const UserTensor& tensor,
                                 const RowResultLayout& layout) {
  const RowExtents extents = ExtentsOf(problem, slot);
  const std::vector<std::string_view> forms = FormsOf(layout.layout, extents);
  std::optional<TensorSpec> spec;
  for (const std::string_view form : forms) {
    spec = SpecOf(form, slot, tensor.dims, extents);
    if (spec) break;
  }
  const std::string shape = Join(tensor.dims, ", ");
  if (!spec) {
    return Invalid("{}: ({}) is none of {} with B={} S={} T={} N={}",
                   tensor.name, shape, FormsText(forms, slot),
                   extents.sequences, extents.longest, extents.total,
                   extents.heads);
  }
  const bool packed = spec->placement == Placement::kTensorRows;
  if (!packed || slot == Slot::kLse) return *spec;
  const TensorSpec blocks = InBlocks(*spec);
  if (layout.order == RowOrder::kBlocks) return blocks;
  if (layout.order == RowOrder::kRows || spec->dims[3] != kCopies ||
      SamePlaces(problem, *spec, blocks)) {
    return *spec;
  }
  return Contradiction(
      "{}: ({}) is in the order of its axes, layout={}:rows, or has a block "
      "(N, S, {}) for each sequence, layout={}:blocks, which is what packed "
      "training stores unless its softmaxOutLayout says otherwise: say which",
      tensor.name, shape, layout.layout, kCopies, layout.layout);
}

}  // namespace flashacl
