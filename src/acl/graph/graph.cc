// SPDX-License-Identifier: Apache-2.0
#include "acl/graph/graph.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "acl/context.h"
#include "acl/error.h"
#include "acl/graph/branches.h"
#include "acl/graph/build.h"
#include "acl/graph/capture.h"
#include "acl/graph/condition.h"
#include "acl/graph/task_group.h"
#include "acl/profile/span.h"
#include "acl/stream.h"

namespace flashacl::acl {
namespace {

constexpr std::chrono::seconds kPatience{10};

std::atomic<uint32_t> next_id{1};

aclError FailHandles(std::string_view function) {
  return Fail(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, Title::kRuntime,
              Str("{} failed because there are no handles left.", function));
}

}  // namespace

// Counts as a replay of its graph until its task has run or is dropped.
class ReplayCount {
 public:
  explicit ReplayCount(std::shared_ptr<Graph> graph)
      : graph_(std::move(graph)) {
    std::lock_guard lock(graph_->mutex_);
    ++graph_->replays_;
  }
  ~ReplayCount() {
    {
      std::lock_guard lock(graph_->mutex_);
      --graph_->replays_;
    }
    graph_->idle_.notify_all();
  }
  ReplayCount(const ReplayCount&) = delete;
  ReplayCount& operator=(const ReplayCount&) = delete;

  Graph& graph() const { return *graph_; }

