// SPDX-License-Identifier: Apache-2.0
// Whether decode multiplies fp16 queries and keys as they are: by ARM's FMLAL
// and FMLAL2 (FEAT_FHM), multiply-adds of fp16 to fp32 with one rounding. They
// have the bits of floats, whatever the numbers, without a conversion.
#pragma once

#include <optional>

namespace flashacl::cpu {

// Whether this processor has the instructions.
bool HasHalfInstruction();

// What to use in this process, where the vector code has them or has not.
bool ChooseHalfDots(bool has_instruction);

// Tests choose; none: as before. True needs a processor that has them.
void SetHalfDotsForTest(std::optional<bool> dots);

}  // namespace flashacl::cpu
