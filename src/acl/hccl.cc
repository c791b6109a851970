// SPDX-License-Identifier: Apache-2.0
// Collectives between processes, of which there are none: a program that names
// them links, and is told when it calls.
#include "hccl/hccl.h"

#include <array>
#include <atomic>
#include <string_view>

#include "acl/error.h"
#include "acl/raw_enum.h"
#include "base/str.h"

namespace flashacl::acl {
namespace {

HcclResult NoCollective(std::string_view function) {
  GuardRuntime([&]() -> aclError {
    return Fail(HCCL_E_NOT_SUPPORT, Title::kNotSupported,
                Str("{} is not supported: there are no collectives between "
                    "processes here.",
                    function));
  });
  return HCCL_E_NOT_SUPPORT;
}

constexpr std::array<const char*, HCCL_E_RESERVED> kTexts = {
    "no error",
    "parameter error",
    "null pointer",
    "memory error",
    "internal error",
    "feature not supported",
    "resource not found",
    "resource not available",
    "system call failed",
    "timed out",
    "file cannot be opened",
    "tcp connection failed",
    "roce connection failed",
    "tcp transfer failed",
    "roce transfer failed",
    "runtime call failed",
    "driver call failed",
    "profiling call failed",
    "cce call failed",
    "network call failed",
    "try again",
    "remote error",
    "communicator suspended",
};

std::atomic<int32_t> deterministic{0};

constexpr int32_t kLastLevel = 3;  // as of ACL_OPT_DETERMINISTIC

// 0, or a status with a message; `value` is null where it is only asked for.
HcclResult Check(std::string_view function, int config, const int32_t* value) {
  HcclResult result = HCCL_SUCCESS;
  GuardRuntime([&]() -> aclError {
    if (config != HCCL_DETERMINISTIC) {
      result = HCCL_E_PARA;
      return FailValue(result, function, "config", Str("{}", config), "0");
    }
    if (value != nullptr && (*value < 0 || *value > kLastLevel)) {
      result = HCCL_E_PARA;
      return FailValue(result, function, "configValue", Str("{}", *value),
                       Str("0 to {}", kLastLevel));
    }
    return ACL_SUCCESS;
  });
  return result;
}

}  // namespace
}  // namespace flashacl::acl

namespace acl = flashacl::acl;

// One function: its name and the types of its parameters.
#define FLASHACL_UNSUPPORTED(name, ...) \
  HcclResult name(__VA_ARGS__) { return acl::NoCollective(#name); }

extern "C" {

FLASHACL_UNSUPPORTED(HcclGetRootInfo, HcclRootInfo*)
FLASHACL_UNSUPPORTED(HcclCommInitClusterInfo, const char*, uint32_t, HcclComm*)
FLASHACL_UNSUPPORTED(HcclCommInitRootInfo, uint32_t, const HcclRootInfo*,
                     uint32_t, HcclComm*)
FLASHACL_UNSUPPORTED(HcclCommInitRootInfoConfig, uint32_t, const HcclRootInfo*,
                     uint32_t, const HcclCommConfig*, HcclComm*)
FLASHACL_UNSUPPORTED(HcclCommInitAll, uint32_t, int32_t*, HcclComm*)
FLASHACL_UNSUPPORTED(HcclCommDestroy, HcclComm)
FLASHACL_UNSUPPORTED(HcclGetRankSize, HcclComm, uint32_t*)
FLASHACL_UNSUPPORTED(HcclGetRankId, HcclComm, uint32_t*)
FLASHACL_UNSUPPORTED(HcclGetCommName, HcclComm, char*)
FLASHACL_UNSUPPORTED(HcclGetCommAsyncError, HcclComm, HcclResult*)
FLASHACL_UNSUPPORTED(HcclBarrier, HcclComm, aclrtStream)
FLASHACL_UNSUPPORTED(HcclAllReduce, void*, void*, uint64_t, HcclDataType,
                     HcclReduceOp, HcclComm, aclrtStream)
FLASHACL_UNSUPPORTED(HcclBroadcast, void*, uint64_t, HcclDataType, uint32_t,
                     HcclComm, aclrtStream)
FLASHACL_UNSUPPORTED(HcclReduceScatter, void*, void*, uint64_t, HcclDataType,
                     HcclReduceOp, HcclComm, aclrtStream)
FLASHACL_UNSUPPORTED(HcclScatter, void*, void*, uint64_t, HcclDataType,
                     uint32_t, HcclComm, aclrtStream)
FLASHACL_UNSUPPORTED(HcclAllGather, void*, void*, uint64_t, HcclDataType,
                     HcclComm, aclrtStream)
FLASHACL_UNSUPPORTED(HcclReduce, void*, void*, uint64_t, HcclDataType,
                     HcclReduceOp, uint32_t, HcclComm, aclrtStream)
FLASHACL_UNSUPPORTED(HcclAlltoAll, const void*, uint64_t, HcclDataType,
                     const void*, uint64_t, HcclDataType, HcclComm, aclrtStream)
FLASHACL_UNSUPPORTED(HcclAlltoAllV, const void*, const void*, const void*,
                     HcclDataType, const void*, const void*, const void*,
                     HcclDataType, HcclComm, aclrtStream)
FLASHACL_UNSUPPORTED(HcclSend, void*, uint64_t, HcclDataType, uint32_t,
                     HcclComm, aclrtStream)
FLASHACL_UNSUPPORTED(HcclRecv, void*, uint64_t, HcclDataType, uint32_t,
                     HcclComm, aclrtStream)
FLASHACL_UNSUPPORTED(HcclBatchSendRecv, HcclSendRecvItem*, uint32_t, HcclComm,
                     aclrtStream)

HcclResult HcclSetConfig(HcclConfig config, HcclConfigValue configValue) {
  const HcclResult result =
      acl::Check("HcclSetConfig", acl::Raw(config), &configValue.value);
  if (result == HCCL_SUCCESS) acl::deterministic = configValue.value;
  return result;
}

HcclResult HcclGetConfig(HcclConfig config, HcclConfigValue* configValue) {
  constexpr const char* kFunction = "HcclGetConfig";
  if (configValue == nullptr) {
    acl::GuardRuntime([&] { return acl::FailNull(kFunction, "configValue"); });
    return HCCL_E_PTR;
  }
  const HcclResult result = acl::Check(kFunction, acl::Raw(config), nullptr);
  if (result == HCCL_SUCCESS) configValue->value = acl::deterministic;
  return result;
}

const char* HcclGetErrorString(HcclResult code) {
  const auto number = static_cast<size_t>(acl::Raw(code));
  return number < acl::kTexts.size() ? acl::kTexts[number] : "unknown error";
}

}  // extern "C"

#undef FLASHACL_UNSUPPORTED
