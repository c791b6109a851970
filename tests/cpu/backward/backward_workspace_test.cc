// SPDX-License-Identifier: Apache-2.0
// Scratch memory is as large as kernels of any width need, and grows with
// sequences only by one fp32 copy of the gradients of keys and values per kv
// head that is computed at a time.
#include "cpu/backward/backward_workspace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cpu/implementations.h"
#include "cpu/support.h"
#include "cpu/tuning.h"
#include "tests/cpu/buffers.h"
#include "tests/cpu/runs.h"
#include "tests/testing/generator.h"

namespace flashacl::cpu {
namespace {

using testing::AnyDevice;
using testing::ForRandomProblems;
using testing::PlanOn;
using testing::ProblemOf;
using testing::Space;

Plan PlanOf(const std::string& line, int64_t workers) {
  return PlanOn(kCpuBackward, ProblemOf(line), workers);
}

// What a kernel of any width touches of a worker's scratch.
void ExpectRoom(const AttentionProblem& p, const TileShape& shape,
                const BackwardWorkspace& workspace) {
  testing::Buffers room;
  const ScoreScratch scores = workspace.scores.Apart(std::ref(room));
  const BackwardScratch grad = workspace.scratch.Apart(std::ref(room));
  const int64_t channels = p.qk_dim + p.rope_dim;
  const int64_t rows = RoundUp(shape.rows, 32);
  const int64_t cols = shape.cols;
  const int64_t keys = cols + 7;  // blocks pass the last
  room.ExpectRoom("query", scores.query, rows * channels + 96);
  room.ExpectRoom("keys", scores.keys, keys * workspace.key_stride);
  room.ExpectRoom(
      "staging", scores.staging,
      3 * scores.staging_stride + std::max({channels, p.v_dim, cols + 3}));
  room.ExpectRoom("visible", scores.visible, CeilDiv(cols, 32) * 32);
  room.ExpectRoom("kept", scores.kept, CeilDiv(cols, 32) * 32);
  room.ExpectRoom("query rows", scores.query_rows, shape.rows);
  room.ExpectRoom("queries by row", grad.queries_by_row,
                  rows * workspace.key_stride);
  room.ExpectRoom("grad query", grad.grad_query, rows * workspace.key_stride);
  room.ExpectRoom("grad out rows", grad.grad_out_rows,
                  rows * workspace.value_stride);
  room.ExpectRoom("grad out", grad.grad_out, rows * p.v_dim + 96);
  room.ExpectRoom("values", grad.values, keys * workspace.value_stride);
  room.ExpectRoom("max", grad.max, rows);
  room.ExpectRoom("inv sum", grad.inv_sum, rows);
  room.ExpectRoom("delta", grad.delta, rows);
  room.ExpectRoom("sum of p dp", grad.sum_p_dp, rows);
  // Blocks of keys may pass the end of a panel's probs by 12 and start as far
  // before.
  EXPECT_GE(grad.panel_keys, cols + 12);
  const int64_t probs = workspace.row_block * grad.panel_keys;
  room.ExpectRoom("probs", grad.probs, probs);
  room.ExpectRoom("grad scores", grad.grad_scores, probs);
  room.ExpectRoom("seen", grad.seen, workspace.row_block / 8);
  room.ExpectRoom("facts", grad.facts, rows / 8);
  if (p.score.half_probs) {
    // A word for two rows, or for two keys.
    room.ExpectRoom("pairs of rows of probs", grad.prob_row_pairs, probs / 2);
    room.ExpectRoom("pairs of rows of grad scores", grad.grad_row_pairs,
                    probs / 2);
    room.ExpectRoom("pairs of keys of grad scores", grad.grad_key_pairs,
                    (cols / 2 + 1) * 32);
  }
  const int64_t swept = workspace.swept_steps * cols + 7;
  room.ExpectRoom("grad keys", grad.grad_keys, swept * workspace.key_stride);
  room.ExpectRoom("grad values", grad.grad_values,
                  swept * workspace.value_stride);
}

// The same of operands of matrix registers, which read 16 rows at a time.
void ExpectMatrixRoom(const AttentionProblem& p, const TileShape& shape,
                      const BackwardWorkspace& workspace) {
  testing::Buffers room;
  const ScoreScratch scores = workspace.scores.Apart(std::ref(room));
  const BackwardScratch grad = workspace.scratch.Apart(std::ref(room));
  const int64_t terms = workspace.matrix_terms;
  const int64_t rows = RoundUp(shape.rows, 32);
  const int64_t keys = RoundUp(shape.cols, 16);
  room.ExpectRoom("keys", scores.keys, keys * workspace.key_stride);
  room.ExpectRoom("values", grad.values, keys * workspace.value_stride);
  room.ExpectRoom("key rows", grad.key_rows, shape.cols * workspace.key_stride);
  room.ExpectRoom("pairs of query rows", grad.query_row_pairs,
                  terms * rows / 2 * workspace.key_stride);
  room.ExpectRoom("pairs of grad out rows", grad.grad_out_row_pairs,
                  terms * rows / 2 * workspace.value_stride);
  // Two keys to a word, and as many as a panel has lanes are stored at a time.
  EXPECT_GE(grad.channel_stride, (RoundUp(shape.cols + 32, 32)) / 2);
  room.ExpectRoom("keys by channel", grad.keys_by_channel,
                  terms * (p.qk_dim + p.rope_dim) * grad.channel_stride);
  EXPECT_GE(grad.word_stride, 2 * grad.block_words);
  EXPECT_GE(grad.block_words, workspace.row_block / 2);
  room.ExpectRoom("words of probs", grad.prob_words, keys * grad.word_stride);
  room.ExpectRoom("words of grad scores", grad.grad_words,
                  keys * grad.word_stride);
  room.ExpectRoom("words of grad scores of a panel", grad.grad_key_words,
                  RoundUp(shape.cols, 32) * 32);
  room.ExpectRoom("grad queries by channel", grad.grad_query_panels,
                  rows * (p.qk_dim + p.rope_dim));
  if (terms == 1) return;
  room.ExpectRoom("terms of out rows", grad.out_terms,
                  32 * workspace.value_stride);
}

// Where this process has the registers, or emulates them.
TEST(BackwardWorkspace, MatricesHaveRoom) {
  Space space;
  space.forward = false;
  space.unit_dim = 16;
  int64_t seen[3] = {};
  ForRandomProblems(300, space, [&](const AttentionProblem& p, Random& random) {
    const int terms = p.kv.gathers() ? 0 : MatrixTerms(p);
    if (terms == 0) return;
    DeviceInfo device = AnyDevice(random);
    device.vector_target = "AVX3";
    device.instruction_sets = {"amx_bf16"};
    const TileShape shape =
        SharedGradTileShape(p, BackwardTileShape(p, device), device.workers);
    EXPECT_TRUE(shape.rows <= kGradRowBlock || shape.rows % kGradRowBlock == 0);
    WorkspaceLayout layout;
    ExpectMatrixRoom(p, shape,
                     ReserveBackward(p, shape, device.workers, layout, terms));
    ++seen[terms];
  });
  EXPECT_TRUE(testing::SeenOften(seen[1], 5));
  EXPECT_TRUE(testing::SeenOften(seen[2], 5));
}

TEST(BackwardWorkspace, RowsOnMatricesFitASecondCache) {
  DeviceInfo device;
  device.l2_bytes = 2 << 20;
  device.vector_target = "AVX3";
  device.instruction_sets = {"amx_bf16"};
  const auto rows_of = [&](const char* line) {
    return BackwardTileShape(ProblemOf(line), device).rows;
  };
  EXPECT_EQ(rows_of("bwd bf16 h=8 d=64 q=4096 k=4096"), 1024);
  EXPECT_EQ(rows_of("bwd bf16 h=8 d=128 q=4096 k=4096"), 512);
  EXPECT_EQ(rows_of("bwd f16 h=8 d=128 q=4096 k=4096"), 256);
  EXPECT_EQ(rows_of("bwd f16 h=8 d=512+64/512 q=4096 k=4096"), kGradRowBlock);
  EXPECT_EQ(rows_of("bwd f32 h=8 d=128 q=4096 k=4096"), 1024);
  device.instruction_sets = {};
  EXPECT_EQ(rows_of("bwd bf16 h=8 d=128 q=4096 k=4096"), 1024);
}

// Longer ones only where a large cache was measured, and no decision of a step
// changes bits.
TEST(BackwardWorkspace, StepsAreLongerBesideALargeSecondCache) {
  DeviceInfo device;
  device.vector_target = "AVX3";
  const auto keys_of = [&](const char* line) {
    return BackwardTileShape(ProblemOf(line), device).cols;
  };
  const char* const floats = "bwd f32 h=8 d=128 q=128 k=128";
  const char* const pairs = "bwd bf16 h=8 d=128 q=128 k=128";
  const char* const rounded = "bwd bf16 h=8 d=128 q=128 k=128 probs:bf16";
  device.l2_bytes = (2 << 20) - 1;
  EXPECT_EQ(keys_of(floats), 96);
  device.l2_bytes = 2 << 20;
  EXPECT_EQ(keys_of(floats), 132);
  EXPECT_EQ(keys_of(pairs), 132);
  EXPECT_EQ(keys_of(rounded), 96);
  device.instruction_sets = {"amx_bf16"};
  EXPECT_EQ(keys_of(floats), 132);
  EXPECT_EQ(keys_of(pairs), 96);
}

TEST(BackwardWorkspace, KernelsOfAnyWidthHaveRoom) {
  Space space;
  space.forward = false;
  ForRandomProblems(300, space, [](const AttentionProblem& p, Random& random) {
    if (p.kv.gathers()) return;
    const DeviceInfo device = AnyDevice(random);
    const TileShape shape =
        SharedGradTileShape(p, BackwardTileShape(p, device), device.workers);
    WorkspaceLayout layout;
    const int terms = TakesMatrices(p, Backward()) ? MatrixTerms(p) : 0;
    const BackwardWorkspace workspace =
        ReserveBackward(p, shape, device.workers, layout, terms);
    EXPECT_EQ(layout, PlanOn(kCpuBackward, p, device).workspace);
    ExpectRoom(p, shape, workspace);
  });
}

TEST(BackwardWorkspace, FewWorkersHaveLargeTiles) {
  const AttentionProblem p = ProblemOf("bwd f32 h=16 d=64 q=1024 k=1024");
  const auto rows_of = [&](int64_t workers) {
    return SharedGradTileShape(p, BackwardTileShape(p, {}), workers).rows;
  };
  EXPECT_EQ(rows_of(1), 1024);
  EXPECT_EQ(rows_of(2), 1024);
  EXPECT_EQ(rows_of(4), 512);
  EXPECT_EQ(rows_of(192), kGradRowBlock);
}

int64_t BytesOf(const Plan& plan, std::string_view name) {
  for (const WorkspaceLayout::Entry& entry : plan.workspace.entries()) {
    if (entry.name == name) return entry.bytes;
  }
  return 0;
}

// One fp32 copy of dk and dv, with rows a quarter longer, for every kv head in
// work; nothing for queries.
TEST(BackwardWorkspace, GrowsWithKeysOfTheHeadsInWorkAlone) {
  for (const int64_t workers : {1, 2, 7}) {
    const Plan once = PlanOf("bwd bf16 h=16 d=128 q=4096 k=4096", workers);
    const Plan twice = PlanOf("bwd bf16 h=16 d=128 q=4096 k=8192", workers);
    const Plan rows = PlanOf("bwd bf16 h=16 d=128 q=8192 k=4096", workers);
    EXPECT_EQ(rows.workspace.bytes(), once.workspace.bytes());
    const int64_t sums = BytesOf(once, "sums of grad keys");
    EXPECT_GT(sums, 0);
    EXPECT_LE(sums, (workers + workers / 2 + 1) * (4096 + 12) * 160 * 4);
    EXPECT_LE(BytesOf(twice, "sums of grad keys"), 2 * sums);
  }
  const Plan one = PlanOf("bwd bf16 h=1 d=128 q=4096 k=4096", 7);
  EXPECT_LE(BytesOf(one, "sums of grad keys"), (4096 + 12) * 160 * 4);
}

// Sums take at most 16 MiB, or four times dq in fp32, or 1 GiB; where one head
// needs more there are none, and the workspace does not grow any further.
TEST(BackwardWorkspace, IsBounded) {
  const auto sums_of = [](const Plan& plan) {
    return BytesOf(plan, "sums of grad keys") +
           BytesOf(plan, "sums of grad values");
  };
  for (const int64_t workers : {1, 3, 40}) {
    for (const char* line :
         {"bwd bf16 h=64 d=128 q=8192 k=8192", "bwd f16 h=1 d=64 q=200 k=99999",
          "bwd f32 h=8/1 d=16 q=2000 k=2000", "bwd bf16 h=4 d=8 q=300 k=20000",
          "bwd bf16 h=128 d=192/128 q=16x4096 k=16x4096"}) {
      SCOPED_TRACE(line);
      const Plan plan = PlanOf(line, workers);
      const AttentionProblem& p = plan.problem();
      int64_t rows = 0;
      for (const Sequence& sequence : p.lengths.sequences) {
        rows += sequence.rows();
      }
      const int64_t grad_query = 4 * rows * p.heads * p.qk_dim;
      EXPECT_LE(sums_of(plan),
                std::min<int64_t>(std::max<int64_t>(4 * grad_query, 16 << 20),
                                  1 << 30));
    }
    const Plan longest =
        PlanOf("bwd bf16 h=1 d=128 q=1000000 k=1000000", workers);
    const Plan longer =
        PlanOf("bwd bf16 h=1 d=128 q=2000000 k=2000000", workers);
    EXPECT_EQ(sums_of(longest), 0);
    EXPECT_EQ(longer.workspace.bytes(), longest.workspace.bytes());
  }
}

// Tiles follow from the shape alone.
TEST(BackwardWorkspace, TilesAreThoseOfAnyNumberOfWorkers) {
  Space space;
  space.forward = false;
  space.device_lengths = false;
  ForRandomProblems(300, space, [](const AttentionProblem& p, Random&) {
    if (p.kv.gathers()) return;
    EXPECT_EQ(PlanOn(kCpuBackward, p, 13).prepared->Describe(),
              PlanOn(kCpuBackward, p, 1).prepared->Describe());
  });
}

}  // namespace
}  // namespace flashacl::cpu
