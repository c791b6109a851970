// SPDX-License-Identifier: Apache-2.0
#include "verify/check/tensor_layout.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "base/nearest.h"
#include "base/number.h"
#include "base/str.h"

namespace flashacl {
namespace {

constexpr std::string_view kLayouts[] = {"BSND", "BNSD", "SBND", "BSH",
                                         "SBH",  "TND",  "NTD",  "TH"};
constexpr std::string_view kPageLayouts[] = {"PRND", "PNRD", "PRH"};

// Whether an axis of this letter may be so long; `exact` if it has no rows to
// spare.
bool Fits(char letter, int64_t dim, const RowExtents& extents, bool& exact) {
  switch (letter) {
    case 'B':
      return dim == extents.sequences;
    case 'S':
      exact = exact && dim == extents.longest;
      return dim >= extents.longest;
    case 'T':
      exact = exact && dim == extents.total;
      return dim >= extents.total;
    case 'N':
      return dim == extents.heads;
    case 'D':
      return dim == extents.channels;
    case 'H':
      return dim == extents.heads * extents.channels;
    case 'R':
      return dim == extents.page_rows;
    default:  // P: pages, as many as there are
      return true;
  }
}

struct Fit {
  TensorSpec spec;
  bool exact = true;
};

std::optional<Fit> FitOf(std::string_view layout, const RowTensor& tensor) {
  if (layout.size() != tensor.dims.size()) return {};
  Fit fit;
  TensorSpec& spec = fit.spec;
  spec.dims = {std::max<int64_t>(tensor.extents.sequences, 1), 1, 1, 1};
  spec.strides = {0, 0, 0, 1};
  int64_t stride = 1;
  for (size_t axis = layout.size(); axis-- > 0;) {
    const int64_t dim = tensor.dims[axis];
    const char letter = layout[axis];
    if (!Fits(letter, dim, tensor.extents, fit.exact)) return {};
    switch (letter) {
      case 'B':
      case 'P':
        spec.dims[0] = dim;
        spec.strides[0] = stride;
        break;
      case 'S':
      case 'T':
      case 'R':
        spec.dims[1] = dim;
        spec.strides[1] = stride;
        break;
      case 'N':
        spec.dims[2] = dim;
        spec.strides[2] = stride;
        break;
      case 'D':
        spec.dims[3] = dim;
        break;
      default:  // H
        spec.dims[2] = tensor.extents.heads;
        spec.dims[3] = tensor.extents.channels;
        spec.strides[2] = tensor.extents.channels;
    }
    stride *= std::max<int64_t>(dim, 1);
  }
  return fit;
}

// Whether elements are at the same places: an axis of 1 has no stride to speak
// of.
bool SamePlaces(const TensorSpec& a, const TensorSpec& b) {
  for (size_t axis = 0; axis < 4; ++axis) {
    if (a.dims[axis] != b.dims[axis]) return false;
    if (a.dims[axis] > 1 && a.strides[axis] != b.strides[axis]) return false;
  }
  return true;
}

struct LayoutCandidate {
  std::string_view layout;
  std::vector<Fit> fits;
  bool exact = true;
};

std::vector<LayoutCandidate> CandidatesOf(
    const std::vector<RowTensor>& tensors) {
  std::vector<LayoutCandidate> candidates;
  for (const std::string_view layout : kLayouts) {
    LayoutCandidate candidate{layout, {}, true};
    for (const RowTensor& tensor : tensors) {
      const std::optional<Fit> fit = FitOf(layout, tensor);
      if (!fit) break;
      candidate.exact = candidate.exact && fit->exact;
      candidate.fits.push_back(*fit);
    }
    if (candidate.fits.size() == tensors.size()) {
      candidates.push_back(std::move(candidate));
    }
  }
  // Rows to spare are nobody's guess where there need not be any.
  if (std::ranges::any_of(candidates, &LayoutCandidate::exact)) {
    std::erase_if(candidates,
                  [](const LayoutCandidate& one) { return !one.exact; });
  }
  return candidates;
}

bool SamePlaces(const LayoutCandidate& a, const LayoutCandidate& b) {
  for (size_t n = 0; n < a.fits.size(); ++n) {
    if (!SamePlaces(a.fits[n].spec, b.fits[n].spec)) return false;
  }
  return true;
}

std::string Shapes(const std::vector<RowTensor>& tensors) {
  std::string text;
  for (const RowTensor& tensor : tensors) {
    text += Str("{}{} ({})", text.empty() ? "" : ", ", tensor.name,
                Join(tensor.dims, ", "));
  }
  return text;
}

std::string Wanted(const RowExtents& extents) {
  return Str("B={} S={} T={} N={} D={}", extents.sequences, extents.longest,
             extents.total, extents.heads, extents.channels);
}

}  // namespace

bool IsPacked(std::string_view layout) {
  return layout.find('T') != std::string_view::npos;
}

Result<std::string> FindLayout(const std::vector<RowTensor>& tensors,
                               std::string_view wanted) {
  if (!wanted.empty()) {
    const auto* const known = std::ranges::find(kLayouts, wanted);
    if (known != std::end(kLayouts)) return std::string(wanted);
    return Invalid("layout: {}{}; there are {}", wanted,
                   DidYouMean(wanted, kLayouts), Join(kLayouts, ", "));
  }
  if (tensors.empty()) return NullArgument("q: missing");
  const std::vector<LayoutCandidate> candidates = CandidatesOf(tensors);
  if (candidates.empty()) {
    std::string message =
        Str("{}: no layout has all of these shapes", Shapes(tensors));
    for (const RowTensor& tensor : tensors) {
      message += Str("; {} needs {}", tensor.name, Wanted(tensor.extents));
    }
    return Invalid("{}", message);
  }
  for (const LayoutCandidate& other : candidates) {
    if (SamePlaces(candidates[0], other)) continue;
    return Contradiction("{}: {} or {}: say which, layout={}", Shapes(tensors),
                         candidates[0].layout, other.layout,
                         candidates[0].layout);
  }
  return std::string(candidates[0].layout);
}

Result<TensorSpec> RowsSpec(const RowTensor& tensor, std::string_view layout) {
  const std::optional<Fit> fit = FitOf(layout, tensor);
  if (fit) return fit->spec;
  return Invalid("{}: ({}) is not {} of {}", tensor.name,
                 Join(tensor.dims, ", "), layout, Wanted(tensor.extents));
}

Result<TensorSpec> PagesSpec(const UserTensor& tensor,
                             const RowExtents& extents) {
  std::optional<TensorSpec> found;
  std::string_view first;
  for (const std::string_view layout : kPageLayouts) {
    const auto fit = FitOf(layout, {tensor.name, tensor.dims, extents});
    if (!fit) continue;
    if (found && !SamePlaces(*found, fit->spec)) {
      return Contradiction(
          "{}: ({}) is {} or {}: pages of as many rows as heads are not "
          "checked",
          tensor.name, Join(tensor.dims, ", "), first, layout);
    }
    found = fit->spec;
    first = layout;
  }
  if (found) return *found;
  return Invalid("{}: ({}) is none of {} with R={} N={} D={}", tensor.name,
                 Join(tensor.dims, ", "), Join(kPageLayouts, ", "),
                 extents.page_rows, extents.heads, extents.channels);
}

Result<TensorSpec> PlaneSpec(const AttentionProblem& problem,
                             const UserTensor& tensor) {
  const Lengths& lengths = problem.lengths;
  std::array<int64_t, 4> dims{1, 1, 1, 1};
  if (tensor.dims.size() > 4 || tensor.dims.empty()) {
    return Invalid("{}: {} axes, expected 2, 3 or 4", tensor.name,
                   tensor.dims.size());
  }
  std::ranges::copy_backward(tensor.dims, dims.end());
  if (tensor.dims.size() == 3) std::swap(dims[0], dims[1]);
  TensorSpec spec = DenseSpec(DType::kU8, dims);
  const std::array<int64_t, 4> needed{lengths.count(), problem.heads,
                                      lengths.max_rows(),
                                      lengths.max_columns()};
  for (size_t axis = 0; axis < 4; ++axis) {
    if (dims[axis] == 1) {
      spec.strides[axis] = 0;
      continue;
    }
    const bool enough =
        axis < 2 ? dims[axis] == needed[axis] : dims[axis] >= needed[axis];
    if (!enough) {
      return Invalid(
          "{}: ({}) is not [sequences, heads, rows, columns] of ({}), where 1 "
          "repeats",
          tensor.name, Join(tensor.dims, ", "), Join(needed, ", "));
    }
  }
  return spec;
}

namespace {

int64_t CountOf(const UserTensor& tensor) {
  int64_t count = 1;
  for (const int64_t dim : tensor.dims) count *= dim;
  return count;
}

bool IsNumber(DType dtype) { return IsFloat(dtype) || dtype == DType::kF64; }

// Whether bits may be taken as they are.
bool SameBits(const UserTensor& tensor, DType dtype) {
  if (tensor.dtype == dtype) return true;
  const bool two_bytes = tensor.dtype == DType::kNone &&
                         tensor.element_bytes == 2 && SizeOf(dtype) == 2;
  const bool words = tensor.dtype == DType::kI32 && dtype == DType::kI4x8;
  return two_bytes || words;
}

}  // namespace

Result<std::vector<std::byte>> ConvertElements(
    const UserTensor& tensor, DType dtype, std::vector<std::string>& notes) {
  const auto count = static_cast<size_t>(CountOf(tensor));
  const auto from_bytes = static_cast<size_t>(tensor.element_bytes);
  if (SameBits(tensor, dtype)) {
    return std::vector<std::byte>(tensor.data,
                                  tensor.data + count * from_bytes);
  }
  const bool numbers = IsNumber(tensor.dtype) && IsNumber(dtype);
  const bool integers = tensor.dtype != DType::kNone &&
                        !IsNumber(tensor.dtype) &&
                        (dtype == DType::kI32 || dtype == DType::kI64);
  if (!numbers && !integers) {
    return Invalid("{}: elements of {}, expected {}", tensor.name,
                   tensor.dtype == DType::kNone
                       ? Str("{} bytes of anything", tensor.element_bytes)
                       : std::string(Name(tensor.dtype)),
                   Name(dtype));
  }
  const auto bytes = static_cast<size_t>(SizeOf(dtype));
  std::vector<std::byte> converted(count * bytes);
  double change = 0;
  for (size_t n = 0; n < count; ++n) {
    const double value = ReadNumber(tensor.dtype, tensor.data + n * from_bytes);
    std::byte* const to = converted.data() + n * bytes;
    constexpr double kMostInt32 = 2147483647;
    if (integers && dtype == DType::kI32 && std::fabs(value) > kMostInt32) {
      return Invalid("{}: {} is not within 32 bits", tensor.name, value);
    }
    WriteNumber(dtype, to, value);
    const double off = std::fabs(ReadNumber(dtype, to) - value);
    if (off > change) change = off;
  }
  if (change > 0) {
    notes.push_back(Str("{}: its {} are rounded to {}, by {:.2g} at most",
                        tensor.name, Name(tensor.dtype), Name(dtype), change));
  }
  return converted;
}

Result<std::vector<std::byte>> Flags(const UserTensor& tensor) {
  if (tensor.dtype == DType::kNone) {
    return Invalid("{}: elements of {} bytes of anything, expected bool",
                   tensor.name, tensor.element_bytes);
  }
  std::vector<std::byte> flags(static_cast<size_t>(CountOf(tensor)));
  for (size_t n = 0; n < flags.size(); ++n) {
    const auto offset = static_cast<int64_t>(n) * tensor.element_bytes;
    const bool set = ReadNumber(tensor.dtype, tensor.data + offset) != 0;
    flags[n] = std::byte{static_cast<unsigned char>(set ? 1 : 0)};
  }
  return flags;
}

}  // namespace flashacl
