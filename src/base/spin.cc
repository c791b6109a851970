// SPDX-License-Identifier: Apache-2.0
#include "base/spin.h"

#include "base/thread.h"

namespace flashacl {

bool MaySpin() {
  static const bool several = AvailableProcessors() > 1;
  return several;
}

}  // namespace flashacl
