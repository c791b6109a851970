// SPDX-License-Identifier: Apache-2.0
// Selections, compiled for every instruction set.
#include "indexer/selection_kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "indexer/selection_kernel.cc"
#include "cpu/targets.h"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "cpu/dispatch.h"
#include "hwy/highway.h"
#include "indexer/matrix_selection-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::indexer::HWY_NAMESPACE {
SelectionKernels SelectionTable() {
  const auto select = [](const SelectionTile& tile) HWY_ATTR {
    if (tile.dots == cpu::PairDots::kMatrices) return SelectByMatrices(tile);
    Select(tile);
  };
  return {select, FLASHACL_HAS_PAIR_DOTS != 0,
          FLASHACL_HAS_MATRICES != 0 ? cpu::MatrixCode::kInstructions
                                     : cpu::MatrixCode::kEmulated};
}
}  // namespace flashacl::indexer::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if FLASHACL_ONCE
namespace flashacl::indexer {
FLASHACL_EXPORT(SelectionKernels, SelectionTable);
SelectionKernels SelectionKernelsHere() {
  return FLASHACL_DISPATCH(SelectionTable);
}
}  // namespace flashacl::indexer
#endif
