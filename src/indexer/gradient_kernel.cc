// SPDX-License-Identifier: Apache-2.0
// Gradients, compiled for every instruction set.
#include "indexer/gradient_kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "indexer/gradient_kernel.cc"
#include "cpu/targets.h"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "cpu/dispatch.h"
#include "hwy/highway.h"
#include "indexer/matrix_gradient-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::indexer::HWY_NAMESPACE {
GradientKernels GradientTable() {
  const auto differentiate = [](const GradientRow& row) HWY_ATTR {
    if (row.dots == cpu::PairDots::kMatrices) {
      return DifferentiateByMatrices(row);
    }
    Differentiate(row);
  };
  return {differentiate, AddRow, StoreSums, FLASHACL_HAS_PAIR_DOTS != 0,
          FLASHACL_HAS_MATRICES != 0 ? cpu::MatrixCode::kInstructions
                                     : cpu::MatrixCode::kEmulated};
}
}  // namespace flashacl::indexer::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if FLASHACL_ONCE
namespace flashacl::indexer {
FLASHACL_EXPORT(GradientKernels, GradientTable);
GradientKernels GradientKernelsHere() {
  return FLASHACL_DISPATCH(GradientTable);
}
}  // namespace flashacl::indexer
#endif
