// SPDX-License-Identifier: Apache-2.0
// Scratch memory is as large as kernels of any width need, nobody shares it,
// and it does not grow with sequences.
#include "cpu/forward/forward_workspace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cpu/forward/forward.h"
#include "cpu/forward/forward_operands.h"
#include "cpu/tuning.h"
#include "plan/sequences.h"
#include "tests/cpu/runs.h"
#include "tests/testing/generator.h"
#include "tests/testing/random.h"

namespace flashacl::cpu {
namespace {

using testing::AnyDevice;
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

struct Piece {
  const char* name;
  const std::byte* first;
  const std::byte* last;
};

template <typename T>
Piece PieceOf(const char* name, const T* at, int64_t count) {
  const auto* first = reinterpret_cast<const std::byte*>(at);
  return {name, first, first + count * static_cast<int64_t>(sizeof(T))};
}

// What planning decides for a problem, and its memory.
struct Reserved {
  Reserved(const AttentionProblem& p, const DeviceInfo& device)
      : problem(p),
        shape(ForwardTileShape(p, device)),
        schedule(KnownSchedule(p, shape)),
        workspace(ReserveForward(p, shape, SplitRowsOf(p, schedule, shape),
                                 device.workers, layout)) {}

  const AttentionProblem& problem;
  WorkspaceLayout layout;
  TileShape shape;
  Schedule schedule;
  TiledWorkspace workspace;
};

// What a kernel touches of a worker's scratch.
std::vector<Piece> Touched(const Reserved& reserved, std::byte* memory,
                           int64_t worker, const Machine& machine) {
  const TiledWorkspace& workspace = reserved.workspace;
  const ScoreScratch score = workspace.score.At(memory, worker);
  const ForwardScratch forward = workspace.forward.At(memory, worker);
  const TiledScratch tiled = workspace.tiled.At(memory, worker);
  const AttentionProblem& p = reserved.problem;
  const int64_t channels = p.qk_dim + p.rope_dim;
  const int64_t width = machine.width();
  // Tiles have whole units of rows, but for the last of a sequence.
  const int64_t rows = RoundUp(RoundUp(reserved.shape.rows, kRowUnit), width);
  const int64_t cols = reserved.shape.cols;
  const int64_t words = CeilDiv(cols, 32) * width;
  const auto rows_of = [](int64_t count, int64_t stride, int64_t last) {
    return count == 0 ? 0 : (count - 1) * stride + last;
  };
  std::vector<Piece> pieces = {
      PieceOf("query", score.query, rows * channels + 3 * width),
      PieceOf("out", forward.out, rows * machine.BlockEnd(p.v_dim)),
      PieceOf("max", forward.max, rows),
      PieceOf("sum", forward.sum, rows),
      PieceOf("keys", score.keys,
              rows_of(machine.BlockEnd(cols), score.key_stride, channels)),
      PieceOf("values", tiled.values,
              machine.BlockEnd(p.v_dim) * tiled.value_keys),
      PieceOf("scores", forward.scores,
              std::max(machine.BlockEnd(cols), RoundUp(cols, 4)) * width),
      PieceOf("stage", score.staging,
              rows_of(4, score.staging_stride,
                      RoundUp(std::max({channels, p.v_dim, cols}), 4))),
      PieceOf("codec", forward.quant, 2 * (p.qk_dim + p.v_dim)),
      PieceOf("other codec", tiled.next_quant, 2 * (p.qk_dim + p.v_dim)),
      PieceOf("visible", score.visible, words),
      PieceOf("kept", score.kept, words),
      PieceOf("lanes", score.query_rows, rows),
      PieceOf("other lanes", tiled.next_query_rows, rows)};
  return pieces;
}

TEST(Scratch, NobodySharesAndEverybodyHasEnough) {
  Space space;
  space.backward = false;
  space.most_dim = 600;
  space.most_rows = 300;
  space.most_columns = 3000;
  ForRandomProblems(600, space, [](const AttentionProblem& p, Random& random) {
    const DeviceInfo device = AnyDevice(random);
    if (!kCpuForward.supports(p, device).ok()) return;
    const Reserved reserved(p, device);
    EXPECT_EQ(reserved.layout, PlanOn(kCpuForward, p, device).workspace);
    const ForwardWorkspace& own = reserved.workspace;
    // Never touched, so it may be anywhere.
    auto* const workspace = reinterpret_cast<std::byte*>(uintptr_t{1} << 32);
    for (const Machine& machine : kMachines) {
      std::vector<Piece> all;
      for (int64_t worker = 0; worker < own.score.count(); ++worker) {
        const auto pieces = Touched(reserved, workspace, worker, machine);
        all.insert(all.end(), pieces.begin(), pieces.end());
      }
      const auto splits = own.splits.In(workspace);
      all.push_back(PieceOf("splits", splits.data(),
                            reserved.schedule.split_rows() * (p.v_dim + 2)));
      std::ranges::stable_sort(all, {}, &Piece::first);
      const std::byte* end = workspace;
      const char* before = "the workspace's start";
      for (const Piece& piece : all) {
        if (piece.first == piece.last) continue;
        EXPECT_GE(piece.first, end) << before << " meets " << piece.name;
        end = piece.last;
        before = piece.name;
      }
      EXPECT_LE(end, workspace + reserved.layout.bytes()) << before;
    }
  });
}

// Kernels load and store whole vectors of the widest instruction set there.
TEST(Scratch, PanelsAreAlignedToCacheLines) {
  Space space;
  space.backward = false;
  ForRandomProblems(300, space, [](const AttentionProblem& p, Random& random) {
    const DeviceInfo device = AnyDevice(random);
    if (!kCpuForward.supports(p, device).ok()) return;
    const Reserved reserved(p, device);
    auto* const workspace = reinterpret_cast<std::byte*>(uintptr_t{1} << 32);
    for (int64_t worker = 0; worker < device.workers; ++worker) {
      const TiledWorkspace& own = reserved.workspace;
      const ScoreScratch score = own.score.At(workspace, worker);
      const ForwardScratch forward = own.forward.At(workspace, worker);
      const TiledScratch tiled = own.tiled.At(workspace, worker);
      for (const void* at :
           {static_cast<void*>(score.query), static_cast<void*>(forward.out),
            static_cast<void*>(forward.max), static_cast<void*>(forward.sum),
            static_cast<void*>(forward.scores),
            static_cast<void*>(score.visible),
            static_cast<void*>(score.kept)}) {
        EXPECT_EQ(reinterpret_cast<uintptr_t>(at) % 64, 0u);
      }
      EXPECT_EQ(reinterpret_cast<uintptr_t>(tiled.next_query_rows) %
                    alignof(QueryRow),
                0u);
    }
  });
}

// Lengths on the device may be any that are no longer; a plan has room for the
// splits of all of them.
TEST(Scratch, PartsOfAnyLengthsHaveRoom) {
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
        SmallCase small(p);
        for (int tries = 0; tries < 4; ++tries) {
          small.FillInputs(random);
          const auto sequences = ResolveSequences(p, small.bindings());
          const Schedule schedule =
              BuildSchedule({sequences, &p.mask, p.kv_heads, p.group()}, shape);
          EXPECT_LE(schedule.split_rows(), MaxSplitRows(p, shape));
          narrowed += sequences != p.lengths.sequences;
          split += schedule.num_splits() > 1;
        }
      });
  EXPECT_GT(narrowed, 200);
  EXPECT_GT(split, 1000);
}

