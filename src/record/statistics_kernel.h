// SPDX-License-Identifier: Apache-2.0
// Statistics of many numbers at a time, by the best instruction set that this
// processor has.
#pragma once

#include <cstddef>
#include <cstdint>

namespace flashacl::record {

// Of the first numbers of a block. `count` is 0, and nothing else is known,
// where one of them is NaN or infinite, or of 16 bits and 2^126 or more.
struct FloatBlock {
  int64_t count = 0;
  float min = 0;
  float max = 0;
  double sum = 0;
};

// All numbers but those at the end that fill no vectors. Those of 16 bits are
// added up in fp32 four at a time, whose roundings are far below theirs.
using LookAtFloats = FloatBlock (*)(const std::byte* first, int64_t count);

struct StatisticsKernels {
  LookAtFloats f32;
  LookAtFloats f16;
  LookAtFloats bf16;
};

StatisticsKernels Kernels();

}  // namespace flashacl::record
