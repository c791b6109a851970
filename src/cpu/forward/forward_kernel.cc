// SPDX-License-Identifier: Apache-2.0
// The forward direction, compiled for every instruction set.
#include "cpu/forward/forward_kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/forward/forward_kernel.cc"
#include "cpu/targets.h"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "cpu/dispatch-inl.h"
#include "cpu/forward/forward-inl.h"

FLASHACL_DISPATCH(Forward, AttendTile, CombineSplits,
                  FLASHACL_HAS_PAIR_DOTS != 0)