TEST(Scratch, PartsOfKnownLengthsAreCountedExactly) {
  const AttentionProblem problem =
      ProblemOf("fwd f32 h=8/2 d=8 q=3,40,0,7 k=5000,3000,9000,1024");
  TileShape shape;
  shape.rows = 128;
  shape.row_unit = 32;
  shape.split_keys = 1024;
  // 12 rows in 5 splits; 160 rows are two tiles; 0 rows; one part.
  EXPECT_EQ(KnownSchedule(problem, shape).split_rows(), 12 * 5 * 2);
  EXPECT_GE(MaxSplitRows(problem, shape), 12 * 5 * 2);
}

int64_t BytesPerWorker(const Plan& plan, int64_t workers) {
  int64_t bytes = 0;
  for (const WorkspaceLayout::Entry& entry : plan.workspace.entries()) {
    if (entry.name != "splits") bytes += entry.bytes;
  }
  return bytes / workers;
}

TEST(Scratch, WorkersTakeBelowFourMebibytesHoweverLongSequencesAre) {
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
TEST(Scratch, LongSequencesTakeNoMoreThanOthers) {
  const auto bytes = [](const std::string& line) {
    return PlanOn(kCpuForward, ProblemOf(line)).workspace.bytes();
  };
  EXPECT_EQ(bytes("fwd f16 h=32/8 d=128 q=1000000 k=1000000 causal"),
            bytes("fwd f16 h=32/8 d=128 q=16384 k=16384 causal"));
}

TEST(Scratch, TilesAreWholeUnitsOfTheProblemAlone) {
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
    EXPECT_LE(shape.cols, kMaxColumns);
    device.workers += 9;
    const TileShape again = ForwardTileShape(p, device);
    EXPECT_EQ(again.rows, shape.rows);
    EXPECT_EQ(again.cols, shape.cols);
    EXPECT_EQ(again.split_keys, shape.split_keys);
  });
}

}  // namespace
}  // namespace flashacl::cpu
