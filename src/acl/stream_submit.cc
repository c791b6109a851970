// SPDX-License-Identifier: Apache-2.0
// Submitting to a stream by its handle.
#include <optional>
#include <utility>

#include "acl/capturing.h"
#include "acl/context.h"
#include "acl/error.h"
#include "acl/handle.h"
#include "acl/stream.h"
#include "base/str.h"

namespace flashacl::acl {

std::shared_ptr<Stream> FindStream(aclrtStream stream,
                                   std::string_view function, aclError* error) {
  if (stream == nullptr) {
    const std::shared_ptr<Context> context = CurrentContext();
    if (context != nullptr) return context->default_stream();
    *error = RequireContext(function);
    return nullptr;
  }
  std::shared_ptr<Stream> found = Find<Stream>(stream);
  if (found == nullptr) {
    *error = FailValue(ACL_ERROR_RT_PARAM_INVALID, function, "stream",
                       Str("{}", stream),
                       ExpectedInsteadOf(HandleKind::kStream, stream));
  }
  return found;
}

aclError Enqueue(aclrtStream stream, Task task, std::string_view function,
                 TaskKind kind) {
  aclError error = ACL_SUCCESS;
  const std::shared_ptr<Stream> found = FindStream(stream, function, &error);
  if (found == nullptr) return error;
  return found->Push(std::move(task), function, kind);
}

aclError EnqueueAndWait(aclrtStream stream, Task task,
                        std::string_view function) {
  aclError error = ACL_SUCCESS;
  const std::shared_ptr<Stream> found = FindStream(stream, function, &error);
  if (found == nullptr) return error;
  uint64_t number = 0;
  if (found->capturing() || found->bound()) {
    return Fail(ACL_ERROR_RT_PARAM_INVALID, Title::kCallSequence,
                Str("{} failed because it uses host memory that is not pinned, "
                    "and work on stream {} is recorded in a graph. Use memory "
                    "of aclrtMallocHost.",
                    function, found->id()));
  }
  error = RequirePageableAllowed(function);
  if (error != ACL_SUCCESS) return error;
  error = found->Push(std::move(task), function, TaskKind::kDevice, &number);
  if (error != ACL_SUCCESS) return error;
  return found->WaitFor(number, std::nullopt, function);
}

}  // namespace flashacl::acl
