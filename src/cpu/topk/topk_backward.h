// SPDX-License-Identifier: Apache-2.0
// The backward direction on processors where every position lists its keys.
#pragma once

#include "plan/implementation.h"

namespace flashacl {

// "cpu/backward/topk": backward problems of top-k lists, but those with a
// mask tensor, bias, dropout or the gradient of a sink, which no operator has
// together with lists. The same bits for any number of workers. Scratch memory:
// an fp32 sum for every element of the gradients of keys and values of the
// longest sequence, or 64 MiB of them if that is more; 64 MiB of saved pds, or
// four positions' if that is more; and some 2 MiB per worker.
extern const Implementation kCpuTopKBackward;

}  // namespace flashacl
