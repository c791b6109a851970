// SPDX-License-Identifier: Apache-2.0
// Scratch memory is as large as kernels of any width need, and it does not
// grow with sequences.
#include "cpu/forward/forward_workspace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cpu/forward/forward_operands.h"
#include "cpu/implementations.h"
#include "cpu/share_tuning.h"
#include "cpu/tuning.h"
#include "plan/sequences.h"
#include "tests/cpu/buffers.h"
#include "tests/cpu/runs.h"
#include "tests/testing/generator.h"
#include "tests/testing/random.h"

namespace flashacl::cpu {
namespace {

using testing::AnyDevice;
using testing::Buffers;
using testing::ForRandomProblems;
using testing::OneOf;
using testing::PlanOn;
using testing::ProblemOf;
using testing::Space;

// A vector's lanes and the unit of blocks that goes with its registers.
struct Machine {
  int64_t lanes;
  int64_t unit;

  int64_t width() const { return 2 * lanes; }
  // Blocks have 3 units or 2, at least 2 in all.
  int64_t BlockEnd(int64_t count) const {
    return std::max(RoundUp(count, unit), count == 0 ? 0 : 2 * unit);
  }
};
constexpr Machine kMachines[] = {{4, 2}, {4, 4}, {8, 2}, {16, 4}};

// What a kernel touches of a worker's scratch for tiles of this shape.
void ExpectRoom(const AttentionProblem& p, const TileShape& shape,
                const TiledWorkspace& workspace, const Machine& machine) {
  Buffers room;
  const ScoreScratch score = workspace.score.Apart(std::ref(room));
  const ForwardScratch forward = workspace.forward.Apart(std::ref(room));
  const TiledScratch tiled = workspace.tiled.Apart(std::ref(room));
  const int64_t channels = p.qk_dim + p.rope_dim;
  const int64_t width = machine.width();
  // Tiles have whole units of rows, but for the last of a sequence.
  const int64_t rows = RoundUp(RoundUp(shape.rows, kRowUnit), width);
  const int64_t cols = shape.cols;
  const int64_t words = CeilDiv(cols, 32) * width;
  const auto rows_of = [](int64_t count, int64_t stride, int64_t last) {
    return count == 0 ? 0 : (count - 1) * stride + last;
  };
  room.ExpectRoom("query", score.query, rows * channels + 3 * width);
  room.ExpectRoom("out", forward.out, rows * machine.BlockEnd(p.v_dim));
  room.ExpectRoom("max", forward.max, rows);
  room.ExpectRoom("sum", forward.sum, rows);
  room.ExpectRoom("keys", score.keys,
                  rows_of(machine.BlockEnd(cols), score.key_stride, channels));
  room.ExpectRoom("values", tiled.values,
                  machine.BlockEnd(p.v_dim) * tiled.value_keys);
  room.ExpectRoom("scores", forward.scores,
                  std::max(machine.BlockEnd(cols), RoundUp(cols, 4)) * width);
  room.ExpectRoom("staging", score.staging,
                  rows_of(4, score.staging_stride,
                          RoundUp(std::max({channels, p.v_dim, cols}), 4)));
  room.ExpectRoom("quant", forward.quant, 2 * (p.qk_dim + p.v_dim));
  room.ExpectRoom("next quant", tiled.next_quant, 2 * (p.qk_dim + p.v_dim));
  room.ExpectRoom("visible", score.visible, words);
  room.ExpectRoom("kept", score.kept, words);
  room.ExpectRoom("query rows", score.query_rows, rows);
  room.ExpectRoom("next query rows", tiled.next_query_rows, rows);
}

TEST(ForwardWorkspace, KernelsOfAnyWidthHaveRoom) {
  Space space;
  space.backward = false;
  space.most_dim = 600;
  space.most_rows = 300;
  space.most_columns = 3000;
  ForRandomProblems(600, space, [](const AttentionProblem& p, Random& random) {
    const DeviceInfo device = AnyDevice(random);
    if (!kCpuForward.supports(p, device).ok()) return;
    const TileShape shape = ForwardTileShape(p, device);
    const Schedule schedule = KnownSchedule(p, shape);
    WorkspaceLayout layout;
    const TiledWorkspace workspace =
        ReserveForward(p, shape, device.workers, layout);
    const Region<float> splits =
        ReserveSplits(p, SplitRowsOf(p, schedule, shape), layout);
    EXPECT_EQ(layout, PlanOn(kCpuForward, p, device).workspace);
    EXPECT_GE(splits.count, schedule.split_rows() * (p.v_dim + 2));
    for (const Machine& machine : kMachines) {
      ExpectRoom(p, shape, workspace, machine);
    }
  });
}

// Lengths on the device may be any that are no longer; a plan has room for the
// splits of all of them.
TEST(ForwardWorkspace, SplitsOfAnyLengthsHaveRoom) {
  Space space;
  space.backward = false;
  space.most_dim = 4;
  space.most_columns = 500;
  int64_t narrowed = 0, split = 0;
  ForRandomProblems(
      4000, space, [&](const AttentionProblem& p, Random& random) {
        TileShape shape;
        shape.row_unit = 32;
        shape.rows = 32 * random.Within(1, 4);
        shape.split_keys = OneOf<int64_t>(random, {1, 7, 16, 64, 128});
        shape.split_open_rows = 0;
        SmallCase small(p);
        for (int tries = 0; tries < 4; ++tries) {
          small.FillInputs(random);
          const auto sequences = ResolveSequences(p, small.bindings());
          const Schedule schedule =
              BuildSchedule({sequences, &p.mask, p.kv_heads, p.group()}, shape);
          EXPECT_LE(schedule.split_rows(), MaxSplitRows(p, {&shape, 1}));
          narrowed += sequences != p.lengths.sequences;
          split += schedule.num_splits() > 1;
        }
      });
  EXPECT_TRUE(testing::SeenOften(narrowed, 200));
  EXPECT_TRUE(testing::SeenOften(split, 1000));
}

// The same of the shape that a plan chooses, where few rows are split in many
// tiles.
TEST(ForwardWorkspace, SplitsOfChosenTilesHaveRoom) {
  Random random(11);
  const DeviceInfo device;
  int64_t last_row = 0;
  for (const char* line : {"fwd f32 h=8/2 d=4 q=3x100 k=3x9000 counts:qk",
                           "fwd f32 h=8/2 d=4 q=3x100 k=3x9000 counts:k causal",
                           "fwd f32 h=4 d=4 q=2x300 k=2x9000 ends:qk causal",
                           "fwd f32 h=8/1 d=4 q=9x7 k=9x5000 counts:qk"}) {
    SCOPED_TRACE(line);
    const AttentionProblem p = ProblemOf(line);
    const TileShape shape = ForwardTileShape(p, device);
    const int64_t most = MaxSplitRows(p, {&shape, 1});
    SmallCase small(p);
    for (int tries = 0; tries < 40; ++tries) {
      small.FillInputs(random);
      const auto sequences = ResolveSequences(p, small.bindings());
      const Schedule schedule =
          BuildSchedule({sequences, &p.mask, p.kv_heads, p.group()}, shape);
      EXPECT_LE(schedule.split_rows(), most);
      for (int64_t t = 0; t < schedule.count(); ++t) {
        const Tile tile = schedule.At(t);
        if (tile.num_splits > 1) {
          last_row = std::max(last_row, tile.rows.last);
        }
      }
    }
  }
  EXPECT_GT(last_row, kMaxSplitRows);
}

TEST(ForwardWorkspace, SplitsOfKnownLengthsAreCountedExactly) {
  const AttentionProblem problem =
      ProblemOf("fwd f32 h=8/2 d=8 q=3,40,0,7 k=5000,3000,9000,1024");
  TileShape shape;
  shape.rows = 128;
  shape.row_unit = 32;
  shape.split_keys = 1024;
  shape.split_open_rows = 0;
  // 12 rows in 5 splits; 160 rows are two tiles; 0 rows; one split.
  EXPECT_EQ(KnownSchedule(problem, shape).split_rows(), 12 * 5 * 2);
  EXPECT_GE(MaxSplitRows(problem, {&shape, 1}), 12 * 5 * 2);
}

int64_t BytesPerWorker(const Plan& plan, int64_t workers) {
  int64_t bytes = 0;
  for (const WorkspaceLayout::Entry& entry : plan.workspace.entries()) {
    if (entry.name != "splits") bytes += entry.bytes;
  }
  return bytes / workers;
}

TEST(ForwardWorkspace, WorkersTakeBelowFourMebibytesHoweverLongSequencesAre) {
  for (const char* dims : {"d=1", "d=64", "d=128", "d=192/128", "d=256",
                           "d=512", "d=512+64/512"}) {
    for (const int64_t l2 : {0, 64 << 10, 512 << 10, 2 << 20, 256 << 20}) {
      DeviceInfo device;
      device.l2_bytes = l2;
      device.workers = 3;
      for (const char* heads : {"h=1", "h=128/1", "h=64/8"}) {
        int64_t most = 0;
        for (const char* lengths : {"q=1 k=1", "q=1 k=1000000", "q=4096 k=4096",
                                    "q=1000000 k=1000000"}) {
          const std::string line = std::string("fwd bf16 ") + heads + " " +
                                   dims + " " + lengths + " causal";
          SCOPED_TRACE(line);
          most = std::max(
              most,
              BytesPerWorker(PlanOn(kCpuForward, ProblemOf(line), device), 3));
        }
        EXPECT_LT(most, 4 << 20);
      }
    }
  }
}

// From the length at which no more tiles are needed, nothing grows.
TEST(ForwardWorkspace, LongSequencesTakeNoMoreThanOthers) {
  const auto bytes = [](const std::string& line) {
    return PlanOn(kCpuForward, ProblemOf(line)).workspace.bytes();
  };
  EXPECT_EQ(bytes("fwd f16 h=32/8 d=128 q=1000000 k=1000000 causal"),
            bytes("fwd f16 h=32/8 d=128 q=16384 k=16384 causal"));
}

TEST(ForwardWorkspace, FewWorkersHaveLargeTiles) {
  const AttentionProblem p = ProblemOf("fwd f32 h=16 d=64 q=1024 k=1024");
  DeviceInfo device;
  device.l2_bytes = 1 << 20;
  const auto rows_of = [&](int64_t workers) {
    device.workers = workers;
    return ForwardTileShape(p, device).rows;
  };
  EXPECT_EQ(rows_of(1), 1024);
  EXPECT_EQ(rows_of(4), 1024);
  EXPECT_EQ(rows_of(8), 512);
  EXPECT_EQ(rows_of(16), 256);
  EXPECT_EQ(rows_of(192), 256);
}

TEST(ForwardWorkspace, TilesAreWholeUnits) {
  Space space;
  space.backward = false;
  space.most_dim = 1500;
  space.most_rows = 3000;
  ForRandomProblems(500, space, [](const AttentionProblem& p, Random& random) {
    DeviceInfo device = AnyDevice(random);
    const TileShape shape = ForwardTileShape(p, device);
    EXPECT_EQ(shape.rows % kRowUnit, 0) << shape.rows;
    EXPECT_EQ(shape.cols % kColumnUnit, 0) << shape.cols;
    EXPECT_GE(shape.rows, kRowUnit);
    EXPECT_LE(shape.rows, kMaxRows);
    EXPECT_GE(shape.cols, kColumnUnit);
    EXPECT_LE(shape.cols, kMaxStepKeys);
    EXPECT_EQ(shape.split_keys % shape.cols, 0) << shape.split_keys;
    // Workers change rows alone: what a step and a split are decides on bits.
    device.workers += 9;
    TileShape of_more = ForwardTileShape(p, device);
    EXPECT_LE(of_more.rows, shape.rows);
    of_more.rows = shape.rows;
    EXPECT_EQ(of_more, shape);
    TileShape shared = SharedTileShape(p, shape, random.Within(1, 300));
    EXPECT_EQ(shared.rows % kRowUnit, 0) << shared.rows;
    EXPECT_GE(shared.rows, std::min(shape.rows, kMinShareRows));
    EXPECT_LE(shared.rows, shape.rows);
    shared.rows = shape.rows;
    EXPECT_EQ(shared, shape);
  });
}

}  // namespace
}  // namespace flashacl::cpu
