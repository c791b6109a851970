// SPDX-License-Identifier: Apache-2.0
// aclrtMemset and its relatives.
#include <cstddef>
#include <cstdint>
#include <string>

#include "acl/acl_rt.h"
#include "acl/backend.h"
#include "acl/capturing.h"
#include "acl/context.h"
#include "acl/error.h"
#include "acl/host_register.h"
#include "acl/memory.h"
#include "acl/stream.h"
#include "acl/transfer.h"
#include "base/str.h"

namespace flashacl::acl {
namespace {

aclError CheckFill(std::string_view function, void* at, size_t max,
                   size_t count) {
  if (at == nullptr) return FailNull(function, "devPtr");
  if (count > max) {
    return FailValue(ACL_ERROR_RT_PARAM_INVALID, function, "count",
                     std::to_string(count),
                     "at most maxCount, which is " + std::to_string(max));
  }
  if (const aclError error = RequireContext(function); error != 0) return error;
  return CheckWrite(function, at, count);
}

// Runs `fill` on the stream; waits for it if the memory is pageable, which the
// caller may take back once this returns.
aclError SubmitFill(std::string_view function, const void* at, size_t bytes,
                    Task fill, aclrtStream stream) {
  Block block;
  if (!FindBlock(at, &block) && !IsRegistered(at, bytes)) {
    return EnqueueAndWait(stream, std::move(fill), function);
  }
  const BlockUse use({&at, 1});
  return Enqueue(
      stream, [use, fill = std::move(fill)] { return fill(); }, function);
}

aclError FailWords(std::string_view function, std::string_view parameter,
                   std::string value, std::string_view expected) {
  return FailValue(ACL_ERROR_INVALID_PARAM, function, parameter,
                   std::move(value), expected);
}

// Every mistake in words is 100000, unlike those in bytes.
aclError CheckWords(std::string_view function, void* at, size_t max,
                    size_t words) {
  if (at == nullptr) return FailNull(function, "devPtr");
  if (reinterpret_cast<uintptr_t>(at) % sizeof(uint32_t) != 0) {
    return FailWords(function, "devPtr", Str("{}", at), "a multiple of 4");
  }
  if (words > max / sizeof(uint32_t)) {
    return FailWords(function, "num", std::to_string(words),
                     "at most maxCount / 4, which is " +
                         std::to_string(max / sizeof(uint32_t)));
  }
  if (const aclError error = RequireContext(function); error != 0) return error;
  Block block;
  if (!FindBlock(at, &block) || !block.device()) {
    return FailWords(function, "devPtr", Str("{}", at), "device memory");
  }
  const size_t offset =
      static_cast<size_t>(static_cast<std::byte*>(at) - block.base);
  if (words * sizeof(uint32_t) > block.reserved - offset) {
    return FailWords(
        function, "num", std::to_string(words),
        Str("at most the {} bytes left in the block", block.reserved - offset));
  }
  return ACL_SUCCESS;
}

Task FillBytes(std::string_view function, void* at, int32_t value,
               size_t count) {
  return [=]() -> aclError {
    profile::NoteBytes(count);
    const aclError raced = NoteFill(function, at, count);
    if (raced != 0) return raced;
    DeviceMemory().Fill(static_cast<std::byte*>(at),
                        static_cast<std::byte>(value & 0xFF), count);
    return ACL_SUCCESS;
  };
}

Task FillWords(std::string_view function, void* at, uint32_t value,
               size_t words) {
  return [=]() -> aclError {
    const size_t bytes = words * sizeof(uint32_t);
    profile::NoteBytes(bytes);
    const aclError raced = NoteFill(function, at, bytes);
    if (raced != 0) return raced;
    DeviceMemory().FillWords(static_cast<std::byte*>(at), value, words);
    return ACL_SUCCESS;
  };
}

}  // namespace
}  // namespace flashacl::acl

namespace acl = flashacl::acl;

extern "C" {

aclError aclrtMemset(void* devPtr, size_t maxCount, int32_t value,
                     size_t count) {
  return acl::GuardRuntime([&]() -> aclError {
    if (count == 0) return ACL_SUCCESS;
    aclError error = acl::CheckFill("aclrtMemset", devPtr, maxCount, count);
    if (error == 0) error = acl::RequireSynchronousAllowed("aclrtMemset");
    return error != 0 ? error
                      : acl::FillBytes("aclrtMemset", devPtr, value, count)();
  });
}

aclError aclrtMemsetAsync(void* devPtr, size_t maxCount, int32_t value,
                          size_t count, aclrtStream stream) {
  return acl::GuardRuntime([&]() -> aclError {
    if (count == 0) return ACL_SUCCESS;
    const aclError error =
        acl::CheckFill("aclrtMemsetAsync", devPtr, maxCount, count);
    if (error != 0) return error;
    return acl::SubmitFill(
        "aclrtMemsetAsync", devPtr, count,
        acl::FillBytes("aclrtMemsetAsync", devPtr, value, count), stream);
  });
}

aclError aclrtMemsetD32(void* devPtr, size_t maxCount, uint32_t value,
                        size_t num) {
  return acl::GuardRuntime([&]() -> aclError {
    aclError error = acl::CheckWords("aclrtMemsetD32", devPtr, maxCount, num);
    if (error == 0) error = acl::RequireSynchronousAllowed("aclrtMemsetD32");
    return error != 0 ? error
                      : acl::FillWords("aclrtMemsetD32", devPtr, value, num)();
  });
}

aclError aclrtMemsetD32Async(void* devPtr, size_t maxCount, uint32_t value,
                             size_t num, aclrtStream stream) {
  return acl::GuardRuntime([&]() -> aclError {
    const aclError error =
        acl::CheckWords("aclrtMemsetD32Async", devPtr, maxCount, num);
    if (error != 0) return error;
    return acl::SubmitFill(
        "aclrtMemsetD32Async", devPtr, num * sizeof(uint32_t),
        acl::FillWords("aclrtMemsetD32Async", devPtr, value, num), stream);
  });
}

}  // extern "C"
