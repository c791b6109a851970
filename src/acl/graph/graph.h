// SPDX-License-Identifier: Apache-2.0
// A graph is what a capture kept, or what it was built of by hand: the tasks of
// some streams, to be run again. Once it is complete nothing of it changes but
// the launches that updates replace, so a replay looks nothing up and allocates
// nothing for a task.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "acl/acl_rt.h"
#include "acl/graph/replay_queue.h"
#include "acl/handle.h"
#include "acl/recorder.h"

namespace flashacl::acl {

class Build;
class Capture;
class Condition;
class Context;
class Branches;
class TaskGroup;

// A launch that an update can replace while replays go on.
class Replaceable {
 public:
  explicit Replaceable(Task task)
      : task_(std::make_shared<const Task>(std::move(task))) {}

  void Replace(std::shared_ptr<const Task> task) {
    std::lock_guard lock(mutex_);
    task_.swap(task);  // the old one goes without the lock
  }
  std::shared_ptr<const Task> task() const {
    std::lock_guard lock(mutex_);
    return task_;
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const Task> task_;
};

// The first `count` tasks of a captured stream.
struct Before {
  int branch = 0;
  int count = 0;
};

struct Node {
  Submission submission;  // without a task where `launch` has it
  std::shared_ptr<Replaceable> launch = nullptr;
  int branch = 0;      // which of the captured streams it was submitted to
  int32_t stream = 0;  // the id of that one
  // What of other branches ends before it starts.
  std::vector<Before> after = {};

  // For tasks; `skips`: nothing if it is work on the device.
  aclError Replay(Stream& stream, bool skips) const;
};

// For tasks: what was submitted, with `task` for its task.
aclError ReplayTask(const Submission& submission, const Task& task,
                    Stream& stream, bool skips);

class Graph : public std::enable_shared_from_this<Graph> {
 public:
  static constexpr HandleKind kHandleKind = HandleKind::kGraph;

  // Null if there are no handles left. A child runs as a task of `root` only.
  static std::shared_ptr<Graph> Create(
      const std::shared_ptr<Context>& context,
      const std::shared_ptr<Graph>& root = nullptr);
  ~Graph();

  void* handle() const { return handle_; }
  uint32_t id() const { return id_; }
  bool is_child() const { return root_ != nullptr; }
  // For tasks, as what runs keeps its root.
  const Graph& root() const { return root_ == nullptr ? *this : *root_; }
  // For others: null if the root is gone.
  std::shared_ptr<Graph> LockRoot();
  std::shared_ptr<Context> context() const { return context_.lock(); }

  // The capture that fills it; null before, and after it has ended well.
  std::shared_ptr<Capture> capture() const;
  // False if it has one or had one.
  bool StartCapture(std::shared_ptr<Capture> capture);
  void EndCapture();
  bool captured() const { return captured_.load(); }  // and may be replayed

  // What it is built of by hand, if it is; constant once the graph has a user.
  const std::shared_ptr<Build>& build() const { return build_; }
  void StartBuild(const std::shared_ptr<Context>& context);

  // From a capture: what it kept, in the order of submission.
  aclError Finish(std::vector<Node> nodes, int branches,
                  std::string_view function);

  // Puts a replay into the order of `stream`.
  aclError Replay(const std::shared_ptr<Stream>& stream,
                  std::string_view function);
  // Waits for a replay that goes on by itself.
  aclError ReplayAndWait(int32_t ms, std::string_view function);

  // For tasks: all nodes, now. What a conditional node calls for its children.
  aclError RunNodes();
  // Whether the replay that runs leaves out work on the device.
  bool skips() const { return skips_.load(); }

  // Makes the replay that runs stop before its next task.
  void Abort();
  bool aborted() const { return aborted_.load(); }

  // Waits up to 10 s for replays; 107037 if some go on.
  aclError WaitForReplays(std::string_view function);
  // The same, and the graph is gone; on failure nothing happened. 107000 if
  // another thread destroyed it first.
  aclError Destroy(std::string_view function);
  // The same without waiting, as its context is gone.
  void Discard();

  // Whether a graph of one of its conditions is being captured.
  bool HasOpenChild() const;

  void Own(std::shared_ptr<TaskGroup> group);
  void Own(std::shared_ptr<Condition> condition);
  void Own(const std::vector<std::shared_ptr<Graph>>& children);
  void Disown(const std::vector<std::shared_ptr<Graph>>& children);

  void AddCallback(aclrtCallback function, void* user_data);
  bool RemoveCallback(aclrtCallback function);

  void SetName(std::string name);
  std::string name() const;
  const std::vector<Node>& nodes() const { return nodes_; }

 private:
  friend class ReplayCount;
  struct Callback {
    aclrtCallback function;
    void* user_data;
  };

  Graph(const std::shared_ptr<Context>& context,
        const std::shared_ptr<Graph>& root);
  aclError RunOnStream();
  bool TakeHandles();
  void EndOwnStream();

  const std::weak_ptr<Context> context_;
  const Graph* const root_;  // which owns this; null: none does
  const std::weak_ptr<Graph> weak_root_;
  const uint32_t id_;
  void* handle_ = nullptr;

  std::atomic<bool> captured_{false};
  std::vector<Node> nodes_;  // constant once captured_
  std::unique_ptr<Branches> branches_;
  std::shared_ptr<Build> build_;
  ReplayQueue queue_;
  std::atomic<bool> aborted_{false};
  std::atomic<bool> skips_{false};

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable idle_;
  bool started_ = false;  // a capture
  std::shared_ptr<Capture> capture_;
  std::string name_;
  int replays_ = 0;  // that are queued or run
  Stream* running_on_ = nullptr;
  std::shared_ptr<Stream> own_stream_;  // of ReplayAndWait
  std::vector<std::shared_ptr<TaskGroup>> groups_;
  std::vector<std::shared_ptr<Condition>> conditions_;
  std::vector<std::shared_ptr<Graph>> children_;
  std::vector<Callback> callbacks_;
  bool destroyed_ = false;  // by the program: its handle is stale, or about to
                            // be
};

}  // namespace flashacl::acl
