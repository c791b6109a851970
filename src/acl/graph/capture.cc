// SPDX-License-Identifier: Apache-2.0
#include "acl/graph/capture.h"

#include <algorithm>
#include <utility>

#include "acl/context.h"
#include "acl/error.h"
#include "acl/event.h"
#include "acl/graph/task_group.h"
#include "acl/stream.h"

namespace flashacl::acl {
namespace {

aclError FailConflict(std::string_view function, const Stream& stream) {
  return Fail(ACL_ERROR_STREAM_CAPTURE_CONFLICT, Title::kCallSequence,
              Str("{} failed because stream {} is captured in another graph.",
                  function, stream.id()));
}

aclError FailEnded(const Stream& stream, std::string_view function) {
  return Fail(ACL_ERROR_RT_STREAM_NOT_CAPTURED, Title::kCallSequence,
              Str("{} failed because the capture of stream {} has ended.",
                  function, stream.id()));
}

}  // namespace

aclError Capture::Begin(const std::shared_ptr<Stream>& stream,
                        const std::shared_ptr<Graph>& graph, int mode,
                        std::string_view function) {
  const auto context = stream->context();
  if (context == nullptr) return RequireContext(function);
  std::shared_ptr<Capture> capture(new Capture(graph, *stream, *context, mode));
  {
    std::lock_guard lock(capture->mutex_);
    capture->AddBranch(*stream);
  }
  if (!graph->StartCapture(capture)) {
    return Fail(ACL_ERROR_RT_MODEL_CAPTURED, Title::kCallSequence,
                Str("{} failed because graph {} is captured already.", function,
                    graph->id()));
  }
  if (stream->ReplaceRecorder(nullptr, capture)) return ACL_SUCCESS;
  capture->Discard();
  return Fail(ACL_ERROR_RT_STREAM_CAPTURED, Title::kCallSequence,
              Str("{} failed because another thread uses stream {}.", function,
                  stream->id()));
}

Capture::Capture(std::shared_ptr<Graph> graph, const Stream& stream,
                 const Context& context, int mode)
    : graph_(std::move(graph)),
      origin_(stream.handle()),
      active_(std::in_place, context, mode, stream.id()) {}

int Capture::BranchOf(const Stream& stream) const {
  const auto found =
      std::ranges::find(branches_, stream.id(), &Branch::stream_id);
  return static_cast<int>(found - branches_.begin());
}

void Capture::AddBranch(Stream& stream) {
  Branch branch;
  branch.stream = stream.weak_from_this();
  branch.stream_id = stream.id();
  branch.seen.assign(branches_.size() + 1, -1);
  branch.seen.back() = 0;
  branches_.push_back(std::move(branch));
}

aclmdlRICaptureStatus Capture::status() const {
  std::lock_guard lock(mutex_);
  switch (state_) {
    case State::kActive:
      return ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE;
    case State::kInvalidated:
      return ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED;
    default:
      return ACL_MODEL_RI_CAPTURE_STATUS_NONE;
  }
}

void Capture::Append(Submission& submission, int branch) {
  Branch& at = branches_[static_cast<size_t>(branch)];
  Node node{.submission = {{}, submission.function, submission.kind},
            .branch = branch,
            .stream = at.stream_id,
            .after = at.after};
  if (group_.has_value()) {
    node.launch = std::make_shared<Replaceable>(std::move(submission.task));
    group_->group->members.push_back({node.launch, submission.function});
  } else {
    node.submission.task = std::move(submission.task);
  }
  nodes_.push_back(std::move(node));
  at.after.clear();
  at.seen[static_cast<size_t>(branch)] = ++at.count;
}

aclError Capture::CheckGroup(const Submission& submission, int branch) {
  if (!group_.has_value()) return ACL_SUCCESS;
  if (group_->branch != branch) {
    group_->error = ACL_ERROR_STREAM_TASK_GROUP_INTR;
    state_ = State::kInvalidated;
    return Fail(group_->error, Title::kCallSequence,
                Str("{} failed because a group of tasks is open on another "
                    "stream of the same capture.",
                    submission.function));
  }
  if (submission.kind == TaskKind::kOperator) return ACL_SUCCESS;
  group_->error = ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT;
  return Fail(group_->error, Title::kCallSequence,
              Str("{} failed because a group of tasks is open on the stream, "
                  "and only operators may be launched in it.",
                  submission.function));
}

// A graph that lacks a node or an edge must not come to its end.
struct Capture::Incomplete {
  State& state;
  bool whole = false;
  ~Incomplete() {
    if (!whole) state = State::kInvalidated;
  }
};

bool Capture::Take(Stream& stream, Submission& submission, aclError* error) {
  std::lock_guard lock(mutex_);
  if (state_ == State::kEnded) return false;
  *error = ACL_SUCCESS;
  if (state_ == State::kInvalidated) return true;  // until the end says so
  if (submission.kind == TaskKind::kGraph) {
    *error = RequireNotCapturing(stream, submission.function);
    return true;
  }
  const int branch = BranchOf(stream);
  *error = CheckGroup(submission, branch);
  if (*error != ACL_SUCCESS) return true;
  Incomplete incomplete{state_};
  Append(submission, branch);
  incomplete.whole = true;
  return true;
}

aclError Capture::Add(Stream& stream, Submission submission) {
  aclError error = ACL_SUCCESS;
  if (Take(stream, submission, &error)) return error;
  return FailEnded(stream, submission.function);
}

// A failed record or wait leaves a graph that does less than was asked for.
aclError Capture::FailEvent(aclError code, std::string_view function,
                            std::string_view why) {
  state_ = State::kInvalidated;
  return Fail(
      code, Title::kCallSequence,
      Str("{} failed because {} The capture is invalid now.", function, why));
}

aclError Capture::TakeRecord(Stream& stream, Event& event,
                             std::string_view function) {
  std::lock_guard lock(mutex_);
  if (state_ != State::kActive) return ACL_SUCCESS;
  if (!event.builds_branches()) {
    return FailEvent(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, function,
                     "only events of aclrtCreateEventExWithFlag, and external "
                     "ones, are recorded on a stream that is being captured.");
  }
  const int branch = BranchOf(stream);
  const Submission record{{}, function, TaskKind::kControl};
  if (const aclError error = CheckGroup(record, branch)) return error;
  Incomplete incomplete{state_};
  // Member by member: where the second of two in braces throws, GCC 11 forgets
  // the first.
  auto captured = std::make_shared<CapturedRecord>();
  captured->by = weak_from_this();
  captured->seen = branches_[static_cast<size_t>(branch)].seen;
  event.SetCaptured(std::move(captured));
  incomplete.whole = true;
  return ACL_SUCCESS;
}

void Capture::Merge(Branch& branch, const std::vector<int>& seen) {
  branch.seen.resize(branches_.size(), -1);
  for (size_t other = 0; other < seen.size(); ++other) {
    if (seen[other] <= branch.seen[other]) continue;
    if (seen[other] > 0) {
      branch.after.push_back({static_cast<int>(other), seen[other]});
    }
    branch.seen[other] = seen[other];
  }
}

aclError Capture::Join(Stream& stream, std::string_view function) {
  if (stream.is_default()) {
    return FailEvent(ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT, function,
                     "the default stream cannot join a capture.");
  }
  // The branch first: nothing may fail once the stream records here.
  AddBranch(stream);
  if (stream.ReplaceRecorder(nullptr, shared_from_this())) return ACL_SUCCESS;
  branches_.pop_back();
  state_ = State::kInvalidated;
  return FailConflict(function, stream);
}

aclError Capture::TakeWait(Stream& stream, const CapturedRecord& record,
                           std::string_view function) {
  if (stream.persistent()) {
    std::lock_guard lock(mutex_);
    if (state_ != State::kActive) return ACL_SUCCESS;
    return FailEvent(ACL_ERROR_RT_INTERNAL_ERROR, function,
                     "streams of ACL_STREAM_PERSISTENT cannot join a capture.");
  }
  const std::shared_ptr<Recorder> of_stream = stream.recorder();
  if (of_stream != nullptr && of_stream.get() != this) {
    if (!of_stream->captures()) {
      return of_stream->TakeWait(stream, record, function);
    }
    Invalidate();
    std::static_pointer_cast<Capture>(of_stream)->Invalidate();
    return FailConflict(function, stream);
  }
  std::lock_guard lock(mutex_);
  if (state_ != State::kActive) return ACL_SUCCESS;
  // Before it joins: a call that is refused changes nothing.
  const Submission wait{{}, function, TaskKind::kControl};
  if (const aclError error = CheckGroup(wait, BranchOf(stream))) return error;
  Incomplete incomplete{state_};
  if (of_stream == nullptr) {
    if (const aclError error = Join(stream, function)) return error;
  }
  Merge(branches_[static_cast<size_t>(BranchOf(stream))], record.seen);
  incomplete.whole = true;
  return ACL_SUCCESS;
}

aclError Capture::TakeForeign(Stream&, Event& event, const ForeignUse& use,
                              std::string_view function) {
  std::lock_guard lock(mutex_);
  if (state_ != State::kActive) return ACL_SUCCESS;
  if (!event.builds_branches()) {
    return FailEvent(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, function,
                     "only events of aclrtCreateEventExWithFlag, and external "
                     "ones, are used on a stream that is being captured.");
  }
  if (use.resets || !event.recorded()) return ACL_SUCCESS;
  return FailEvent(
      ACL_ERROR_RT_CAPTURE_DEPENDENCY, function,
      Str("event {} was recorded outside of the capture.", event.id()));
}

void Capture::Invalidate() {
  std::lock_guard lock(mutex_);
  if (state_ == State::kActive) state_ = State::kInvalidated;
}

aclError Capture::BeginGroup(Stream& stream, std::string_view function) {
  std::lock_guard lock(mutex_);
  if (state_ == State::kEnded) return FailEnded(stream, function);
  if (group_.has_value() && group_->branch == BranchOf(stream)) {
    return Fail(ACL_ERROR_STREAM_TASK_GROUP_STATUS, Title::kCallSequence,
                Str("{} failed because a group of tasks is open on stream {}.",
                    function, stream.id()));
  }
  const Submission begin{{}, function, TaskKind::kOperator};
  if (const aclError error = CheckGroup(begin, BranchOf(stream))) return error;
  group_ = OpenGroup{std::make_shared<TaskGroup>(), BranchOf(stream)};
  return ACL_SUCCESS;
}

aclError Capture::EndGroup(Stream& stream, std::string_view function,
                           aclrtTaskGrp* handle) {
  std::lock_guard lock(mutex_);
  *handle = nullptr;
  if (state_ == State::kEnded) return FailEnded(stream, function);
  if (!group_.has_value() || group_->branch != BranchOf(stream)) {
    return Fail(ACL_ERROR_STREAM_TASK_GROUP_STATUS, Title::kCallSequence,
                Str("{} failed because no group of tasks is open on stream "
                    "{}.",
                    function, stream.id()));
  }
  const OpenGroup ended = *std::exchange(group_, std::nullopt);
  if (ended.error != ACL_SUCCESS) {
    return Fail(
        ended.error, Title::kCallSequence,
        Str("{} failed because a task in the group was refused.", function));
  }
  if (state_ == State::kInvalidated) {
    return FailEvent(ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED, function,
                     "an earlier call made the capture fail.");
  }
  const std::shared_ptr<Graph> root = graph_->LockRoot();
  if (root == nullptr) return FailEnded(stream, function);
  root->Own(ended.group);
  ended.group->handle = NewHandle(ended.group);
  if (ended.group->handle == nullptr) {
    return Fail(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, Title::kRuntime,
                Str("{} failed because there are no handles left.", function));
  }
  *handle = ended.group->handle;
  return ACL_SUCCESS;
}

// In the order in which the documents name what ends a capture in failure.
aclError Capture::CheckEnd(std::string_view function) const {
  const auto fail = [&](aclError code, std::string_view why) {
    return Fail(code, Title::kCallSequence,
                Str("{} failed because {} The capture has ended without a "
                    "graph.",
                    function, why));
  };
  if (active_->mode() != ACL_MODEL_RI_CAPTURE_MODE_RELAXED &&
      !active_->IsOfThisThread()) {
    return fail(ACL_ERROR_RT_STREAM_CAPTURE_WRONG_THREAD,
                "another thread began the capture.");
  }
  if (state_ == State::kInvalidated) {
    return fail(ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED,
                "an earlier call made the capture fail.");
  }
  if (graph_->HasOpenChild()) {
    return fail(ACL_ERROR_RT_SUB_ACLGRAPH_IS_CAPTURING,
                "a graph of one of its conditions is being captured.");
  }
  if (group_.has_value()) {
    return fail(ACL_ERROR_STREAM_TASK_GROUP_STATUS,
                "a group of tasks is open.");
  }
  const std::vector<int>& seen = branches_[0].seen;
  for (size_t branch = 1; branch < branches_.size(); ++branch) {
    const bool joined =
        branch < seen.size() && seen[branch] >= branches_[branch].count;
    if (joined) continue;
    return fail(ACL_ERROR_RT_STREAM_UNJOINED,
                Str("stream {} joined it, and what was submitted there last "
                    "is not waited for by the stream that began it, {}.",
                    branches_[branch].stream_id, branches_[0].stream_id));
  }
  return ACL_SUCCESS;
}

void Capture::Release() {
  state_ = State::kEnded;
  active_.reset();
  for (const Branch& branch : branches_) {
    const auto stream = branch.stream.lock();
    if (stream != nullptr) stream->ReplaceRecorder(this, nullptr);
  }
}

aclError Capture::End(Stream& stream, std::string_view function) {
  // What the capture held goes after its lock.
  const std::shared_ptr<Capture> self = shared_from_this();
  std::vector<Node> nodes;
  std::unique_lock lock(mutex_);
  if (state_ == State::kEnded || BranchOf(stream) != 0) {
    return Fail(ACL_ERROR_RT_STREAM_CAPTURE_UNMATCHED, Title::kCallSequence,
                Str("{} failed because stream {} joined the capture; stream {} "
                    "began it.",
                    function, stream.id(), branches_[0].stream_id));
  }
  aclError error = GuardRuntime([&] { return CheckEnd(function); });
  nodes.swap(nodes_);
  const int branches = static_cast<int>(branches_.size());
  Release();
  lock.unlock();
  graph_->EndCapture();
  if (error == ACL_SUCCESS) {
    error = GuardRuntime(
        [&] { return graph_->Finish(std::move(nodes), branches, function); });
  }
  if (error == ACL_SUCCESS) return error;
  // A parent that runs half of what it was told to must not come about.
  InvalidateAll();
  graph_->Discard();
  return error;
}

void Capture::Discard() {
  const std::shared_ptr<Capture> self = shared_from_this();
  std::vector<Node> nodes;
  {
    std::lock_guard lock(mutex_);
    if (state_ == State::kEnded) return;
    nodes.swap(nodes_);
    Release();
  }
  graph_->EndCapture();
}

void Capture::InvalidateAll() {
  Invalidate();
  const std::shared_ptr<Graph> root = graph_->LockRoot();
  const auto capture = root == nullptr ? nullptr : root->capture();
  if (capture != nullptr && capture.get() != this) capture->Invalidate();
}

// What it was to do is lost; who began the capture is told at its end.
void Capture::Abandon(Stream&) { InvalidateAll(); }

}  // namespace flashacl::acl
