// SPDX-License-Identifier: Apache-2.0
// The last lines of a file of kernels: a table of those of the target it is
// being compiled for, and the function that hands out the table of the best
// target there is. FLASHACL_DISPATCH(Forward, ...) defines
//
//   ForwardKernels Forward();  // {...}, of this processor
//
// The file declares both in its header, is included once per target by
// foreach_target.h, and includes this after that.

#include "hwy/highway.h"

#undef FLASHACL_TABLE
#define FLASHACL_TABLE(Name, ...)                       \
  HWY_BEFORE_NAMESPACE();                               \
  namespace flashacl::cpu::HWY_NAMESPACE {              \
  Name##Kernels Name##Table() { return {__VA_ARGS__}; } \
  }                                                     \
  HWY_AFTER_NAMESPACE();

#undef FLASHACL_DISPATCH
#if HWY_ONCE
#define FLASHACL_DISPATCH(Name, ...)                                   \
  FLASHACL_TABLE(Name, __VA_ARGS__)                                    \
  namespace flashacl::cpu {                                            \
  HWY_EXPORT(Name##Table);                                             \
  Name##Kernels Name() { return HWY_DYNAMIC_DISPATCH(Name##Table)(); } \
  }
#else
#define FLASHACL_DISPATCH FLASHACL_TABLE
#endif
