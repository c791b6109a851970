// SPDX-License-Identifier: Apache-2.0
// A backend whose memory the host cannot touch: its pages have no permissions
// but while memory is copied or one of its queues runs work. What reads a
// device's memory without the device ends the test.
#pragma once

#include "plan/backend.h"

namespace flashacl::testing {

// With the CPU's implementations. Never destroyed.
const Backend& LockedBackend();

// With the reference, as a device would run it: put on the queue, and not done
// when its run returns.
const Backend& LateBackend();

}  // namespace flashacl::testing
