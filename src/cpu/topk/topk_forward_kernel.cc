// SPDX-License-Identifier: Apache-2.0
// The forward direction over listed keys, compiled for every instruction set.
#include "cpu/topk/topk_forward_kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/topk/topk_forward_kernel.cc"
#include "cpu/targets.h"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "cpu/dispatch-inl.h"
#include "cpu/topk/topk_forward-inl.h"

FLASHACL_DISPATCH(TopKForward, AttendTopK, FLASHACL_HAS_PAIR_DOTS != 0)
