// SPDX-License-Identifier: Apache-2.0
// Tests of vector code run it on every instruction set that it is compiled for
// and this processor has.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <string>
#include <vector>

// First of what is Highway's.
#include "cpu/dispatch.h"
#include "hwy/targets.h"
#include "plan/implementation.h"

namespace flashacl::testing {

// While it lives, vector code runs on `target`; what is not compiled for SVE,
// on NEON.
class OnTarget {
 public:
  explicit OnTarget(int64_t target) {
    const bool is_sve = (target & FLASHACL_SVE_TARGETS) != 0;
    hwy::SetSupportedTargetsForTest(is_sve ? target | HWY_TARGETS : target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
  ~OnTarget() {
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
  OnTarget(const OnTarget&) = delete;
  OnTarget& operator=(const OnTarget&) = delete;
};

// One by one, the targets that vector code is compiled for and this processor
// has, as Highway's bits.
inline std::vector<int64_t> TargetsHere() {
  std::vector<int64_t> targets;
  for (int64_t rest = cpu::TargetsHere(); rest != 0; rest &= rest - 1) {
    targets.push_back(rest & -rest);
  }
  return targets;
}

// An implementation on a target.
struct Setting {
  int64_t target;
  const Implementation* implementation;

  friend void PrintTo(const Setting& setting, std::ostream* stream) {
    *stream << setting.implementation->name << " on "
            << cpu::TargetName(setting.target);
  }
};

inline std::string SettingTestName(
    const ::testing::TestParamInfo<Setting>& one) {
  std::string name(one.param.implementation->name.substr(4));  // without cpu/
  std::replace(name.begin(), name.end(), '/', '_');
  return name + "_" + cpu::TargetName(one.param.target);
}

// Every implementation on every target here.
inline std::vector<Setting> Settings(
    std::initializer_list<const Implementation*> all) {
  std::vector<Setting> settings;
  for (const int64_t target : TargetsHere()) {
    for (const Implementation* one : all) settings.push_back({target, one});
  }
  return settings;
}

inline std::string TargetTestName(
    const ::testing::TestParamInfo<int64_t>& one) {
  return cpu::TargetName(one.param);
}

}  // namespace flashacl::testing
