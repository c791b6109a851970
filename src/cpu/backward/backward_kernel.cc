// SPDX-License-Identifier: Apache-2.0
// The backward direction, compiled for every instruction set.
#include "cpu/backward/backward_kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/backward/backward_kernel.cc"
#include "cpu/targets.h"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "cpu/backward/backward-inl.h"
#include "cpu/dispatch-inl.h"

FLASHACL_DISPATCH(Backward, StartTile, LoadStep, SoftmaxBlock, AddDkv, StoreDkv,
                  StoreDq, Width(), FLASHACL_HAS_PAIR_DOTS != 0)
