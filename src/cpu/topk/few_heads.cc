// SPDX-License-Identifier: Apache-2.0
#include "cpu/topk/few_heads.h"

#include "cpu/processor_kind.h"
#include "cpu/support.h"
#include "cpu/tuning.h"

namespace flashacl::cpu {

static_assert(kFewHeadsOf512 <= kDecodeRows && kFewHeadsOf256 <= kDecodeRows);

int64_t MostFewHeads(const DeviceInfo& device) {
  // Nobody measured others (docs/notes/0073).
  if (kProcessorKind != ProcessorKind::kOther || HasMatrixCode(device)) {
    return 0;
  }
  if (device.vector_target == "AVX3") return kFewHeadsOf512;
  if (device.vector_target == "AVX2") return kFewHeadsOf256;
  return 0;
}

}  // namespace flashacl::cpu
