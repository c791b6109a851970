// SPDX-License-Identifier: Apache-2.0
// aclrtMemcpy, its asynchronous and its two-dimensional forms. They check in
// the order programs rely on: nothing to do, null, kind, sizes, context.
#include <string>
#include <vector>

#include "acl/acl_rt.h"
#include "acl/capturing.h"
#include "acl/context.h"
#include "acl/error.h"
#include "acl/memory.h"
#include "acl/raw_enum.h"
#include "acl/transfer.h"

namespace flashacl::acl {
namespace {

// The five arguments of every plain copy.
struct Copy {
  void* dst;
  size_t dst_max;
  const void* src;
  size_t count;
  int kind;
};

aclError CheckCopy(std::string_view function, const Copy& copy,
                   Transfer* transfer) {
  if (copy.dst == nullptr) return FailNull(function, "dst");
  if (copy.src == nullptr) return FailNull(function, "src");
  if (copy.kind < ACL_MEMCPY_HOST_TO_HOST ||
      copy.kind > ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE) {
    return FailValue(ACL_ERROR_INVALID_PARAM, function, "kind",
                     std::to_string(copy.kind), "0 to 5");
  }
  if (copy.count > copy.dst_max) {
    return FailValue(
        ACL_ERROR_RT_PARAM_INVALID, function, "count",
        std::to_string(copy.count),
        "at most destMax, which is " + std::to_string(copy.dst_max));
  }
  if (const aclError error = RequireContext(function); error != 0) return error;
  if (copy.dst == copy.src) return ACL_SUCCESS;  // nothing moves
  *transfer = {.dst = static_cast<std::byte*>(copy.dst),
               .dst_pitch = copy.count,
               .src = static_cast<const std::byte*>(copy.src),
               .src_pitch = copy.count,
               .width = copy.count};
  return Check(function, copy.kind, transfer);
}

aclError CopyNow(std::string_view function, const Copy& copy) {
  if (copy.count == 0) return ACL_SUCCESS;
  Transfer transfer;
  if (const aclError error = CheckCopy(function, copy, &transfer); error != 0) {
    return error;
  }
  if (copy.dst == copy.src) return ACL_SUCCESS;
  if (const aclError error = RequireSynchronousAllowed(function); error != 0) {
    return error;
  }
  return Run(function, transfer);
}

bool OnDevice(const void* address) {
  Block block;
  return FindBlock(address, &block) && block.device();
}

// Kind 5: the source on the host is copied before the call returns, so that the
// caller may reuse it at once, pinned or not. (One on the device is ready only
// when the stream gets there.)
aclError SubmitBuffered(std::string_view function, Transfer transfer,
                        aclrtStream stream) {
  auto buffer = std::make_shared<std::vector<std::byte>>(transfer.width);
  Transfer fill = transfer;
  fill.dst = buffer->data();
  if (const aclError error = Run(function, fill); error != 0) return error;
  transfer.src = buffer->data();
  transfer.readable = transfer.width;
  Transfer to_host = transfer;
  to_host.src = transfer.dst;  // only the destination decides about waiting
  Locate(&to_host);
  transfer.waits = to_host.waits;
  transfer.buffer = std::move(buffer);
  return Submit(function, {&transfer, 1}, stream);
}

aclError CopyAsync(std::string_view function, const Copy& copy,
                   aclrtStream stream) {
  if (copy.count == 0) return ACL_SUCCESS;
  Transfer transfer;
  if (const aclError error = CheckCopy(function, copy, &transfer); error != 0) {
    return error;
  }
  if (copy.kind == ACL_MEMCPY_HOST_TO_HOST) {
    return Fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, Title::kNotSupported,
                std::string(function) +
                    " failed because copies from host to host (kind 0) are not "
                    "supported on a stream");
  }
  if (copy.dst == copy.src) return ACL_SUCCESS;
  if (copy.kind == ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE && !OnDevice(copy.src)) {
    return SubmitBuffered(function, transfer, stream);
  }
  Locate(&transfer);
  return Submit(function, {&transfer, 1}, stream);
}

aclError CheckPitch(std::string_view function, std::string_view name,
                    size_t pitch, size_t width) {
  if (width <= pitch) return ACL_SUCCESS;
  return FailValue(ACL_ERROR_INVALID_PARAM, function, name,
                   std::to_string(pitch),
                   "at least width, which is " + std::to_string(width));
}

aclError CheckCopy2d(std::string_view function, int kind, Transfer* transfer) {
  if (transfer->dst == nullptr) return FailNull(function, "dst");
  if (transfer->src == nullptr) return FailNull(function, "src");
  if (kind < ACL_MEMCPY_HOST_TO_DEVICE || kind > ACL_MEMCPY_DEFAULT) {
    return FailValue(ACL_ERROR_INVALID_PARAM, function, "kind",
                     std::to_string(kind), "1 to 4");
  }
  aclError error =
      CheckPitch(function, "dpitch", transfer->dst_pitch, transfer->width);
  if (error != 0) return error;
  error = CheckPitch(function, "spitch", transfer->src_pitch, transfer->width);
  if (error != 0) return error;
  error = RequireContext(function);
  return error != 0 ? error : Check(function, kind, transfer);
}

}  // namespace
}  // namespace flashacl::acl

