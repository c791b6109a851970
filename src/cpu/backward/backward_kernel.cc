// SPDX-License-Identifier: Apache-2.0
// The backward direction, compiled for every instruction set.
#include "cpu/backward/backward_kernel.h"

#include "hwy/cache_control.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/backward/backward_kernel.cc"
#include "cpu/targets.h"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "cpu/backward/backward-inl.h"
#include "cpu/dispatch.h"

HWY_BEFORE_NAMESPACE();
namespace flashacl::cpu::HWY_NAMESPACE {

BackwardKernels BackwardTable() {
  return {StartTile,
          LoadRows,
          LoadStep,
          SoftmaxBlock,
          AddDkv,
          StoreDkv,
          StoreDq,
          hwy::FlushStream,
          Width(),
          FLASHACL_HAS_PAIR_DOTS != 0,
          FLASHACL_HAS_MATRICES != 0 ? MatrixCode::kInstructions
                                     : MatrixCode::kEmulated};
}

}  // namespace flashacl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if FLASHACL_ONCE
namespace flashacl::cpu {
FLASHACL_EXPORT(BackwardKernels, BackwardTable);
BackwardKernels Backward() { return FLASHACL_DISPATCH(BackwardTable); }
}  // namespace flashacl::cpu
#endif
