// SPDX-License-Identifier: Apache-2.0
// How backward work over gathered keys is cut, and its memory.
//
// Keys get their gradients in fp32 sums, slice by slice of their channels:
// element [slice][row][channel of the slice]. What positions add waits in their
// records; a round makes the records of a chunk of positions, the next one adds
// them. Its items are pairs of a bucket, consecutive rows of a sequence, and a
// slice. Only the item's worker adds to them, position by position, so the
// order of every sum is that of the positions, whoever works.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/topk/topk_backward_params.h"
#include "plan/backend.h"
#include "plan/workspace.h"
#include "problem/attention_problem.h"

namespace flashacl::cpu {

// A function of the problem and of caches alone.
struct GradCut {
  int64_t step = 0;       // keys of one step of a position
  int64_t entries = 0;    // of a list, that one round takes
  int64_t parts = 0;      // rounds until a list is done
  int64_t positions = 0;  // of one chunk
  int64_t rows = 0;       // that have sums at a time
  int64_t bucket_rows = 0;
  int64_t buckets = 0;         // of one sequence, at most
  int64_t slice_channels = 0;  // a multiple of every panel
  int64_t key_slices = 0;      // slices of keys and their ropes
  int64_t value_slices = 0;    // of values of their own
  int64_t heads = 0;           // of a position, in whole panels of any width
  int64_t head_stride = 0;     // floats of a key's weights, in whole vectors

  int64_t slices() const { return key_slices + value_slices; }
};

GradCut CutGradients(const AttentionProblem& problem, const DeviceInfo& device);

struct GradPlace {
  GradCut cut;
  int64_t slots = 0;
  int64_t key_stride = 0, value_stride = 0, stage_stride = 0;
  Region<float> query, grad_out, statistics, keys, values, scores, grads, stage;
  Region<int64_t> unsorted;
  Region<GradLane> lanes;

  // Two records for every position of a chunk; sums of gradients of queries
  // once.
  Region<float> weights, grad_scores, query_blocks, grad_out_blocks;
  Region<int64_t> columns, bucket_ends;
  Region<float> grad_queries;

  Region<float> sums;

  GradScratch Scratch(std::byte* workspace, int64_t slot) const;
  // Record 0 to 2 * cut.positions - 1.
  GradRecord Record(std::byte* workspace, int64_t number) const;
  // Where each bucket's columns end in the record.
  int64_t* BucketEnds(std::byte* workspace, int64_t number) const;
  float* GradQuery(std::byte* workspace, int64_t position) const;
  // Of row 0 of a slice.
  float* Sums(std::byte* workspace, int64_t slice) const;
};

GradPlace GradLayout(const AttentionProblem& problem, const GradCut& cut,
                     int64_t slots, WorkspaceLayout& layout);

}  // namespace flashacl::cpu