namespace acl = flashacl::acl;

extern "C" {

aclError aclrtMemcpy(void* dst, size_t destMax, const void* src, size_t count,
                     aclrtMemcpyKind kind) {
  return acl::GuardRuntime([&] {
    return acl::CopyNow("aclrtMemcpy",
                        {dst, destMax, src, count, acl::Raw(kind)});
  });
}

aclError aclrtMemcpyAsync(void* dst, size_t destMax, const void* src,
                          size_t count, aclrtMemcpyKind kind,
                          aclrtStream stream) {
  return acl::GuardRuntime([&] {
    return acl::CopyAsync("aclrtMemcpyAsync",
                          {dst, destMax, src, count, acl::Raw(kind)}, stream);
  });
}

aclError aclrtMemcpyAsyncWithCondition(void* dst, size_t destMax,
                                       const void* src, size_t count,
                                       aclrtMemcpyKind kind,
                                       aclrtStream stream) {
  return acl::GuardRuntime([&] {
    return acl::CopyAsync("aclrtMemcpyAsyncWithCondition",
                          {dst, destMax, src, count, acl::Raw(kind)}, stream);
  });
}

aclError aclrtMemcpy2d(void* dst, size_t dpitch, const void* src, size_t spitch,
                       size_t width, size_t height, aclrtMemcpyKind kind) {
  return acl::GuardRuntime([&]() -> aclError {
    if (width == 0 || height == 0) return ACL_SUCCESS;
    acl::Transfer transfer{static_cast<std::byte*>(dst),
                           dpitch,
                           static_cast<const std::byte*>(src),
                           spitch,
                           width,
                           height};
    aclError error =
        acl::CheckCopy2d("aclrtMemcpy2d", acl::Raw(kind), &transfer);
    if (error == 0) error = acl::RequireSynchronousAllowed("aclrtMemcpy2d");
    if (error != 0) return error;
    return acl::Run("aclrtMemcpy2d", transfer);
  });
}

aclError aclrtMemcpy2dAsync(void* dst, size_t dpitch, const void* src,
                            size_t spitch, size_t width, size_t height,
                            aclrtMemcpyKind kind, aclrtStream stream) {
  return acl::GuardRuntime([&]() -> aclError {
    if (width == 0 || height == 0) return ACL_SUCCESS;
    acl::Transfer transfer{static_cast<std::byte*>(dst),
                           dpitch,
                           static_cast<const std::byte*>(src),
                           spitch,
                           width,
                           height};
    const aclError error =
        acl::CheckCopy2d("aclrtMemcpy2dAsync", acl::Raw(kind), &transfer);
    if (error != 0) return error;
    acl::Locate(&transfer);
    return acl::Submit("aclrtMemcpy2dAsync", {&transfer, 1}, stream);
  });
}

}  // extern "C"
