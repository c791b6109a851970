// SPDX-License-Identifier: Apache-2.0
// Where the row of key j lives, which keys a row of queries may see at all, and
// how bytes become numbers. The three are independent: any addressing works
// with any selection and any encoding.
#pragma once

#include <cstdint>
#include <vector>

#include "problem/tensor_spec.h"

namespace flashacl {

struct KvSource {
  enum class Rows : uint8_t {
    kStrided,  // row keys.first + j of the sequence's part of the tensor
    kList,     // the same, in a tensor of the sequence's own
    kPaged,    // row j % page_rows of page block_table[sequence][j / page_rows]
  };
  enum class Selection : uint8_t {
    kAll,
    kTopK,  // slot kTopK lists, for each query row, which columns exist
  };

  Rows rows = Rows::kStrided;
  Selection selection = Selection::kAll;
  int64_t page_rows = 0;    // kPaged: rows in one page
  int64_t gather_rows = 1;  // kTopK: columns one index stands for
  bool value_is_key =
      false;  // v is the leading v_dim channels of k; kValue and
              // kGradValue are absent, kGradKey gets both parts

  // Of kKeyRowScale, kValueRowScale and their offsets. True: the first two axes
  // are a page and a row of it. Else a sequence and, where placement is
  // kStrided, its key j; where it is kTensorRows, row keys.first + j.
  bool row_scales_in_pages = false;

  // kList: one spec per sequence, canonical dims [1, row, kv_head, channel];
  // the specs in kKey and kValue then hold dtype and the widest extents.
  std::vector<TensorSpec> key_list;
  std::vector<TensorSpec> value_list;

  bool gathers() const { return selection == Selection::kTopK; }

  bool operator==(const KvSource&) const = default;
};

}  // namespace flashacl
