// SPDX-License-Identifier: Apache-2.0
// Statistics of many numbers at a time, by the best instruction set that this
// processor has.
#pragma once

#include <cstddef>
#include <cstdint>

namespace flashacl::record {

// Of the first `count` numbers of a block; min, max and sum are of the finite
// ones.
struct FloatBlock {
  int64_t count = 0;
  int64_t nans = 0;
  int64_t infinities = 0;
  float min = 0;
  float max = 0;
  double sum = 0;
};

// All numbers but those at the end that fill no vectors. Where all are finite,
// those of 16 bits are added up in fp32 four at a time, whose roundings are far
// below theirs.
using LookAtFloats = FloatBlock (*)(const std::byte* first, int64_t count);

struct StatisticsKernels {
  LookAtFloats f32;
  LookAtFloats f16;
  LookAtFloats bf16;
};

StatisticsKernels Kernels();

}  // namespace flashacl::record
