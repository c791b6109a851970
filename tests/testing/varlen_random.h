// SPDX-License-Identifier: Apache-2.0
// Random calls on packed sequences, of what the documents allow.
#pragma once

#include "base/random.h"
#include "tests/testing/varlen_oracle.h"

namespace flashacl::testing {

enum class Pass { kForward, kBackward };  // they allow different tokens

// Heads, dims, lengths, tails, mask with everything that belongs to it, scale
// and gaps in memory.
void ChooseSizesAndMask(VarLenCase& c, Pass pass, Random& random);

}  // namespace flashacl::testing
