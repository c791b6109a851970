// SPDX-License-Identifier: Apache-2.0
// Launches of a graph whose arguments can be replaced: a group names them while
// the graph is captured, and an update gives them new ones, in the order of the
// stream that it is submitted to.
#pragma once

#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "acl/graph/graph.h"
#include "acl/recorder.h"

namespace flashacl::acl {

class TaskGroup {
 public:
  static constexpr HandleKind kHandleKind = HandleKind::kTaskGroup;

  // One member of the group, and the operator that it is a launch of.
  struct Member {
    std::shared_ptr<Replaceable> launch;
    std::string_view operator_name;
  };

  std::vector<Member> members;  // constant once the group has ended
  void* handle = nullptr;

  // False if an update of this group is under way.
  bool StartUpdate() { return !updating_.exchange(true); }
  void EndUpdate() { updating_.store(false); }

 private:
  std::atomic<bool> updating_{false};
};

// Takes the launches of a stream, each for the next member of a group, and
// replaces them all at its end: a graph never mixes two updates.
class Update final : public Recorder {
 public:
  // The group is marked by the caller, and free again when this goes.
  explicit Update(std::shared_ptr<TaskGroup> group)
      : group_(std::move(group)) {}
  ~Update() override { group_->EndUpdate(); }

  RecorderKind kind() const override { return RecorderKind::kUpdate; }
  const void* origin() const override { return nullptr; }
  bool Take(Stream& stream, Submission& submission, aclError* error) override;
  aclError TakeRecord(Stream& stream, Event& event,
                      std::string_view function) override;
  aclError TakeWait(Stream& stream, const CapturedRecord& record,
                    std::string_view function) override;
  aclError TakeForeign(Stream& stream, Event& event, const ForeignUse& use,
                       std::string_view function) override;
  void Abandon(Stream& stream) override;

  // The stream is its own again; fails if members are left.
  aclError End(Stream& stream, std::string_view function);

 private:
  aclError Replace(Stream& stream, Submission& submission);

  const std::shared_ptr<TaskGroup> group_;
  std::mutex mutex_;                               // guards what follows
  std::vector<std::shared_ptr<const Task>> next_;  // of the members, so far
  bool ended_ = false;
};

}  // namespace flashacl::acl
