// SPDX-License-Identifier: Apache-2.0
// aclDataBuffer: an address and a size under one handle.
#include <memory>
#include <string_view>

#include "acl/acl_rt.h"
#include "acl/error.h"
#include "acl/handle.h"
#include "base/str.h"

namespace flashacl::acl {
namespace {

struct DataBuffer {
  static constexpr HandleKind kHandleKind = HandleKind::kDataBuffer;

  void* data = nullptr;
  size_t size = 0;
};

aclError FailHandle(std::string_view function, const aclDataBuffer* buffer) {
  if (buffer == nullptr) return FailNull(function, "dataBuffer");
  return FailValue(ACL_ERROR_INVALID_PARAM, function, "dataBuffer",
                   Str("{}", static_cast<const void*>(buffer)),
                   "a live aclDataBuffer");
}

// What the buffer names; nothing, with a message, if it is not live.
DataBuffer Read(std::string_view function, const aclDataBuffer* buffer) {
  DataBuffer answer;
  GuardRuntime([&]() -> aclError {
    const std::shared_ptr<DataBuffer> found = Find<DataBuffer>(buffer);
    if (found == nullptr) return FailHandle(function, buffer);
    answer = *found;
    return ACL_SUCCESS;
  });
  return answer;
}

}  // namespace
}  // namespace flashacl::acl

namespace acl = flashacl::acl;

extern "C" {

aclDataBuffer* aclCreateDataBuffer(void* data, size_t size) {
  aclDataBuffer* created = nullptr;
  acl::GuardRuntime([&]() -> aclError {
    auto buffer = std::make_shared<acl::DataBuffer>();
    buffer->data = data;
    buffer->size = size;
    created = static_cast<aclDataBuffer*>(acl::NewHandle(std::move(buffer)));
    if (created != nullptr) return ACL_SUCCESS;
    return acl::Fail(
        ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, acl::Title::kRuntime,
        "aclCreateDataBuffer failed because there are no handles left.");
  });
  return created;
}

aclError aclDestroyDataBuffer(const aclDataBuffer* dataBuffer) {
  return acl::GuardRuntime([&]() -> aclError {
    if (acl::Take<acl::DataBuffer>(dataBuffer) != nullptr) return ACL_SUCCESS;
    return acl::FailHandle("aclDestroyDataBuffer", dataBuffer);
  });
}

aclError aclUpdateDataBuffer(aclDataBuffer* dataBuffer, void* data,
                             size_t size) {
  return acl::GuardRuntime([&]() -> aclError {
    const auto found = acl::Find<acl::DataBuffer>(dataBuffer);
    if (found == nullptr) {
      return acl::FailHandle("aclUpdateDataBuffer", dataBuffer);
    }
    found->data = data;
    found->size = size;
    return ACL_SUCCESS;
  });
}

void* aclGetDataBufferAddr(const aclDataBuffer* dataBuffer) {
  return acl::Read("aclGetDataBufferAddr", dataBuffer).data;
}

uint32_t aclGetDataBufferSize(const aclDataBuffer* dataBuffer) {
  return static_cast<uint32_t>(
      acl::Read("aclGetDataBufferSize", dataBuffer).size);
}

size_t aclGetDataBufferSizeV2(const aclDataBuffer* dataBuffer) {
  return acl::Read("aclGetDataBufferSizeV2", dataBuffer).size;
}

}  // extern "C"
