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
  if (next_.size() == members.size()) {
    return Fail(ACL_ERROR_RT_INTERNAL_ERROR, Title::kCallSequence,
                Str("{} failed because the group of tasks that stream {} "
                    "updates has {} launches, which are all replaced.",
                    function, stream.id(), members.size()));
  }
  const TaskGroup::Member& member = members[next_.size()];
  if (member.operator_name != function) {
    return Fail(ACL_ERROR_RT_MODEL_UPDATE_FAILED, Title::kCallSequence,
                Str("{} failed because launch {} of the group of tasks that "
                    "stream {} updates is {}, which only the same operator "
                    "replaces.",
                    function, next_.size(), stream.id(), member.operator_name));
  }
  next_.push_back(std::make_shared<const Task>(std::move(submission.task)));
  return ACL_SUCCESS;
}

aclError Update::TakeRecord(Stream& stream, Event&, std::string_view function) {
  return FailKind(stream, function);
}

aclError Update::TakeWait(Stream& stream, const CapturedRecord&,
                          std::string_view function) {
  return FailKind(stream, function);
}

aclError Update::TakeForeign(Stream& stream, Event&, const ForeignUse&,
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
  if (next_.size() < size) {
    return Fail(ACL_ERROR_RT_INTERNAL_ERROR, Title::kCallSequence,
                Str("{}: {} launches for a group of {}; all keep their "
                    "arguments.",
                    function, next_.size(), size));
  }
  return stream.PushPastRecorder(
      [group = group_, tasks = std::move(next_)] {
        for (size_t i = 0; i < tasks.size(); ++i) {
          group->members[i].launch->Replace(tasks[i]);
        }
        return ACL_SUCCESS;
      },
      function, TaskKind::kControl);
}

}  // namespace flashacl::acl
