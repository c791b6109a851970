// SPDX-License-Identifier: Apache-2.0
// One line names a problem: a test, a benchmark, a golden key, a trace record
// and a command line argument are all the same text.
//
//   problem   = direction dtype { field }          fields in any order
//   direction = fwd | bwd
//   dtype     = f32 | f16 | bf16                   of the query
//   field     =
//     h=HEADS[/KV_HEADS]      query heads, and kv heads if fewer
//     d=QK[+ROPE][/V]         channels; V if not as many as QK
//     q=LENGTHS k=LENGTHS     rows and columns of every sequence
//     prefix:N                N columns before those of k, which all sequences
//                             share, in tensors of their own
//     paged:ROWS              keys in pages of ROWS rows
//     list                    keys in one tensor per sequence
//     topk:N[:ROWS]           N indices per row and kv head, of ROWS columns
//     shared                  v is the leading part of k
//     int8:ENCODING[/VALUES]  8-bit keys and values, whose encoding VALUES is
//                             if it is another
//     int4:ENCODING[/VALUES]  the same of 4 bits, eight channels to a word
//     query:int8              queries of 8 bits with a scale per row and head,
//                             beside 8-bit keys; dtype is that of their rope
//     blocks:CHANNELS         channels of keys and values in blocks of so many,
//                             [head, block, row, channel of the block]
//     out:DTYPE | out:int8:ENCODING
//     RULES                   who sees whom: one rule, or one per sequence
//     mask[:AXES]             a tensor that hides; ij unless it says else
//     bias[:before][:AXES]    added after (before) scaling; bhij
//     bias[:before][:AXES]:diagonal:ROWS   only the last ROWS rows are stored
//     alibi[:sqrt][:AXES]     slopes; h
//     start:QUERY:KEY[:first] alibi: where row 0 and column 0 stand, in all
//                             sequences or the first
//     sink                    a key whose value is zero
//     keep:P                  dropout by given bits
//     scale:X                 of scores, if not 1 / sqrt(QK)
//     counts:SIDES | ends:SIDES   lengths are tensors; q and k then say the
//                             most
//     padding                 a tensor says how many rows end every key tensor
//     stats                   fwd: row max and row sum are wanted
//     grad:LETTERS | grad:none   bwd: wanted of q k v b (bias) s (sink); qkvs
//   LENGTHS   = N | COUNTxN | joined by commas
//   RULES     = RULE | COUNTxRULE | joined by commas
//   RULE      = full | causal[:PREFIX] | causal-left[:PREFIX]
//             | window:LEFT:RIGHT[:PREFIX] | band:LOWER:UPPER[:PREFIX]
//               causal and window are measured from the bottom right corner,
//               causal-left and band from the top left; * is open
//   AXES      = [b][h][i]j    what varies: sequence, head, row, column; slopes
//               have no i and j, and say 1 where they do not vary
//   ENCODING  = tensor | channel, with +offset; of keys and values also row or
//               row-head, and page-row or page-row-head where keys are in pages
//   SIDES     = q | k | qk
//
//   fwd bf16 h=32/8 d=128 q=64x1 k=64x4096 paged:128 int8:channel causal
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "problem/attention_problem.h"

namespace flashacl {

// The problem a line names, which CheckProblem accepts. A message names the
// field, where it is, and what could stand there.
Result<AttentionProblem> Parse(std::string_view line);

// The canonical line, without defaults, whose problem is
// Build(SpecOf(problem)).
std::string ToString(const AttentionProblem& problem);

}  // namespace flashacl
