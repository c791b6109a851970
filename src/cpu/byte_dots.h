// SPDX-License-Identifier: Apache-2.0
// Whether decode multiplies 8-bit rows as they are, several products at a time:
// queries and probs become fixed point, a few digits of 8 bits
// (docs/notes/0047).
#pragma once

#include <cstdint>
#include <optional>

#include "cpu/pair_dots.h"

namespace flashacl::cpu {

enum class ByteDots : uint8_t {
  kNone,          // 8-bit rows become floats, as all other types do
  kMultiplyAdds,  // of integers, one by one: for tests, on any processor
  kInstruction,   // x86's vpdpbusd, ARM's SDOT and UDOT, with the same bits
  // ARM's SMMLA and USMMLA, two rows by two rows, with the same bits.
  kTwoByTwo,
  // x86's matrix registers (AMX-INT8), and elsewhere the same in many
  // instructions, for tests: also of few rows.
  kMatrices,
};

// What to use in this process, where the vector code has the instruction or has
// not.
ByteDots ChooseByteDots(bool has_instruction,
                        MatrixCode matrices = MatrixCode::kNone);

// Whether this processor has the instruction (AVX512_VNNI, FEAT_DotProd).
bool HasByteInstruction();

// Whether it has those of two rows by two rows (FEAT_I8MM).
bool HasByteTwoByTwo();

// Whether its matrix registers, if this process may use them (HasMatrices),
// multiply bytes.
bool HasByteMatrices();

// Tests choose; none: as before. Where vector code has the instruction,
// kInstruction needs a processor that has it (HasByteInstruction), as does
// kTwoByTwo (HasByteTwoByTwo); kMatrices is kNone where HasByteMatrices() is
// false.
void SetByteDotsForTest(std::optional<ByteDots> dots);

}  // namespace flashacl::cpu
