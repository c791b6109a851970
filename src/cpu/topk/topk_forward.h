// SPDX-License-Identifier: Apache-2.0
// Attention on processors where every position lists the keys that it attends
// to, as the top-k selection of sparse attention does: the forward direction.
#pragma once

#include "plan/implementation.h"

namespace flashacl {

// "cpu/forward/topk": forward problems of top-k lists, whatever holds and
// encodes the keys; but those with a mask tensor, bias, dropout or 8-bit
// queries, which no operator has together with lists. Scratch memory depends on
// heads, channels and the length of lists alone. The same bits for any number
// of workers.
extern const Implementation kCpuTopKForward;

}  // namespace flashacl
