// SPDX-License-Identifier: Apache-2.0
// Tests of vector code run it on every instruction set that it is compiled for
// and this processor has.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

// First of what is Highway's.
#include "cpu/targets.h"
#include "hwy/targets.h"

namespace flashacl::testing {

// While it lives, vector code runs on `target`.
class OnTarget {
 public:
  explicit OnTarget(int64_t target) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
  ~OnTarget() {
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
  OnTarget(const OnTarget&) = delete;
  OnTarget& operator=(const OnTarget&) = delete;
};

// One by one, the bits of `compiled` that this processor has.
inline std::vector<int64_t> TargetsHere(int64_t compiled) {
  std::vector<int64_t> targets;
  for (int64_t rest = compiled & hwy::SupportedTargets(); rest != 0;
       rest &= rest - 1) {
    targets.push_back(rest & -rest);
  }
  return targets;
}

inline std::string TargetTestName(
    const ::testing::TestParamInfo<int64_t>& one) {
  return hwy::TargetName(one.param);
}

}  // namespace flashacl::testing
