// SPDX-License-Identifier: Apache-2.0
#include "acl/graph/task_group.h"

#include <utility>

#include "acl/error.h"
#include "acl/stream.h"

namespace flashacl::acl {
namespace {

aclError FailKind(const Stream& stream, std::string_view function) {
  return Fail(ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT, Title::kCallSequence,
              Str("{} failed because stream {} updates a group of tasks: only "
                  "operators may be launched on it before "
                  "aclmdlRICaptureTaskUpdateEnd.",
                  function, stream.id()));
}

}  // namespace

bool Update::Take(Stream& stream, Submission& submission, aclError* error) {
  std::lock_guard lock(mutex_);
  if (ended_) return false;
  *error = Replace(stream, submission);
  return true;
}

aclError Update::Replace(Stream& stream, Submission& submission) {
  const std::string_view function = submission.function;
  if (submission.kind != TaskKind::kOperator) return FailKind(stream, function);
  const auto& members = group_->members;
  if (next_ == members.size()) {
    return Fail(ACL_ERROR_RT_INTERNAL_ERROR, Title::kCallSequence,
                Str("{} failed because the group of tasks that stream {} "
                    "updates has {} launches, which are all replaced.",
                    function, stream.id(), members.size()));
  }
  const TaskGroup::Member& member = members[next_];
  if (member.operator_name != function) {
    return Fail(ACL_ERROR_RT_MODEL_UPDATE_FAILED, Title::kCallSequence,
                Str("{} failed because launch {} of the group of tasks that "
                    "stream {} updates is {}, which only the same operator "
                    "replaces.",
                    function, next_, stream.id(), member.operator_name));
  }
  const aclError error = stream.PushPastRecorder(
      [launch = member.launch,
       task = std::make_shared<const Task>(std::move(submission.task))] {
        launch->Replace(task);
        return ACL_SUCCESS;
      },
      function, TaskKind::kControl);
  if (error == ACL_SUCCESS) ++next_;
  return error;
}

aclError Update::TakeRecord(Stream& stream, Event&, std::string_view function) {
  return FailKind(stream, function);
}

aclError Update::TakeWait(Stream& stream, const CapturedRecord&,
                          std::string_view function) {
  return FailKind(stream, function);
}

aclError Update::TakeForeign(Stream& stream, Event&, bool,
                             std::string_view function) {
  return FailKind(stream, function);
}

void Update::Abandon(Stream& stream) {
  stream.ReplaceRecorder(this, nullptr);
  std::lock_guard lock(mutex_);
  ended_ = true;
}

aclError Update::End(Stream& stream, std::string_view function) {
  Abandon(stream);
  std::lock_guard lock(mutex_);
  const size_t size = group_->members.size();
  if (next_ == size) return ACL_SUCCESS;
  return Fail(ACL_ERROR_RT_INTERNAL_ERROR, Title::kCallSequence,
              Str("{}: {} of the group's {} launches were replaced; the others "
                  "keep their arguments.",
                  function, next_, size));
}

}  // namespace flashacl::acl
