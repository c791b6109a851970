// SPDX-License-Identifier: Apache-2.0
// How fast a backend's device is at most: what speeds are fractions of.
// Measured when asked: other programs share it, so yesterday's answer is not
// today's.
#pragma once

#include <cstdint>

#include "plan/backend.h"

namespace flashacl {

// Each call measures anew, for some milliseconds, with all of the device at
// once.
struct Roofs {
  double (*flops)(const Backend& backend);           // fp32, per second
  double (*read_bandwidth)(const Backend& backend);  // bytes per second
};

// Null for a backend whose roofs nobody measures.
Roofs RoofsOf(const Backend& backend);

namespace roof {

// fp32 FLOP per second of all workers together, on registers alone, with the
// vector instructions that kernels are run with; a multiply-add is two. Median
// of some runs, about 10 ms in all.
double MeasureFlops(Workers& workers);

// Bytes per second that all workers together read from memory, one after the
// other. Median of some runs, 10 to 50 ms in all; the first call takes longer
// and keeps ProbeBytes of memory for the next.
double MeasureReadBandwidth(Workers& workers, int64_t l3_bytes);

// How much MeasureReadBandwidth reads in one run: several times what the last
// cache of `l3_bytes` and those of other workers' cores hold, within bounds.
int64_t ProbeBytes(int64_t l3_bytes, int workers);

}  // namespace roof
}  // namespace flashacl
