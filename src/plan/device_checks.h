// SPDX-License-Identifier: Apache-2.0
// What only a run can find wrong: device tensors whose contents point outside
// of what they index, or are not what they promise to be. Nobody needs these
// checks to be safe; strict mode makes them to be told.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/status.h"
#include "plan/bindings.h"
#include "problem/attention_problem.h"

namespace flashacl {

// kInvalidArgument, with the place and the value, if lengths decrease or pass
// the end of their tensor, a block table names a page that does not exist where
// a sequence needs it, or a top-k list names a column outside of its sequence,
// names one twice, or goes on after a -1.
Status CheckDeviceTensors(const AttentionProblem& problem,
                          const Bindings& bindings);

// A compressed mask, which is never read for the answer: [2048, 2048] with ones
// strictly above the diagonal, or [3072, 2048] with 1024 more rows, half zeros
// and half ones.
struct CompressedMask {
  std::string_view name;  // of the argument
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t row_stride = 0;
  int64_t column_stride = 0;

  // One byte per element, from `base`.
  Status Check(const std::byte* base) const;
};

}  // namespace flashacl