 private:
  const std::shared_ptr<Graph> graph_;
};

Graph::Graph(const std::shared_ptr<Context>& context,
             const std::shared_ptr<Graph>& root)
    : context_(context),
      root_(root.get()),
      weak_root_(root),
      id_(next_id.fetch_add(1)) {}

Graph::~Graph() { EndOwnStream(); }

std::shared_ptr<Graph> Graph::LockRoot() {
  return is_child() ? weak_root_.lock() : shared_from_this();
}

std::shared_ptr<Graph> Graph::Create(const std::shared_ptr<Context>& context,
                                     const std::shared_ptr<Graph>& root) {
  std::shared_ptr<Graph> graph(new Graph(context, root));
  graph->handle_ = NewHandle(graph);
  if (graph->handle_ == nullptr) return nullptr;
  // What has a handle lives until it is destroyed.
  struct Unfinished {
    Graph* graph;
    ~Unfinished() {
      if (graph != nullptr) graph->Discard();
    }
  } unfinished{graph.get()};
  if (root == nullptr) {
    const auto discard = [weak = std::weak_ptr<Graph>(graph)] {
      if (const auto owned = weak.lock()) owned->Discard();
    };
    if (!context->Own(graph.get(), discard)) return nullptr;
  }
  unfinished.graph = nullptr;
  return graph;
}

std::shared_ptr<Capture> Graph::capture() const {
  std::lock_guard lock(mutex_);
  return capture_;
}

bool Graph::StartCapture(std::shared_ptr<Capture> capture) {
  std::lock_guard lock(mutex_);
  if (std::exchange(started_, true)) return false;
  capture_ = std::move(capture);
  return true;
}

void Graph::EndCapture() {
  std::shared_ptr<Capture> ended;  // goes without the lock
  std::lock_guard lock(mutex_);
  ended.swap(capture_);
}

aclError Graph::Finish(std::vector<Node> nodes, int branches,
                       std::string_view function) {
  nodes_ = std::move(nodes);
  if (Branches::Needed(nodes_, branches)) {
    const auto context = context_.lock();
    if (context != nullptr) {
      branches_ = Branches::Create(context, nodes_, branches);
    }
    if (branches_ == nullptr) return FailHandles(function);
  }
  captured_.store(true);
  return ACL_SUCCESS;
}

aclError Graph::RunNodes() {
  Stream& stream = ThisStream();
  if (build_ != nullptr) return build_->Run(stream, *this);
  if (branches_ != nullptr) return branches_->Run(stream, root());
  for (const Node& node : nodes_) {
    if (root().aborted() || stream.aborting()) return ACL_SUCCESS;
    const aclError code = node.Replay(stream, root().skips());
    if (code != ACL_SUCCESS) return code;
  }
  return ACL_SUCCESS;
}

aclError ReplayTask(const Submission& submission, const Task& task,
                    Stream& stream, bool skips) {
  const bool always = AlwaysRuns(submission.kind);
  if (skips && !always) return ACL_SUCCESS;
  const auto run = [&] {
    const profile::Span span(profile::Kind::kRun, submission.function);
    return span.Returned(task());
  };
  const aclError code = GuardRuntime(run, submission.function);
  if (code != ACL_SUCCESS && !always) stream.MarkDeviceFault();
  return code;
}

aclError Node::Replay(Stream& stream, bool skips) const {
  if (launch == nullptr) {
    return ReplayTask(submission, submission.task, stream, skips);
  }
  return ReplayTask(submission, *launch->task(), stream, skips);
}

// The task of a replay.
aclError Graph::RunOnStream() {
  Stream& stream = ThisStream();
  if (!queue_.Enter(stream)) return ACL_SUCCESS;
  {
    std::lock_guard lock(mutex_);
    running_on_ = &stream;
    skips_.store(stream.skips());
    for (const auto& condition : conditions_) condition->StartReplay();
  }
  aclError code = GuardRuntime([&] { return RunNodes(); });
  bool aborted = false;
  {
    std::lock_guard lock(mutex_);
    running_on_ = nullptr;
    aborted = aborted_.exchange(false);
    if (aborted) stream.ResumeWaits();
  }
  queue_.Leave();
  if (code == ACL_SUCCESS && aborted) {
    code = FailFixed(ACL_ERROR_RT_MODEL_ABORT_NORMAL, Title::kRuntime,
                     "the replay was aborted", "aclmdlRIAbort");
  }
  return code;
}

aclError Graph::Replay(const std::shared_ptr<Stream>& stream,
                       std::string_view function) {
  auto count = std::make_shared<ReplayCount>(shared_from_this());
  return stream->Push(
      [count = std::move(count)] { return count->graph().RunOnStream(); },
      function, TaskKind::kGraph);
}

aclError Graph::ReplayAndWait(int32_t ms, std::string_view function) {
  std::shared_ptr<Stream> stream;
  {
    std::lock_guard lock(mutex_);
    if (own_stream_ == nullptr) {
      const auto context = context_.lock();
      if (context != nullptr) own_stream_ = Stream::Create(context, 0, true);
    }
    stream = own_stream_;
  }
  if (stream == nullptr) return FailHandles(function);
  if (const aclError error = Replay(stream, function)) return error;
  return stream->Synchronize(DeadlineIn(ms), function);
}

void Graph::Abort() {
  std::lock_guard lock(mutex_);
  if (running_on_ == nullptr) return;
  aborted_.store(true);
  running_on_->EndWaits();
}

bool Graph::TakeHandles() {
  if (Take<Graph>(handle_) == nullptr) return false;
  if (root_ == nullptr) {
    if (const auto context = context_.lock()) context->Disown(this);
  }
  std::vector<std::shared_ptr<Graph>> children;
  {
    // What groups and conditions name stays, as replays may still need it; the
    // tasks that need children own them, too.
    std::lock_guard lock(mutex_);
    for (const auto& group : groups_) Take<TaskGroup>(group->handle);
    for (const auto& one : conditions_) Take<Condition>(one->handle());
    children.swap(children_);
  }
  for (const auto& child : children) child->Discard();
  if (build_ != nullptr) build_->Release();
  EndOwnStream();
  return true;
}

void Graph::EndOwnStream() {
  std::shared_ptr<Stream> own;
  {
    std::lock_guard lock(mutex_);
    own.swap(own_stream_);
  }
  if (own == nullptr) return;
  // By force only where a replay hangs, as that needs memory.
  const bool force = !own->Idle();
  (void)GuardRuntime([&] {
    own->Destroy(force);
    return ACL_SUCCESS;
  });
}

void Graph::StartBuild(const std::shared_ptr<Context>& context) {
  build_ = std::make_shared<Build>(context, id_);
}

aclError Graph::WaitForReplays(std::string_view function) {
  std::unique_lock lock(mutex_);
  if (idle_.wait_for(lock, kPatience, [&] { return replays_ == 0; })) {
    return ACL_SUCCESS;
  }
  lock.unlock();
  return Fail(
      ACL_ERROR_RT_MODEL_RUNNING, Title::kCallSequence,
      Str("{} failed because replays of graph {} still run.", function, id_));
}

aclError Graph::Destroy(std::string_view function) {
  if (const aclError error = WaitForReplays(function)) return error;
  std::vector<Callback> callbacks;
  {
    std::lock_guard lock(mutex_);
    if (std::exchange(destroyed_, true)) {
      return FailStale(HandleKind::kGraph, function, "modelRI", handle_);
    }
    callbacks.swap(callbacks_);
  }
  for (const Callback& one : callbacks) one.function(one.user_data);
  TakeHandles();
  return ACL_SUCCESS;
}

void Graph::Discard() {
  if (const auto capture = this->capture()) capture->Discard();
  TakeHandles();
}

bool Graph::HasOpenChild() const {
  std::vector<std::shared_ptr<Graph>> children;
  {
    std::lock_guard lock(mutex_);
    children = children_;
  }
  return std::ranges::any_of(children, [](const auto& child) {
    return child->capture() != nullptr || child->HasOpenChild();
  });
}

void Graph::Own(std::shared_ptr<TaskGroup> group) {
  std::lock_guard lock(mutex_);
  groups_.push_back(std::move(group));
}

void Graph::Own(std::shared_ptr<Condition> condition) {
  std::lock_guard lock(mutex_);
  conditions_.push_back(std::move(condition));
}

void Graph::Own(const std::vector<std::shared_ptr<Graph>>& children) {
  std::lock_guard lock(mutex_);
  children_.insert(children_.end(), children.begin(), children.end());
}

void Graph::Disown(const std::vector<std::shared_ptr<Graph>>& children) {
  {
    std::lock_guard lock(mutex_);
    std::erase_if(children_, [&](const auto& one) {
      return std::ranges::find(children, one) != children.end();
    });
  }
  for (const auto& child : children) child->Discard();
}

void Graph::AddCallback(aclrtCallback function, void* user_data) {
  std::lock_guard lock(mutex_);
  callbacks_.push_back({function, user_data});
}

bool Graph::RemoveCallback(aclrtCallback function) {
  std::lock_guard lock(mutex_);
  return std::erase_if(callbacks_, [&](const Callback& one) {
           return one.function == function;
         }) > 0;
}

void Graph::SetName(std::string name) {
  std::lock_guard lock(mutex_);
  name_.swap(name);
}

std::string Graph::name() const {
  std::lock_guard lock(mutex_);
  return name_;
}

}  // namespace flashacl::acl
