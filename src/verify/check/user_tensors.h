// SPDX-License-Identifier: Apache-2.0
// Tensors that somebody brought under the names of a check, as the operands of
// a problem: which slot each is, and where its rows, heads and channels are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "verify/answer/tensor_set.h"

namespace flashacl {

// Dense, the last axis innermost.
struct UserTensor {
  std::string name;            // "q", "mask", "dq"; a message says it
  DType dtype = DType::kNone;  // kNone: bits of elements of so many bytes
  int64_t element_bytes = 0;
  std::vector<int64_t> dims;
  const std::byte* data = nullptr;
};

// The names of inputs.
std::vector<std::string_view> InputNames();

// Where row maxima and row sums of packed sequences are in their tensor.
enum class RowOrder : uint8_t {
  kUnsaid,
  kRows,    // as its axes say
  kBlocks,  // a dense block [head, row, copy] for each sequence, one after the
            // other
};

struct BoundInputs {
  TensorSet tensors;
  std::string layout;  // of queries and what is like them
  RowOrder row_order = RowOrder::kUnsaid;
  std::vector<std::string> notes;  // what the user should know
};

// `problem` is what a line says. Queries, keys and values may be BSND, BNSD,
// SBND, BSH, SBH, TND, NTD or TH, all in the same layout, which is `layout` or,
// where that is empty, the one that shapes allow, and may end in :rows or
// :blocks, a RowOrder; keys in pages PRND, PNRD or PRH with P pages of R rows.
// A mask, a bias and kept places are [rows, columns], [sequence, rows, columns]
// or [sequence, head, rows, columns], where 1 repeats; other tensors are dense
// in the order of the problem. Numbers become the problem's data types.
// kContradiction where shapes allow several layouts; other errors name the
// tensor.
Result<BoundInputs> BindInputs(const AttentionProblem& problem,
                               std::span<const UserTensor> tensors,
                               std::string_view layout);

}  // namespace flashacl
