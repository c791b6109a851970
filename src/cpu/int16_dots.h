// SPDX-License-Identifier: Apache-2.0
// Whether decode multiplies keys and values of 8 bits as integers of 16, two
// products at a time: queries and probs become such, too, each times what is
// its row's, where a problem allows it (Score::half_probs; docs/notes/0065).
#pragma once

#include <cstdint>
#include <optional>

#include "cpu/byte_dots.h"

namespace flashacl::cpu {

enum class Int16Dots : uint8_t {
  kNone,          // as problems that do not allow it
  kMultiplyAdds,  // x86's pmaddwd and an addition
  kInstruction,   // AVX512_VNNI's vpdpwssd, with the same bits
  // This, with scores of two keys, and two micro-tiles, at a time where there
  // are four rows or more.
  kInTwos,
};

// What to use in this process, where the vector code has such products or has
// not, beside what else it uses for bytes: matrix registers are faster. In twos
// where conversions take the places of multiply-adds, on processors that are
// not AMD's: Intel's (docs/notes/0075).
Int16Dots ChooseInt16Dots(bool has_code, ByteDots bytes);

// Tests choose; none: as before. kInstruction and kInTwos need a processor that
// has it (HasByteInstruction); without the code it is kNone all the same.
void SetInt16DotsForTest(std::optional<Int16Dots> dots);

}  // namespace flashacl::cpu
