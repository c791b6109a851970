// SPDX-License-Identifier: Apache-2.0
// Random calls for training, of what the documents allow.
#pragma once

#include <string>

#include "base/random.h"
#include "tests/testing/training_oracle.h"

namespace flashacl::testing {

enum class Pass { kForward, kBackward };  // they allow different tokens

// A whole case in this layout, of any version that has it.
TrainingCase ChooseCase(const std::string& layout, Pass pass, Random& random);

}  // namespace flashacl::testing
