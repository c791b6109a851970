// SPDX-License-Identifier: Apache-2.0
#include "acl/exception.h"

#include <atomic>

namespace flashacl::acl {
namespace {

std::atomic<aclrtExceptionInfoCallback> the_callback{nullptr};
constexpr uint32_t kNoInfo = 0xFFFFFFFF;

}  // namespace

void CallExceptionCallback(aclrtExceptionInfo info) {
  const aclrtExceptionInfoCallback callback = the_callback.load();
  if (callback != nullptr) callback(&info);
}

}  // namespace flashacl::acl

extern "C" {

aclError aclrtSetExceptionInfoCallback(aclrtExceptionInfoCallback callback) {
  flashacl::acl::the_callback.store(callback);
  return ACL_SUCCESS;
}

uint32_t aclrtGetTaskIdFromExceptionInfo(const aclrtExceptionInfo* info) {
  return info == nullptr ? flashacl::acl::kNoInfo : info->task_id;
}

uint32_t aclrtGetStreamIdFromExceptionInfo(const aclrtExceptionInfo* info) {
  return info == nullptr ? flashacl::acl::kNoInfo : info->stream_id;
}

uint32_t aclrtGetThreadIdFromExceptionInfo(const aclrtExceptionInfo* info) {
  return info == nullptr ? flashacl::acl::kNoInfo : info->thread_id;
}

uint32_t aclrtGetDeviceIdFromExceptionInfo(const aclrtExceptionInfo* info) {
  return info == nullptr ? flashacl::acl::kNoInfo : info->device_id;
}

uint32_t aclrtGetErrorCodeFromExceptionInfo(const aclrtExceptionInfo* info) {
  return info == nullptr ? flashacl::acl::kNoInfo : info->code;
}

}  // extern "C"
