// SPDX-License-Identifier: Apache-2.0
// Which rows of the query and key tensors belong to which sequence.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/range.h"

namespace flashacl {

// Rows on the row axes of the query-like and the key-like tensors. Row i of
// the sequence is tensor row queries.first + i, column prefix + j is
// keys.first + j.
struct Sequence {
  Range queries;
  Range keys;
  // Columns before those of `keys`: rows of the shared prefix, of which all
  // sequences see the same.
  int64_t prefix = 0;

  int64_t rows() const { return queries.size(); }
  int64_t columns() const { return prefix + keys.size(); }
  bool operator==(const Sequence&) const = default;
};

// Known when planning, or in part only on the stream. Then `sequences` holds
// the widest each may be; kQueryPadding and kKeyPadding may also move rows.
struct Lengths {
  // What the tensor in kQueryLengths or kKeyLengths says, one number per
  // sequence, of its side.
  enum class Device : uint8_t {
    kNone,    // there is no tensor: what is here holds
    kCounts,  // rows per sequence, from the start of its part of the tensor
    kEnds,    // where each sequence of a packed tensor ends; cumulative. Not of
              // keys in pages or lists, which have no common axis to end on
  };

  std::vector<Sequence> sequences;
  Device queries = Device::kNone;
  Device keys = Device::kNone;

  int64_t count() const { return static_cast<int64_t>(sequences.size()); }
  // Whether all lengths are here.
  bool known() const {
    return queries == Device::kNone && keys == Device::kNone;
  }

  // Of all sequences together, and of the longest.
  int64_t all_rows() const { return Sum(&Sequence::rows); }
  int64_t all_columns() const { return Sum(&Sequence::columns); }
  int64_t max_rows() const { return Max(&Sequence::rows); }
  int64_t max_columns() const { return Max(&Sequence::columns); }

  bool operator==(const Lengths&) const = default;

 private:
  int64_t Sum(int64_t (Sequence::*size)() const) const {
    int64_t sum = 0;
    for (const Sequence& one : sequences) sum += (one.*size)();
    return sum;
  }
  int64_t Max(int64_t (Sequence::*size)() const) const {
    int64_t most = 0;
    for (const Sequence& one : sequences) {
      most = std::max(most, (one.*size)());
    }
    return most;
  }
};

}  // namespace flashacl
