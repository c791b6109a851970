// SPDX-License-Identifier: Apache-2.0
// Kernels read and write their tensors and their scratch memory, and not one
// byte more: on every instruction set, between pages that nobody may touch.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/str.h"
#include "cpu/decode/decode.h"
#include "cpu/forward/forward.h"
#include "cpu/forward/forward_kernel.h"
#include "cpu/forward/forward_operands.h"
#include "cpu/forward/forward_workspace.h"
#include "plan/sequences.h"
#include "tests/cpu/fences.h"
#include "tests/cpu/targets.h"
#include "tests/testing/fenced.h"
#include "tests/testing/generator.h"

namespace flashacl::cpu {
namespace {

using testing::ExpectSameBits;
using testing::ExpectStaysInside;
using testing::FencedBytes;
using testing::FencedTensors;
using testing::ForRandomProblems;
using testing::OnTarget;
using testing::ProblemOf;
using testing::ResultsOf;
using testing::Space;

// What a run does, one tile after another in scratch memory of which every
// buffer is by itself.
void LaunchTileByTile(const AttentionProblem& problem,
                      const Bindings& bindings) {
  WorkspaceLayout layout;
  const TileShape shape = ForwardTileShape(problem, {});
  const ForwardOperands run(problem, bindings, shape.cols);
  run.ClearUnownedRows();
  const Schedule schedule = run.BuildSchedule(shape);
  const TiledWorkspace workspace =
      ReserveForward(problem, shape, schedule.split_rows(), 1, layout);
  std::vector<FencedBytes> memory;
  const auto allocate = [&](int64_t bytes) {
    return memory.emplace_back(bytes).data();
  };
  const ScoreScratch score = workspace.score.Apart(allocate);
  const ForwardScratch forward = workspace.forward.Apart(allocate);
  const TiledScratch tiled = workspace.tiled.Apart(allocate);
  const PackedValues values{tiled.values, tiled.value_keys};
  const FencedBytes splits(workspace.splits.count * 4);
  const ForwardKernels kernels = Forward();
  const auto tile_of = [&](int64_t n) {
    return run.TileOf(schedule, n, {score, forward, splits.as<float>()});
  };
  for (int64_t n = 0; n < schedule.count(); ++n) {
    kernels.attend(tile_of(n), values, nullptr);
  }
  for (int64_t n = 0; n < schedule.count(); ++n) {
    const Tile cut = schedule.At(n);
    if (cut.num_splits > 1 && cut.split == 0)
      kernels.combine(tile_of(n), cut.num_splits);
  }
}

class Fenced : public ::testing::TestWithParam<int64_t> {
 protected:
  static void Check(const AttentionProblem& p, Random& random) {
    if (!kCpuForward.supports(p, {}).ok()) return;
    SmallCase small(p);
    small.FillInputs(random);
    if (kCpuDecode.supports(p, {}).ok()) {
      SmallCase few(p);
      few.CopyInputs(small);
      ExpectStaysInside(kCpuDecode, few, {2, 3});
    }
    const FencedTensors tiles(small, FencedBytes::Side::kEnd);
    ExpectStaysInside(kCpuForward, small, {2, 3});
    LaunchTileByTile(p, tiles.bindings());
    ExpectSameBits(small, tiles.bindings(), ResultsOf(p));
  }
};

TEST_P(Fenced, SmallProblemsStayInside) {
  const OnTarget target(GetParam());
  Space space;
  space.backward = false;
  ForRandomProblems(500, space, [](const AttentionProblem& p, Random& random) {
    Check(p, random);
  });
}

TEST_P(Fenced, LongProblemsStayInside) {
  const OnTarget target(GetParam());
  Space space;
  space.backward = false;
  space.most_sequences = 2;
  space.most_rows = 300;
  space.most_columns = 2500;
  space.most_heads = 3;
  space.most_dim = 40;
  ForRandomProblems(50, space, [](const AttentionProblem& p, Random& random) {
    Check(p, random);
  });
}

// Channels and keys around every size of a block.
TEST_P(Fenced, EverySizeOfABlockStaysInside) {
  const OnTarget target(GetParam());
  Random random(3);
  for (int64_t size = 0; size <= 40; ++size) {
    for (const char* rest : {"q=5 k=150", "q=40 k=13 causal"}) {
      for (const char* dtype : {"f32", "f16", "bf16"}) {
        const std::string line = Str("fwd {} h=1 d={} {}", dtype, size, rest);
        SCOPED_TRACE(line);
        Check(ProblemOf(line), random);
      }
    }
  }
}

// A bias stored along its diagonals has none where nobody sees.
TEST_P(Fenced, FewRowsOfADiagonalBiasStayInside) {
  const OnTarget target(GetParam());
  Random random(4);
  for (const char* line :
       {"fwd f32 h=1 d=4 q=40 k=40 causal bias:diagonal:1",
        "fwd f32 h=2/1 d=4 q=100 k=100 causal-left bias:before:diagonal:2",
        "fwd f16 h=1 d=4 q=50 k=50 window:5:0 bias:diagonal:1"}) {
    SCOPED_TRACE(line);
    Check(ProblemOf(line), random);
  }
}

INSTANTIATE_TEST_SUITE_P(
    EveryTarget, Fenced,
    ::testing::ValuesIn(testing::TargetsHere(ForwardTargets())),
    testing::TargetTestName);

}  // namespace
}  // namespace flashacl::cpu
