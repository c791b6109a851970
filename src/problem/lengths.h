// SPDX-License-Identifier: Apache-2.0
// Which rows of the query and key tensors belong to which sequence.
#pragma once

#include <cstdint>
#include <vector>

#include "base/range.h"

namespace flashacl {

// Rows on the row axes of the query-like and the key-like tensors. Row i of
// the sequence is tensor row queries.first + i, column j is keys.first + j.
struct Sequence {
  Range queries;
  Range keys;

  int64_t rows() const { return queries.size(); }
  int64_t columns() const { return keys.size(); }
  bool operator==(const Sequence&) const = default;
};

// Known when planning, or in part only on the stream. Then `sequences` holds
// the widest each may be, and the slots kQueryLengths, kKeyLengths (each may
// be absent: then what is here holds) and kKeyPadding say the rest.
struct Lengths {
  enum class Device : uint8_t {
    kNone,
    kCounts,  // rows per sequence, from the start of its part of the tensor
    kEnds,    // where each sequence of a packed tensor ends; cumulative. Keys
              // in pages or lists are not packed: theirs are counts
  };

  std::vector<Sequence> sequences;
  Device device = Device::kNone;

  int64_t count() const { return static_cast<int64_t>(sequences.size()); }
  bool operator==(const Lengths&) const = default;
};

}  // namespace flashacl
