// SPDX-License-Identifier: Apache-2.0
// The documents' example by hand: one channel of one head, 2 x 3 scores,
// mode 3.
#pragma once

#include <string>

namespace flashacl::testing {

// Expects its numbers of every version in this layout, with everything that the
// version has.
void ExpectWorkedExample(const std::string& layout);

}  // namespace flashacl::testing
