// SPDX-License-Identifier: Apache-2.0
#include "acl/graph/branches.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "acl/context.h"
#include "acl/error.h"
#include "acl/stream.h"

namespace flashacl::acl {

// How far the branches of one replay are. Shared by the tasks that run them.
struct Branches::Progress {
  Progress(int branches, const Graph& of)
      : root(of), done(static_cast<size_t>(branches)), left(branches) {}

  // With the lock held.
  bool is_done(const Before& before) const {
    return done[static_cast<size_t>(before.branch)] >= before.count;
  }

  // Until `before` is done; false if the replay has stopped. A wait of a task
  // like any other, or who exits would take it for work.
  bool WaitFor(const Before& before) {
    {
      std::lock_guard lock(mutex);
      if (stopped) return false;
      if (is_done(before)) return true;
    }
    Stream& stream = ThisStream();
    return stream.WaitInTask(
        [&] {
          std::unique_lock lock(mutex);
          changed.wait(lock, [&] {
            return stopped || stream.aborting() || is_done(before);
          });
          return !stopped && is_done(before);
        },
        [&] {
          { std::lock_guard lock(mutex); }
          changed.notify_all();
        });
  }

  void Advance(int branch) {
    {
      std::lock_guard lock(mutex);
      ++done[static_cast<size_t>(branch)];
    }
    changed.notify_all();
  }

  void Stop() {
    {
      std::lock_guard lock(mutex);
      stopped = true;
    }
    changed.notify_all();
  }

  bool must_stop() {
    if (root.aborted() || ThisStream().aborting()) return true;
    std::lock_guard lock(mutex);
    return stopped;
  }

  void EndBranch() {
    std::unique_lock lock(mutex);
    if (--left > 0) return;
    lock.unlock();
    ended.Open();
  }

  const Graph& root;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<int> done;
  int left;
  bool stopped = false;
  aclError code = ACL_SUCCESS;  // of the first that failed
  bool device_fault = false;
  std::shared_ptr<Failure> failure = std::make_shared<Failure>();
  Latch ended;
};

bool Branches::Needed(const std::vector<Node>& nodes, int branches) {
  return branches > 1 && std::ranges::any_of(nodes, [](const Node& node) {
           return node.submission.kind == TaskKind::kWait;
         });
}

std::unique_ptr<Branches> Branches::Create(
    const std::shared_ptr<Context>& context, const std::vector<Node>& nodes,
    int branches) {
  std::unique_ptr<Branches> made(new Branches(nodes));
  made->of_branch_.resize(static_cast<size_t>(branches));
  for (size_t i = 0; i < nodes.size(); ++i) {
    made->of_branch_[static_cast<size_t>(nodes[i].branch)].push_back(
        static_cast<int>(i));
  }
  made->streams_.reserve(static_cast<size_t>(branches));
  for (int branch = 0; branch < branches; ++branch) {
    // Like a default stream it does not count against the device's limit.
    auto stream = Stream::Create(context, 0, true);
    if (stream == nullptr) return nullptr;
    made->streams_.push_back(std::move(stream));
  }
  return made;
}

Branches::~Branches() {
  for (const std::shared_ptr<Stream>& stream : streams_) stream->Destroy(false);
}

aclError Branches::RunBranch(int branch, Progress& progress) const {
  for (const int number : of_branch_[static_cast<size_t>(branch)]) {
    const Node& node = nodes_[static_cast<size_t>(number)];
    const bool ready = std::ranges::all_of(
        node.after, [&](const Before& one) { return progress.WaitFor(one); });
    if (!ready || progress.must_stop()) break;
    const aclError code = node.Replay(ThisStream(), progress.root.skips());
    if (code != ACL_SUCCESS) return code;
    // One that gave up its wait let nobody go on.
    if (progress.must_stop()) break;
    progress.Advance(branch);
  }
  if (progress.must_stop()) Stop(progress);
  return ACL_SUCCESS;
}

// Ends each branch before its next task, and the waits of those that run.
void Branches::Stop(Progress& progress) const {
  progress.Stop();
  for (const std::shared_ptr<Stream>& one : streams_) one->EndWaits();
}

aclError Branches::RunAsTask(int branch, Progress& progress) const {
  const aclError code = RunBranch(branch, progress);
  if (code == ACL_SUCCESS) return code;
  Failure failure;
  TakeFailure(code, &failure);
  {
    std::lock_guard lock(progress.mutex);
    if (progress.code == ACL_SUCCESS) {
      progress.code = code;
      progress.device_fault = ThisStream().TakeDeviceFault();
      *progress.failure = std::move(failure);
    }
  }
  Stop(progress);
  return ACL_SUCCESS;  // the replay fails, not the branch's stream
}

aclError Branches::Run(Stream& stream, const Graph& root) {
  const auto progress =
      std::make_shared<Progress>(static_cast<int>(streams_.size()), root);
  // Ends its branch even if its task is dropped, and then the others with it.
  struct Ending {
    explicit Ending(std::shared_ptr<Progress> of) : progress(std::move(of)) {}
    ~Ending() {
      if (!ran) progress->Stop();
      progress->EndBranch();
    }
    std::shared_ptr<Progress> progress;
    bool ran = false;
  };
  std::vector<std::shared_ptr<Ending>> endings(streams_.size());
  for (auto& ending : endings) ending = std::make_shared<Ending>(progress);
  // Nothing may leave this function while a branch runs.
  const aclError error = GuardRuntime([&]() -> aclError {
    for (size_t branch = 0; branch < streams_.size(); ++branch) {
      const aclError pushed = streams_[branch]->Push(
          [this, branch, ending = endings[branch]] {
            ending->ran = true;
            return RunAsTask(static_cast<int>(branch), *ending->progress);
          },
          "aclmdlRIExecuteAsync", TaskKind::kGraph);
      if (pushed != ACL_SUCCESS) return pushed;
    }
    return ACL_SUCCESS;
  });
  if (error != ACL_SUCCESS) Stop(*progress);
  endings.clear();
  if (!stream.WaitInTask(progress->ended, std::nullopt)) {
    Stop(*progress);
    progress->ended.Wait(std::nullopt);
  }
  for (const std::shared_ptr<Stream>& one : streams_) one->ResumeWaits();
  if (error != ACL_SUCCESS) return error;
  if (progress->code == ACL_SUCCESS) return ACL_SUCCESS;
  if (progress->device_fault) stream.MarkDeviceFault();
  return Fail(progress->failure);
}

}  // namespace flashacl::acl
