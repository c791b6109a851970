// SPDX-License-Identifier: Apache-2.0
// The tiles of the backward direction, their scratch memory, and fp32
// accumulators of the gradients of keys and values that several tiles add to.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/backward/backward_kernel.h"
#include "cpu/scratch_layout.h"
#include "plan/backend.h"
#include "plan/schedule.h"
#include "plan/workspace.h"
#include "problem/attention_problem.h"

namespace flashacl::cpu {

// Rows and columns of tiles that fit the caches.
TileShape BackwardTileShape(const AttentionProblem& problem,
                            const DeviceInfo& device);

// The same tiles, or such of fewer rows for more workers. No bit of a gradient
// depends on the rows of tiles: they are whole blocks of rows, which are added
// up in one order.
TileShape SharedGradTileShape(const AttentionProblem& problem,
                              const TileShape& shape, int64_t workers);

struct BackwardWorkspace {
  int64_t workers = 0;
  ScratchLayout<ScoreScratch> scores;
  ScratchLayout<BackwardScratch> scratch;
  int64_t key_stride = 0, value_stride = 0;
  int matrix_terms = 0;   // of operands of PairDots::kMatrices; 0: it is not
  int64_t row_block = 0;  // rows whose P and dS are kept at a time

  // One for every kv head in work, and half as many more, so that heads may
  // begin before the slowest is done; bounded (tuning.h, kMaxSumBytes).
  int64_t accumulators = 0;
  int64_t interleaved = 1;  // heads in work
  Region<float> key_accumulators, value_accumulators;
  // One accumulator would be too large: gradients of queries are computed in
  // one sweep, those of keys in another, `swept_steps` steps of keys at a time.
  bool sweeps_twice = false;
  int64_t swept_steps = 1;
  Region<double> bias_sums;  // as the tensor, where elements belong to many

  // Accumulator n, modulo as many as there are, from key `key` on.
  KvSums Accumulator(std::byte* memory, int64_t n, int64_t key) const;
  // The sums in a worker's own scratch memory, from key `key` on.
  KvSums WorkerSums(const BackwardTile& tile, int64_t key) const;
  void Clear(const KvSums& sums, int64_t keys) const;
};

// matrix_terms: with operands of matrix registers, which are sums of so many.
BackwardWorkspace ReserveBackward(const AttentionProblem& problem,
                                  const TileShape& shape, int64_t workers,
                                  WorkspaceLayout& layout,
                                  int matrix_terms = 0);

}  // namespace flashacl::cpu
