// SPDX-License-Identifier: Apache-2.0
// How long operators may run and wait. CPUs cannot interrupt an operator, so
// the values are kept for the program and change nothing.
#include <atomic>
#include <cstdint>
#include <limits>
#include <string_view>

#include "acl/acl_rt.h"
#include "acl/error.h"

namespace flashacl::acl {
namespace {

constexpr uint64_t kMillisecond = 1000;
constexpr uint64_t kSecond = 1000 * kMillisecond;
constexpr uint64_t kDefault = 1091 * kSecond;
// The longest that aclrtGetOpExecuteTimeout can answer.
constexpr uint64_t kLongest =
    std::numeric_limits<uint32_t>::max() * kMillisecond;
// Any whole number of microseconds can be stored.
constexpr uint64_t kInterval = 1;

std::atomic<uint64_t> execute_us{kDefault};
std::atomic<uint64_t> wait_us{kDefault};

// 0 means the longest.
uint64_t Effective(uint64_t us) {
  return us == 0 || us > kLongest ? kLongest : us;
}

}  // namespace
}  // namespace flashacl::acl

namespace a = flashacl::acl;

extern "C" {

aclError aclrtSetOpWaitTimeout(uint32_t timeout) {
  a::wait_us = a::Effective(timeout * a::kSecond);
  return ACL_SUCCESS;
}

aclError aclrtSetOpExecuteTimeOut(uint32_t timeout) {
  a::execute_us = a::Effective(timeout * a::kSecond);
  return ACL_SUCCESS;
}

aclError aclrtSetOpExecuteTimeOutWithMs(uint32_t timeout) {
  a::execute_us = a::Effective(timeout * a::kMillisecond);
  return ACL_SUCCESS;
}

aclError aclrtSetOpExecuteTimeOutV2(uint64_t timeout, uint64_t* actualTimeout) {
  return a::GuardRuntime([&]() -> aclError {
    if (actualTimeout == nullptr) {
      return a::FailNull("aclrtSetOpExecuteTimeOutV2", "actualTimeout");
    }
    a::execute_us = a::Effective(timeout);
    *actualTimeout = a::Effective(timeout);
    return ACL_SUCCESS;
  });
}

aclError aclrtGetOpTimeOutInterval(uint64_t* interval) {
  return a::GuardRuntime([&]() -> aclError {
    if (interval == nullptr) {
      return a::FailNull("aclrtGetOpTimeOutInterval", "interval");
    }
    *interval = a::kInterval;
    return ACL_SUCCESS;
  });
}

aclError aclrtGetOpExecuteTimeout(uint32_t* timeoutMs) {
  return a::GuardRuntime([&]() -> aclError {
    if (timeoutMs == nullptr) {
      return a::FailNull("aclrtGetOpExecuteTimeout", "timeoutMs");
    }
    const uint64_t ms = a::execute_us / a::kMillisecond;
    *timeoutMs = static_cast<uint32_t>(ms);
    return ACL_SUCCESS;
  });
}

}  // extern "C"
