// SPDX-License-Identifier: Apache-2.0
#include "acl/graph/branches.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "acl/context.h"
#include "acl/error.h"
#include "acl/graph/side_by_side.h"
#include "acl/stream.h"

namespace flashacl::acl {

// How far the branches of one replay are.
struct Branches::Progress {
  Progress(const Graph& of, const std::vector<std::shared_ptr<Stream>>& streams)
      : root(of),
        done(streams.size()),
        parts(std::make_shared<SideBySide>(of, streams, [this] { Wake(); })) {}

  // With the lock held.
  bool is_done(const Before& before) const {
    return done[static_cast<size_t>(before.branch)] >= before.count;
  }

  // Until `before` is done; false if the replay has stopped. A wait of a task
  // like any other, or who exits would take it for work.
  bool WaitFor(const Before& before) {
    {
      std::lock_guard lock(mutex);
      if (parts->must_stop()) return false;
      if (is_done(before)) {
        LearnAll();
        return true;
      }
    }
    return ThisStream().WaitInTask(
        [&] {
          std::unique_lock lock(mutex);
          changed.wait(lock,
                       [&] { return parts->must_stop() || is_done(before); });
          return !parts->must_stop();
        },
        [&] { Wake(); });
  }

  void Advance(int branch) {
    {
      std::lock_guard lock(mutex);
      ++done[static_cast<size_t>(branch)];
    }
    changed.notify_all();
  }

  void Wake() {
    { std::lock_guard lock(mutex); }
    changed.notify_all();
  }

  const Graph& root;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<int> done;
  const std::shared_ptr<SideBySide> parts;
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
    if (!ready || progress.parts->must_stop()) return ACL_SUCCESS;
    const aclError code = node.Replay(ThisStream(), progress.root.skips());
    if (code != ACL_SUCCESS) return code;
    // One that gave up its wait let nobody go on.
    if (progress.parts->must_stop()) return ACL_SUCCESS;
    progress.Advance(branch);
  }
  return ACL_SUCCESS;
}

aclError Branches::Run(Stream& stream, const Graph& root) {
  Progress progress(root, streams_);
  // Nothing may leave this function while a branch runs.
  const aclError started = GuardRuntime([&]() -> aclError {
    for (size_t branch = 0; branch < streams_.size(); ++branch) {
      const aclError error =
          progress.parts->Start(*streams_[branch], [this, branch, &progress] {
            return RunBranch(static_cast<int>(branch), progress);
          });
      if (error != ACL_SUCCESS) return error;
    }
    return ACL_SUCCESS;
  });
  return progress.parts->Finish(stream, started);
}

}  // namespace flashacl::acl
