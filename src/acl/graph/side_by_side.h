// SPDX-License-Identifier: Apache-2.0
// Parts of one replay that run side by side, each on the thread of a stream
// that is the graph's own. The first that fails ends them all.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <span>

#include "acl/error.h"
#include "acl/latch.h"

namespace flashacl::acl {

class Graph;
class Stream;

class SideBySide : public std::enable_shared_from_this<SideBySide> {
 public:
  // `streams` are those that parts may run on; they outlive the replay. Parts
  // that wait for each other are told to look at must_stop() by `wake`.
  SideBySide(
      const Graph& root, std::span<const std::shared_ptr<Stream>> streams,
      std::function<void()> wake = [] {});

  // For the replay and its parts: runs `part` on a stream, after what was
  // started there before. If it cannot, all parts end.
  aclError Start(Stream& on, std::function<aclError()> part);

  // Whether the calling part is to end before its next task.
  bool must_stop() const;

  // For the replay: returns when all parts have ended; their first failure, or
  // `started`, which is why the replay could not start some. When the stream is
  // aborted, they end before their next task.
  aclError Finish(Stream& stream, aclError started);

 private:
  class Part;

  void Stop();
  aclError Run(const std::function<aclError()>& part);
  void EndOne();

  const Graph& root_;
  const std::span<const std::shared_ptr<Stream>> streams_;
  const std::function<void()> wake_;
  std::atomic<bool> stopped_{false};
  std::atomic<int> left_{1};  // parts, and the replay itself
  Latch ended_;
  std::mutex mutex_;             // guards what follows
  aclError code_ = ACL_SUCCESS;  // of the first that failed
  bool device_fault_ = false;
  // Made before anything fails, as there may be no memory then.
  const std::shared_ptr<Failure> failure_ = std::make_shared<Failure>();
};

}  // namespace flashacl::acl
