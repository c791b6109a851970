// SPDX-License-Identifier: Apache-2.0
// Bytes to one call of an operator of a family. Whatever the arguments say: a
// status that is documented, a message with every failure, nothing written by
// a call that failed and nothing but outputs by one that did not, no access
// outside of what tensors describe. Answers are compared with the reference's
// where the data are such that they can be.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/fuzz/bytes.h"
#include "tests/testing/operator_call.h"

namespace flashacl::testing {

class OperatorTarget {
 public:
  // Of the operators in operator_call.h that `belongs` is true of; `random` is
  // a valid call of one of them, another for every seed.
  OperatorTarget(bool (*belongs)(std::string_view name),
                 OperatorCall (*random)(uint64_t seed));

  // Of these calls.
  explicit OperatorTarget(std::vector<OperatorCall> calls)
      : plain_(std::move(calls)) {}

  int Run(const uint8_t* data, size_t size);

 private:
  const OperatorCall& Start(uint8_t choice);

  OperatorCall (*random_)(uint64_t seed) = nullptr;  // null: only plain ones
  std::vector<OperatorCall> plain_;
  std::map<uint8_t, OperatorCall> made_;
};

}  // namespace flashacl::testing
