// SPDX-License-Identifier: Apache-2.0
#include "acl/graph/build.h"

#include <algorithm>
#include <utility>

#include "acl/context.h"
#include "acl/error.h"
#include "acl/event.h"
#include "acl/graph/build_replay.h"
#include "acl/graph/label.h"
#include "acl/stream.h"

namespace flashacl::acl {
namespace {

aclError FailNotBound(const Stream& stream, uint32_t graph_id,
                      std::string_view function) {
  return Fail(ACL_ERROR_RT_STREAM_MODEL, Title::kCallSequence,
              Str("{} failed because stream {} is not bound to graph {}.",
                  function, stream.id(), graph_id));
}

}  // namespace

Build::Build(const std::shared_ptr<Context>& context, uint32_t graph_id)
    : context_(context), graph_id_(graph_id) {}

Build::~Build() = default;

BoundStream* Build::Find(const Stream& stream) {
  const auto found =
      std::ranges::find_if(streams_, [&](const BoundStream& one) {
        return one.binding != nullptr && one.stream_id == stream.id();
      });
  return found == streams_.end() ? nullptr : &*found;
}

aclError Build::RequireOpen(std::string_view function) const {
  if (state_ == State::kOpen) return ACL_SUCCESS;
  return Fail(ACL_ERROR_RT_PARAM_INVALID, Title::kCallSequence,
              Str("{} failed because graph {} is {}.", function, graph_id_,
                  state_ == State::kComplete
                      ? "complete: aclmdlRIBuildEnd has been called"
                      : "destroyed"));
}

// Whether a bound stream still takes what it is given.
aclError Build::RequireTakes(const BoundStream* at, const Stream& stream,
                             std::string_view function) const {
  if (at == nullptr) return FailNotBound(stream, graph_id_, function);
  if (state_ == State::kOpen) return ACL_SUCCESS;
  return Fail(ACL_ERROR_RT_STREAM_MODEL, Title::kCallSequence,
              Str("{} failed because stream {} is bound to graph {}, which is "
                  "complete. Call aclmdlRIUnbindStream first.",
                  function, stream.id(), graph_id_));
}

aclError Build::Bind(Stream& stream, bool starts, std::string_view function) {
  std::lock_guard lock(mutex_);
  if (const aclError error = RequireOpen(function)) return error;
  // The entry first: nothing may fail once the stream records here.
  // Member by member: where the second of two in braces throws, GCC 11 forgets
  // the first.
  BoundStream bound;
  bound.stream = stream.weak_from_this();
  bound.stream_id = stream.id();
  bound.starts = starts;
  bound.binding = std::make_shared<const Binding>();
  streams_.push_back(std::move(bound));
  if (stream.ReplaceRecorder(nullptr, shared_from_this())) return ACL_SUCCESS;
  streams_.pop_back();
  if (const aclError error = RequireNotBound(stream, function)) return error;
  return Fail(ACL_ERROR_RT_STREAM_MODEL, Title::kCallSequence,
              Str("{} failed because another thread uses stream {}.", function,
                  stream.id()));
}

// What it was given, for the caller to destroy without the lock.
std::vector<Step> Build::Leave(Stream& stream) {
  std::vector<Step> steps;
  BoundStream* const at = Find(stream);
  if (at == nullptr) return steps;
  at->binding = nullptr;
  if (state_ == State::kComplete) {
    lacks_stream_ = true;  // replays may still go through what is there
  } else {
    steps.swap(at->steps);
    streams_.erase(streams_.begin() + (at - streams_.data()));
  }
  stream.ReplaceRecorder(this, nullptr);
  return steps;
}

aclError Build::Unbind(Stream& stream, std::string_view function) {
  std::vector<Step> steps;
  std::lock_guard lock(mutex_);
  if (Find(stream) == nullptr) return FailNotBound(stream, graph_id_, function);
  steps = Leave(stream);
  return ACL_SUCCESS;
}

void Build::Abandon(Stream& stream) {
  std::vector<Step> steps;
  std::lock_guard lock(mutex_);
  steps = Leave(stream);
}

void Build::Release() {
  const std::shared_ptr<Build> self = shared_from_this();
  std::lock_guard lock(mutex_);
  state_ = State::kGone;
  for (BoundStream& one : streams_) {
    one.binding = nullptr;
    if (const auto stream = one.stream.lock()) {
      stream->ReplaceRecorder(this, nullptr);
    }
  }
}

WeakBinding Build::BindingOf(const Stream& stream) {
  std::lock_guard lock(mutex_);
  const BoundStream* const at = Find(stream);
  return at == nullptr ? WeakBinding() : WeakBinding(at->binding);
}

aclError Build::Append(Stream& stream, Step step) {
  BoundStream* const at = Find(stream);
  const aclError error = RequireTakes(at, stream, step.submission.function);
  if (error == ACL_SUCCESS) at->steps.push_back(std::move(step));
  return error;
}

aclError Build::Add(Stream& stream, std::shared_ptr<Jump> jump,
                    std::string_view function) {
  std::lock_guard lock(mutex_);
  return Append(stream,
                {{nullptr, function, TaskKind::kControl}, std::move(jump)});
}

aclError Build::SetLabel(Stream& stream, Label& label,
                         std::string_view function) {
  std::lock_guard lock(mutex_);
  const BoundStream* const at = Find(stream);
  if (aclError error = RequireTakes(at, stream, function)) return error;
  if (label.Set({at->binding, at->steps.size()})) return ACL_SUCCESS;
  return FailValue(ACL_ERROR_RT_PARAM_INVALID, function, "label",
                   Str("{}", label.handle()),
                   "a label that is not set yet: it is one place");
}

aclError Build::EndTask(Stream& stream, std::string_view function) {
  std::lock_guard lock(mutex_);
  if (const aclError error = RequireOpen(function)) return error;
  if (Find(stream) == nullptr) return FailNotBound(stream, graph_id_, function);
  if (has_end_task_) {
    return Fail(ACL_ERROR_RT_PARAM_INVALID, Title::kCallSequence,
                Str("{} failed because graph {} has its end already.", function,
                    graph_id_));
  }
  auto end = MakeEnd();
  const aclError error =
      Append(stream, {{nullptr, function, TaskKind::kControl}, std::move(end)});
  has_end_task_ = error == ACL_SUCCESS;
  return error;
}

aclError Build::End(std::string_view function) {
  std::lock_guard lock(mutex_);
  if (const aclError error = RequireOpen(function)) return error;
  if (std::ranges::none_of(streams_, &BoundStream::starts)) {
    return Fail(ACL_ERROR_RT_PARAM_INVALID, Title::kCallSequence,
                Str("{} failed because no stream is bound to graph {} with "
                    "ACL_MODEL_STREAM_FLAG_HEAD: nothing would start.",
                    function, graph_id_));
  }
  for (const BoundStream& one : streams_) {
    for (const Step& step : one.steps) {
      if (step.jump == nullptr) continue;
      const aclError error = step.jump->Resolve(streams_, function);
      if (error != ACL_SUCCESS) return error;
    }
  }
  const auto context = context_.lock();
  if (context != nullptr) replay_ = BuildReplay::Create(context, streams_);
  if (replay_ == nullptr) {
    return Fail(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, Title::kRuntime,
                Str("{} failed because there are no handles left.", function));
  }
  state_ = State::kComplete;
  return ACL_SUCCESS;
}

aclError Build::RequireComplete(std::string_view function) const {
  std::lock_guard lock(mutex_);
  std::string_view why;
  if (state_ != State::kComplete) {
    why = "is not complete: call aclmdlRIBuildEnd first";
  } else if (!has_end_task_) {
    why = "has no end: aclmdlRIEndTask was not called";
  } else if (lacks_stream_) {
    why = "lacks a stream, which was unbound";
  } else {
    return ACL_SUCCESS;
  }
  return Fail(ACL_ERROR_RT_MODEL_EXECUTE, Title::kCallSequence,
              Str("{} failed because graph {} {}.", function, graph_id_, why));
}

bool Build::Take(Stream& stream, Submission& submission, aclError* error) {
  std::lock_guard lock(mutex_);
  BoundStream* const at = Find(stream);
  if (at == nullptr) return false;  // unbound meanwhile
  *error = RequireTakes(at, stream, submission.function);
  if (*error != ACL_SUCCESS) return true;
  if (submission.kind == TaskKind::kGraph) {
    *error = Fail(ACL_ERROR_RT_PARAM_INVALID, Title::kCallSequence,
                  Str("{} failed because stream {} is bound to a graph, and "
                      "graphs run no others.",
                      submission.function, stream.id()));
    return true;
  }
  at->steps.push_back({std::move(submission)});
  return true;
}

std::shared_ptr<Build::EventFlag> Build::FlagOf(const Event& event) {
  std::shared_ptr<EventFlag>& flag = flags_[event.id()];
  if (flag == nullptr) flag = std::make_shared<EventFlag>();
  return flag;
}

aclError Build::TakeRecord(Stream& stream, Event& event,
                           std::string_view function) {
  std::lock_guard lock(mutex_);
  if (const aclError error = RequireTakes(Find(stream), stream, function)) {
    return error;
  }
  const auto flag = FlagOf(event);
  auto recorded = flag->recorded.lock();
  if (recorded == nullptr) recorded = std::make_shared<const Recorded>();
  flag->recorded = recorded;
  const auto record = [flag, recorded, event = event.shared_from_this()] {
    event->RecordInTask();
    flag->set.Open();
    return ACL_SUCCESS;
  };
  const aclError error =
      Append(stream, {{record, function, TaskKind::kControl}});
  if (error != ACL_SUCCESS) return error;
  event.SetCaptured(nullptr);
  return ACL_SUCCESS;
}

aclError Build::TakeWait(Stream& stream, const CapturedRecord&,
                         std::string_view function) {
  return Fail(ACL_ERROR_RT_INTERNAL_ERROR, Title::kCallSequence,
              Str("{} failed because stream {} is bound to a graph, and the "
                  "event is recorded in a capture.",
                  function, stream.id()));
}

aclError Build::TakeForeign(Stream& stream, Event& event, const ForeignUse& use,
                            std::string_view function) {
  std::lock_guard lock(mutex_);
  if (const aclError error = RequireTakes(Find(stream), stream, function)) {
    return error;
  }
  const auto flag = FlagOf(event);
  if (use.resets) {
    const auto reset = [flag, event = event.shared_from_this()] {
      event->ResetInTask();
      flag->set.Close();
      return ACL_SUCCESS;
    };
    return Append(stream, {{reset, function, TaskKind::kControl}});
  }
  const auto wait = [flag, event = event.shared_from_this(),
                     seconds = use.seconds] {
    // What the graph records, this replay has to record.
    const bool records = !flag->recorded.expired();
    return records ? event->WaitInTask(flag->set, seconds)
                   : event->WaitInTask(seconds);
  };
  return Append(stream, {{wait, function, TaskKind::kWait}});
}

aclError Build::Run(Stream& stream, const Graph& root) {
  for (const auto& [event, flag] : flags_) flag->set.Close();
  return replay_->Run(stream, root);
}

}  // namespace flashacl::acl
