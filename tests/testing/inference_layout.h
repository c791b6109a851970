// SPDX-License-Identifier: Apache-2.0
// Where rows are in the tensors of prefill and decode.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tests/testing/call.h"

namespace flashacl::testing {

struct RowDims {
  int64_t sequences, rows, heads, dim;
};

inline std::vector<int64_t> DimsIn(std::string_view layout, const RowDims& r) {
  if (layout == "BSH") return {r.sequences, r.rows, r.heads * r.dim};
  if (layout == "BSND") return {r.sequences, r.rows, r.heads, r.dim};
  if (layout == "NSD") return {r.heads, r.rows, r.dim};
  if (layout == "SH") return {r.rows, r.heads * r.dim};
  if (layout == "TND") return {r.rows, r.heads, r.dim};
  if (layout == "NBSD") return {r.heads, r.sequences, r.rows, r.dim};
  if (layout == "NTD") return {r.heads, r.rows, r.dim};
  return {r.sequences, r.heads, r.rows, r.dim};
}

// Row s of sequence b; in packed layouts, of all rows.
struct At {
  int64_t b, s, n, d, dim;
};

inline int64_t NumberOf(std::string_view layout,
                        const std::vector<int64_t>& dims, const At& at) {
  if (dims.size() == 1) return 0;  // one element is all there is
  if (layout == "BSH") {
    return (at.b * dims[1] + at.s) * dims[2] + at.n * at.dim + at.d;
  }
  if (layout == "BSND") {
    return ((at.b * dims[1] + at.s) * dims[2] + at.n) * dims[3] + at.d;
  }
  if (layout == "NSD" || layout == "NTD") {
    return (at.n * dims[1] + at.s) * dims[2] + at.d;
  }
  if (layout == "TND") return (at.s * dims[1] + at.n) * dims[2] + at.d;
  if (layout == "SH") return at.s * dims[1] + at.n * at.dim + at.d;
  if (layout == "NBSD") {
    return ((at.n * dims[1] + at.b) * dims[2] + at.s) * dims[3] + at.d;
  }
  return ((at.b * dims[1] + at.n) * dims[2] + at.s) * dims[3] + at.d;
}

inline double Element(const DeviceTensor* tensor, std::string_view layout,
                      const At& at) {
  return tensor->Nth(NumberOf(layout, tensor->form().dims, at));
}

}  // namespace flashacl::testing
