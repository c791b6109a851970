// SPDX-License-Identifier: Apache-2.0
// Whether tiles of bf16 sum two channels of queries and keys at a time.
//
// Products of bf16 are exact in fp32, and the two are added one after the
// other: scores have the bits that floats and multiply-adds give them, in half
// the instructions (docs/notes/0031).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace flashacl::cpu {

enum class PairDots : uint8_t {
  kNone,          // bf16 becomes floats, as all other types do
  kMultiplyAdds,  // two for each pair: for tests, as any processor has them
  kInstruction,   // x86's vdpbf16ps; makes 0 of what is subnormal
};

// Whether Linux's /proc/cpuinfo names a processor whose vdpbf16ps takes no
// longer than a multiply-add. AMD's are so; of Intel's it took four times as
// long, as they have AMX for such products.
bool PairDotsPay(std::string_view cpu_info);

// What to use in this process, where the vector code has the instruction or has
// not.
PairDots ChoosePairDots(bool has_instruction);

// Whether this processor has the instruction, slow or not.
bool HasPairInstruction();

// Tests choose; none: as before. What is chosen must be there.
void SetPairDotsForTest(std::optional<PairDots> dots);

}  // namespace flashacl::cpu
