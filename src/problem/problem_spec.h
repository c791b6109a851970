// SPDX-License-Identifier: Apache-2.0
// What one can say of a problem before its tensors have strides: the content
// of one line of notation, and the canonical problem it means.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/dtype.h"
#include "problem/attention_problem.h"

namespace flashacl {

struct ProblemSpec {
  // One scale for a tensor, one per head and channel, or, of keys and values,
  // one per row or row and head, by sequence or by page.
  enum class Scales : uint8_t {
    kNone,
    kTensor,
    kChannel,
    kRow,
    kRowHead,
    kPageRow,
    kPageRowHead,
  };

  // Quantised rows: x = scale * (row + offset), or its inverse for outputs.
  struct Encoding {
    Scales scales = Scales::kNone;
    bool offset = false;

    bool operator==(const Encoding&) const = default;
  };

  // The axes along which a grid varies; it repeats along the others.
  struct Axes {
    bool sequence = true;
    bool head = true;
    bool row = true;

    bool operator==(const Axes&) const = default;
  };

  // Wanted gradients; a gradient of nothing is not wanted.
  struct Gradients {
    bool query = true;  // and its rope
    bool key = true;    // and its rope
    bool value = true;
    bool bias = false;
    bool sink = true;

    bool operator==(const Gradients&) const = default;
  };

  Direction direction = Direction::kForward;
  DType dtype = DType::kF32;  // of the query, and of what does not say else;
                              // i8: weights are rounded to i8 too
  bool query_bytes = false;   // the query alone is i8, with scales by row
  int64_t heads = 1;
  int64_t kv_heads = 1;
  int64_t qk_dim = 1;
  int64_t rope_dim = 0;
  int64_t v_dim = 1;

  std::vector<int64_t> rows;  // per sequence
  std::vector<int64_t> columns;
  int64_t prefix = 0;  // columns before those, in tensors of their own
  Lengths::Device query_lengths = Lengths::Device::kNone;
  Lengths::Device key_lengths = Lengths::Device::kNone;
  bool query_padding = false;
  bool key_padding = false;

  KvSource::Rows source = KvSource::Rows::kStrided;
  int64_t page_rows = 0;  // kPaged
  KvSource::Selection selection = KvSource::Selection::kAll;
  int64_t top_k = 0;        // kTopK: places in the list of a row
  int64_t gather_rows = 1;  // kTopK
  bool value_is_key = false;
  Encoding keys;
  Encoding values;            // kNone: as the keys
  bool int4 = false;          // words of i4x8 where keys have scales, not i8
  int64_t channel_block = 0;  // of keys, ropes and values; 0: no blocks

  DType out_dtype = DType::kF32;
  Encoding out;
  bool row_stats = false;  // row max and row sum; always in backward
  bool lse = false;        // log-sum-exp; never in backward

  std::vector<MaskRule> rules;
  std::optional<Axes> mask;
  bool mask_tail = false;     // the mask is of each sequence's last keys only
  Score score;                // keep_probability holds where `keep` does
  Axes bias;                  // slopes have no rows
  int64_t diagonal_rows = 0;  // bias: stored rows; 0 if all are
  bool sink = false;
  bool keep = false;
  Gradients gradients;

  bool operator==(const ProblemSpec&) const = default;
};

// 1 / sqrt(qk_dim): the scale a line of notation need not state.
float DefaultScale(int64_t qk_dim);

// Of results and biases unless a line says else: the query's, or f16 for i8.
DType DefaultFloat(DType query);

// The axes a mask and a bias have unless a line says else: one plane for all,
// one per sequence and head, one slope per head.
ProblemSpec::Axes DefaultMaskAxes();
ProblemSpec::Axes DefaultBiasAxes(Score::Bias bias);

// The canonical problem: sequences packed one after the other, dense tensors,
// lists and pages of just the rows needed, i64 lengths, i32 lists, f32 scales,
// bool masks, row max and sum as [row, head] with one lane. Needs as many rows
// as columns; CheckProblem judges the rest.
AttentionProblem Build(const ProblemSpec& problem_spec);

// Forgets strides, and what no line can say: equal problem_specs build equal
// problems. Build(SpecOf(problem)) is the canonical form of a problem.
ProblemSpec SpecOf(const AttentionProblem& problem);

}  // namespace flashacl
