// SPDX-License-Identifier: Apache-2.0
// Whether decode makes floats of 16 bits once for two micro-tiles, eight rows,
// and of bf16 by parting pairs (decode/gemv_elements-inl.h), which takes half
// as many instructions but has channels in an order of its own: scores of bf16
// have the bits of pairs (pair_dots.h) then, where channels are whole lines.
// All other scores, and sums of values beside the same probs, keep theirs.
#pragma once

#include <optional>

namespace flashacl::cpu {

// Whether to, in this process, where the vector code can: where conversions
// take the places of multiply-adds, on Intel's processors with AVX-512, which
// have two ports for all that has 512 bits (docs/notes/0071).
bool ChooseSharedConversions(bool has_code);

// Tests choose; none: as before.
void SetSharedConversionsForTest(std::optional<bool> shares);

}  // namespace flashacl::cpu
