// SPDX-License-Identifier: Apache-2.0
// A law that judges an implementation without another one: attention over all
// keys is what attention over two halves of them combines to, and gradients
// over all keys are the sums of those over the halves.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "plan/backend.h"
#include "plan/implementation.h"
#include "verify/sample.h"

namespace flashacl {

// Splits the keys of every row by a random mask, runs `implementation` on all
// keys and on each half with results in f32, and compares. Ok, or the first
// element that differs by more than roundings explain; kUnsupported where the
// implementation does not take the problems of the halves.
Status CheckSplit(const Backend& backend, const Implementation& implementation,
                  const Sample& sample, uint64_t seed);

}  // namespace flashacl
