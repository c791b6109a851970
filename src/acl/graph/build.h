// SPDX-License-Identifier: Apache-2.0
// What a graph that is built by hand is made of: streams that are bound to it,
// and what each was given, in order. A replay interprets that: a stream starts
// with the replay or when another one says so, runs step by step, and goes on
// elsewhere where it comes to a jump.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "acl/graph/jump.h"
#include "acl/latch.h"
#include "acl/recorder.h"

namespace flashacl::acl {

class BuildReplay;
class Context;
class Graph;
class Label;

// A task, or a jump.
struct Step {
  Submission submission;  // without a task where there is a jump
  std::shared_ptr<Jump> jump = nullptr;
};

struct BoundStream {
  std::weak_ptr<Stream> stream;
  int32_t stream_id = 0;
  bool starts = false;                     // with the replay
  std::shared_ptr<const Binding> binding;  // null once it is unbound
  std::vector<Step> steps;
};

class Build final : public Recorder,
                    public std::enable_shared_from_this<Build> {
 public:
  Build(const std::shared_ptr<Context>& context, uint32_t graph_id);
  ~Build() override;

  // From now on what `stream` is given is kept here. 107005 if something else
  // takes it; 107000 if the graph takes nothing more.
  aclError Bind(Stream& stream, bool starts, std::string_view function);

  // The stream is its own again. Before End, what it was given goes; after it,
  // the graph does not run any more.
  aclError Unbind(Stream& stream, std::string_view function);

  // `stream` is the one with which the building ends; 107000 if one was.
  aclError EndTask(Stream& stream, std::string_view function);

  // Takes nothing more, and finds where jumps go to.
  aclError End(std::string_view function);

  // 0, or 507011 if there are no replays yet, or no more.
  aclError RequireComplete(std::string_view function) const;

  // What these append to a stream that is bound here comes after all that it
  // was given so far.
  aclError Add(Stream& stream, std::shared_ptr<Jump> jump,
               std::string_view function);
  aclError SetLabel(Stream& stream, Label& label, std::string_view function);

  // Expired if it is not bound here.
  WeakBinding BindingOf(const Stream& stream);

  // The graph is destroyed: all streams are their own again.
  void Release();

  // For tasks: a replay.
  aclError Run(Stream& stream, const Graph& root);

  // Constant once complete.
  const std::vector<BoundStream>& streams() const { return streams_; }

  RecorderKind kind() const override { return RecorderKind::kBuild; }
  const void* origin() const override { return nullptr; }
  bool Take(Stream& stream, Submission& submission, aclError* error) override;
  aclError TakeRecord(Stream& stream, Event& event,
                      std::string_view function) override;
  aclError TakeWait(Stream& stream, const CapturedRecord& record,
                    std::string_view function) override;
  aclError TakeForeign(Stream& stream, Event& event, const ForeignUse& use,
                       std::string_view function) override;
  void Abandon(Stream& stream) override;

 private:
  enum class State : uint8_t { kOpen, kComplete, kGone };
  struct Recorded {};
  // An event as the graph sees it: in each replay it is not recorded at first.
  struct EventFlag {
    Latch set;
    // Of the steps that record it, which go when their stream is unbound.
    std::weak_ptr<const Recorded> recorded;
  };

  // All with the lock held.
  BoundStream* Find(const Stream& stream);
  aclError RequireOpen(std::string_view function) const;
  aclError RequireTakes(const BoundStream* at, const Stream& stream,
                        std::string_view function) const;
  aclError Append(Stream& stream, Step step);
  // Only while open: a replay goes through the flags without the lock.
  std::shared_ptr<EventFlag> FlagOf(const Event& event);
  std::vector<Step> Leave(Stream& stream);

  const std::weak_ptr<Context> context_;
  const uint32_t graph_id_;

  mutable std::mutex mutex_;  // guards what follows until complete
  State state_ = State::kOpen;
  bool has_end_task_ = false;
  bool lacks_stream_ = false;  // that was unbound after End
  std::vector<BoundStream> streams_;
  std::map<uint32_t, std::shared_ptr<EventFlag>> flags_;  // by event
  std::unique_ptr<BuildReplay> replay_;
};

}  // namespace flashacl::acl
