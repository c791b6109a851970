// SPDX-License-Identifier: Apache-2.0
// Whether tiles of bf16 sum two products at a time: of channels of queries and
// keys, and of gradients of outputs and values; of keys, where probs are
// rounded to bf16 (problem/score.h).
//
// Products of bf16 are exact in fp32. On x86 the two are added one after the
// other: sums have the bits that floats and multiply-adds give them, in half
// the instructions (docs/notes/0031). Decode's scores add the second channel
// first, and have other bits (docs/notes/0041), and so have matrix registers,
// which sum 32 products at a time (docs/notes/0045), and ARM's instruction,
// which rounds in another way (docs/notes/0044).
#pragma once

#include <cstdint>
#include <optional>

#include "cpu/processor_kind.h"

namespace flashacl::cpu {

enum class PairDots : uint8_t {
  kNone,          // bf16 becomes floats, as all other types do
  kMultiplyAdds,  // two for each pair: for tests, as any processor has them
  // x86's vdpbf16ps or ARM's BFDOT, which make 0 of what is subnormal. Vector
  // code of targets that have neither does what x86's does in many
  // instructions, for tests.
  kInstruction,
  // x86's matrix registers (AMX-BF16), which make 0 of what is subnormal, too;
  // elsewhere the same in many instructions, for tests. Sums are in another
  // order.
  kMatrices,
};

// Whether sums of tiles by kInstruction have the bits of floats, where it lost
// nothing. ARM's rounds to odd, and a panel and a step of which some number is
// subnormal, which it does not take, have bits of their own there.
#if defined(__aarch64__)
inline constexpr bool kInstructionSumsAsFloats = false;
#else
inline constexpr bool kInstructionSumsAsFloats = true;
#endif

// Whether the products of probs, and of gradients of scores, with listed rows
// of bf16 make floats of pairs of channels in registers, with the bits of
// floats: half as many loads, from rows half as large (docs/notes/0015). A
// multiply-add of ARM's takes any float of a vector as it is.
#if defined(__aarch64__)
inline constexpr bool kListedRowsStayPairs = false;
#else
inline constexpr bool kListedRowsStayPairs = true;
#endif

// Whether the instruction takes no longer than a multiply-add: measured on
// AMD's processors; on ARM a table of Arm's says so. On Intel's it took four
// times as long, as they have AMX for such products.
bool PairDotsPay(ProcessorKind kind, bool has_instruction);

// What some vector code does on matrix registers.
enum class MatrixCode : uint8_t { kNone, kEmulated, kInstructions };

// What to use in this process, where the vector code has the instruction or has
// not.
PairDots ChoosePairDots(bool has_instruction,
                        MatrixCode matrices = MatrixCode::kNone);

// Whether this processor has the instruction, slow or not.
bool HasPairInstruction();

// Whether this processor has matrix registers of bf16, and the system lets this
// process use them: it is asked once. Saving them makes the frames of signals
// larger by 8 KiB, for threads that use them.
bool HasMatrices();

// Tests choose; none: as before. Where vector code has the instruction,
// kInstruction needs a processor that has it (HasPairInstruction); kMatrices is
// kNone where HasMatrices() is false.
void SetPairDotsForTest(std::optional<PairDots> dots);

}  // namespace flashacl::cpu
