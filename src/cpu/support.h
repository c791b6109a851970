// SPDX-License-Identifier: Apache-2.0
// Refusals that several implementations share. Each function is ok, or
// kUnsupported with the reason.
#pragma once

#include <span>

#include "base/status.h"
#include "cpu/pair_dots.h"
#include "plan/backend.h"
#include "problem/attention_problem.h"

namespace flashacl::cpu {

// Keys, or values: one tensor, or one for each sequence of a list.
std::span<const TensorSpec> KvTensors(const AttentionProblem& problem,
                                      Slot slot);

// What tiles of many rows take in one direction: keys that all rows share.
Status SupportsTiles(const AttentionProblem& problem, Direction direction);

// What kernels over top-k lists take in one direction: lists, and nothing that
// is given score by score.
Status SupportsLists(const AttentionProblem& problem, Direction direction);

// Whether keys are of 8 or 4 bits.
bool AreIntegers(std::span<const TensorSpec> keys);

// How tiles take queries, keys and values to matrix registers
// (PairDots::kMatrices), where there are any: as they are, 1, or each number as
// a sum of 2 of bf16; 0: not at all. Rows must fill matrices.
int MatrixTerms(const AttentionProblem& problem);

// The same of tiles of many rows, which take integers, too, as they are, beside
// queries of ScoreTile::query_terms.
int TileMatrixTerms(const AttentionProblem& problem);

// Whether a device's vector code has matrix registers: this process's does, if
// nobody limits it.
bool HasMatrixCode(const DeviceInfo& device);

// Whether each channel of keys has its scale, so that queries beside integers
// become sums of three (tile/integers-inl.h).
bool QueriesTakeKeyScales(const AttentionProblem& problem);

// Whether tiles of a problem go to matrix registers. Planning decides where
// memory depends on it.
template <class Kernels>
bool TakesMatrices(const AttentionProblem& problem, const Kernels& kernels) {
  return MatrixTerms(problem) > 0 &&
         ChoosePairDots(kernels.has_pair_dots, kernels.matrices) ==
             PairDots::kMatrices;
}

}  // namespace flashacl::cpu
