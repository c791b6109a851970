// SPDX-License-Identifier: Apache-2.0
// The calls that a program of tests/fuzz/runtime_fuzz.cc consists of: tables,
// one for each part of the runtime. A step returns a call's status; not 0 asks
// for a message.
#pragma once

#include <span>

#include "tests/fuzz/world.h"

namespace flashacl::testing {

using Step = int (*)(World& w);
#define STEP(call) [](World& w) -> int { return ((void)w, call); }

std::span<const Step> NotifySteps();
std::span<const Step> ShareSteps();
std::span<const Step> ProfileSteps();
std::span<const Step> DescriptionSteps();
std::span<const Step> SingleOpSteps();

}  // namespace flashacl::testing
