// SPDX-License-Identifier: Apache-2.0
// A capture takes what is submitted to some streams and keeps it as the nodes
// of a graph. It starts with one stream; another joins by waiting for an event
// that was recorded in the capture, and must be waited for in turn before it
// ends.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include "acl/capturing.h"
#include "acl/graph/graph.h"
#include "acl/recorder.h"

namespace flashacl::acl {

class TaskGroup;

class Capture final : public Recorder,
                      public std::enable_shared_from_this<Capture> {
 public:
  // From now on `stream`, which has no recorder, fills `graph`. Fails if
  // another thread was faster.
  static aclError Begin(const std::shared_ptr<Stream>& stream,
                        const std::shared_ptr<Graph>& graph, int mode,
                        std::string_view function);

  // Ends the capture that `stream` began. Whatever of the checks from the
  // thread's on fails, the streams are their own again, and the graph is gone.
  aclError End(Stream& stream, std::string_view function);

  // Its context is gone.
  void Discard();

  const std::shared_ptr<Graph>& graph() const { return graph_; }
  aclmdlRICaptureStatus status() const;

  aclError BeginGroup(Stream& stream, std::string_view function);
  // *handle is null on failure.
  aclError EndGroup(Stream& stream, std::string_view function,
                    aclrtTaskGrp* handle);

  // Appends one node to what `stream` does.
  aclError Add(Stream& stream, Submission submission);

  RecorderKind kind() const override { return RecorderKind::kCapture; }
  const void* origin() const override { return origin_; }
  bool Take(Stream& stream, Submission& submission, aclError* error) override;
  aclError TakeRecord(Stream& stream, Event& event,
                      std::string_view function) override;
  aclError TakeWait(Stream& stream, const CapturedRecord& record,
                    std::string_view function) override;
  aclError TakeForeign(Stream& stream, Event& event, const ForeignUse& use,
                       std::string_view function) override;
  void Abandon(Stream& stream) override;

 private:
  enum class State : uint8_t { kActive, kInvalidated, kEnded };
  struct Incomplete;
  // A captured stream. `seen[l]` is how many nodes of branch l are sure to be
  // done before its next node, or -1 if not even that l joined.
  struct Branch {
    std::weak_ptr<Stream> stream;
    int32_t stream_id = 0;
    int count = 0;
    std::vector<int> seen;
    std::vector<Before> after;  // for its next node
  };
  struct OpenGroup {
    std::shared_ptr<TaskGroup> group;
    int branch = 0;
    aclError error = ACL_SUCCESS;  // why it fails at its end
  };

  Capture(std::shared_ptr<Graph> graph, const Stream& stream,
          const Context& context, int mode);

  // All with the lock held.
  int BranchOf(const Stream& stream) const;
  void AddBranch(Stream& stream);
  void Append(Submission& submission, int branch);
  aclError CheckGroup(const Submission& submission, int branch);
  void Merge(Branch& branch, const std::vector<int>& seen);
  aclError Join(Stream& stream, std::string_view function);
  aclError CheckEnd(std::string_view function) const;
  aclError FailEvent(aclError code, std::string_view function,
                     std::string_view why);
  void Release();

  void Invalidate();
  // The graphs that this one is for, too.
  void InvalidateAll();

  const std::shared_ptr<Graph> graph_;
  const void* const origin_;  // the handle of the stream that began it
  mutable std::mutex mutex_;  // guards what follows
  std::optional<ActiveCapture> active_;
  State state_ = State::kActive;
  std::vector<Branch> branches_;  // the first began the capture
  std::vector<Node> nodes_;
  std::optional<OpenGroup> group_;
};

}  // namespace flashacl::acl
