// SPDX-License-Identifier: Apache-2.0
// What the CPU backend computes attention with: a folder of each kind, and
// here the row of each in the backend's table. Each leaves the same bits for
// any number of workers.
#pragma once

#include "plan/implementation.h"

namespace flashacl {
namespace cpu {

// About what one thread does of the matrix products where there is little to
// do, in GFLOP/s: forward, and where p and ds are made or keys gathered
// (docs/notes/0037).
inline constexpr double kShortGflops = 50;
inline constexpr double kShortGradGflops = 20;

}  // namespace cpu

// "cpu/decode": forward problems with few packed rows per kv head, as in
// decoding: one pass over keys and values at the speed of memory. The same bits
// for any batch, too, and wherever keys lie.
extern const Implementation kCpuDecode;

// "cpu/mixed": forward problems that mix sequences of few rows, which go to the
// tiles of cpu/decode, with others, which go to those of cpu/forward, as
// engines make them that fill a batch of prompts up with requests that decode.
// Those of few rows have the bits that they have in cpu/decode.
extern const Implementation kCpuMixed;

// "cpu/forward": every forward problem but those of top-k lists
// (FlashAttention): tiles of query rows times keys, with fp32 sums, in memory
// that does not grow with lengths.
extern const Implementation kCpuForward;

// "cpu/backward": every backward problem but those of top-k lists: dq, dk and
// dv, and the gradients of biases and sinks, from the row statistics that the
// forward direction saved, tile by tile and in fp32.
extern const Implementation kCpuBackward;

// "cpu/decode/topk": those of "cpu/forward/topk" with few heads per kv head,
// whose listed keys are read as by "cpu/decode". Where neither cuts its keys, a
// position has the bits that it would have there alone, of its listed keys in
// the order of the list.
extern const Implementation kCpuTopKDecode;

// "cpu/forward/topk": forward problems where every position lists the keys that
// it attends to, as the top-k selection of sparse attention does, whatever
// holds and encodes the keys; but those with a mask tensor, bias, dropout or
// 8-bit queries, which no operator has together with lists. Scratch memory
// depends on heads, channels and the length of lists alone.
extern const Implementation kCpuTopKForward;

// "cpu/backward/topk": backward problems of top-k lists, but those with a
// mask tensor, bias, dropout or the gradient of a sink, which no operator has
// together with lists. Scratch memory: an fp32 sum for every element of the
// gradients of keys and values of the longest sequence, or 64 MiB of them if
// that is more; 64 MiB of saved pds, or four positions' if that is more; and
// some 2 MiB per worker.
extern const Implementation kCpuTopKBackward;

}  // namespace flashacl
