// SPDX-License-Identifier: Apache-2.0
#include "acl/graph/build_replay.h"

#include <algorithm>
#include <utility>

#include "acl/context.h"
#include "acl/error.h"
#include "acl/graph/graph.h"
#include "acl/graph/side_by_side.h"
#include "acl/stream.h"

namespace flashacl::acl {
namespace {

// Whether two streams may run at the same time.
bool RunSideBySide(const std::vector<BoundStream>& bound) {
  if (std::ranges::count_if(bound, &BoundStream::starts) > 1) return true;
  return std::ranges::any_of(bound, [](const BoundStream& one) {
    return std::ranges::any_of(one.steps, [](const Step& step) {
      return step.jump != nullptr && step.jump->forks();
    });
  });
}

}  // namespace

std::unique_ptr<BuildReplay> BuildReplay::Create(
    const std::shared_ptr<Context>& context,
    const std::vector<BoundStream>& bound) {
  std::unique_ptr<BuildReplay> made(new BuildReplay(bound));
  if (!RunSideBySide(bound)) return made;
  made->streams_.reserve(bound.size());
  while (made->streams_.size() < bound.size()) {
    // Like a default stream it does not count against the device's limit.
    auto stream = Stream::Create(context, 0, true);
    if (stream == nullptr) return nullptr;
    made->streams_.push_back(std::move(stream));
  }
  return made;
}

BuildReplay::~BuildReplay() {
  for (const std::shared_ptr<Stream>& stream : streams_) stream->Destroy(false);
}

aclError BuildReplay::StartAt(Place at, const Graph& root,
                              SideBySide& others) const {
  return others.Start(
      *streams_[static_cast<size_t>(at.stream)],
      [this, at, &root, &others] { return RunFrom(at, root, &others); });
}

// `others`: null if this is the only stream that runs.
aclError BuildReplay::RunFrom(Place at, const Graph& root,
                              SideBySide* others) const {
  Stream& stream = ThisStream();
  const auto must_stop = [&] {
    return others == nullptr ? root.aborted() || stream.aborting()
                             : others->must_stop();
  };
  for (;;) {
    const auto& steps = bound_[static_cast<size_t>(at.stream)].steps;
    if (at.step == steps.size() || must_stop()) return ACL_SUCCESS;
    const Step& step = steps[at.step];
    if (step.jump == nullptr) {
      const Submission& given = step.submission;
      const aclError code = ReplayTask(given, given.task, stream, root.skips());
      if (code != ACL_SUCCESS) return code;
      ++at.step;
      continue;
    }
    stream.HoldInTask();  // a loop may have no end
    const Flow flow = step.jump->Decide(root.skips());
    const bool goes_there =
        flow.start.has_value() && flow.ends &&
        (others == nullptr || flow.start->stream == at.stream);
    if (goes_there) {
      at = *flow.start;
      continue;
    }
    if (flow.start.has_value()) {
      const aclError code = StartAt(*flow.start, root, *others);
      if (code != ACL_SUCCESS) return code;
    }
    if (flow.ends) return ACL_SUCCESS;
    ++at.step;
  }
}

aclError BuildReplay::Run(Stream& stream, const Graph& root) const {
  const auto first = std::ranges::find_if(bound_, &BoundStream::starts);
  if (streams_.empty()) {
    return RunFrom({static_cast<int>(first - bound_.begin()), 0}, root,
                   nullptr);
  }
  const auto others = std::make_shared<SideBySide>(root, streams_);
  // Nothing may leave this function while a stream runs.
  const aclError started = GuardRuntime([&]() -> aclError {
    for (size_t n = 0; n < bound_.size(); ++n) {
      if (!bound_[n].starts) continue;
      const aclError code = StartAt({static_cast<int>(n), 0}, root, *others);
      if (code != ACL_SUCCESS) return code;
    }
    return ACL_SUCCESS;
  });
  return others->Finish(stream, started);
}

}  // namespace flashacl::acl
