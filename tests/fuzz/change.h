// SPDX-License-Identifier: Apache-2.0
// What a fuzzer may change in a call of an operator: one thing at a time, or
// one thing everywhere, so that the call may stay a valid one.
#pragma once

#include "tests/fuzz/bytes.h"
#include "tests/testing/operator_call.h"

namespace flashacl::testing {

void Change(Bytes& bytes, OperatorCall& call);

}  // namespace flashacl::testing
