// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels of src/cpu/tile for every instruction set.
#include "bench/tile/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/tile/kernels.cc"
#include "cpu/targets.h"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "cpu/tile/load-inl.h"
#include "cpu/tile/mask-inl.h"
#include "cpu/tile/matmul-inl.h"
#include "cpu/tile/softmax-inl.h"
#include "cpu/tile/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::bench::HWY_NAMESPACE {

namespace tile = cpu::HWY_NAMESPACE;

template <int kRows>
void AddRows(const float* scalars, ptrdiff_t stride, const float* panel,
             int64_t depth, float* sums) {
  tile::Sums<kRows> block;
  block.Clear();
  tile::AddRows(scalars, stride, panel, depth, block);
  block.Store(sums);
}

template <int kRows>
void AddColumns(const float* scalars, const float* panel, int64_t depth,
                float* sums) {
  tile::Sums<kRows> block;
  block.Clear();
  tile::AddColumns(scalars, panel, depth, block);
  block.Store(sums);
}

template <int kRows>
BlockKernels Block() {
  return {kRows, AddRows<kRows>, AddColumns<kRows>};
}

void ExpAndSum(float* scores, int64_t count, const float* from, float* sum) {
  tile::ExpAndSum(scores, count, tile::PanelPair::Load(from)).Store(sum);
}

void OnlineSoftmax(float* scores, int64_t count, const float* block_max,
                   const SoftmaxState& state) {
  const tile::PanelState panel{state.max, state.sum};
  panel.OnlineSoftmax(scores, count, tile::PanelPair::Load(block_max))
      .Store(state.rescale);
}

void HideScores(float* scores, const uint32_t* visible, int64_t count,
                float* block_max) {
  tile::HideScores(scores, visible, count).Store(block_max);
}

void LoadRow(const cpu::ElementFormat& format, const std::byte* from,
             int64_t count, float* to) {
  tile::LoadRow(format, from, count, to);
}

void RowsToPanel(const FourLanes& at) {
  tile::RowsToPanel({at.rows, at.stride}, at.count, at.panel);
}

void AddRowsToPanel(const FourLanes& at) {
  tile::AddRowsToPanel({at.rows, at.stride}, at.count, kHalf, at.panel);
}

void PanelToRows(const FourLanes& at) {
  const tile::FourRows rows{at.rows, at.stride};
  tile::PanelToRows(
      at.panel, at.count, [](tile::Quads&) {},
      [&](int64_t k, const tile::Quads& quads)
          HWY_ATTR { rows.Store(quads, k); });
}

TileKernels TileTable() {
  return {.lanes = tile::Lanes(),
          .big = Block<tile::kBig>(),
          .small = Block<tile::kSmall>(),
          .softmax = ExpAndSum,
          .take_in = OnlineSoftmax,
          .hide_scores = HideScores,
          .load_row = LoadRow,
          .rows_to_panel = RowsToPanel,
          .add_rows_to_panel = AddRowsToPanel,
          .panel_to_rows = PanelToRows};
}

}  // namespace flashacl::bench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace flashacl::bench {
HWY_EXPORT(TileTable);

TileKernels ChosenTileKernels() { return HWY_DYNAMIC_DISPATCH(TileTable)(); }

int64_t TileTargets() { return HWY_TARGETS; }

}  // namespace flashacl::bench
#endif  // HWY_ONCE
