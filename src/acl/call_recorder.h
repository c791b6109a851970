// SPDX-License-Identifier: Apache-2.0
// Every call of an operator, with all that was passed, and the bytes of its
// tensors before and after, into a directory (record/directory.h), if
// recording.h says so. While nobody asks, a phase costs one load.
//
// Phase one is recorded by functions around those in src/ops, which the build
// makes of their declarations (cmake/entry_points.py); phase two where a run
// begins and ends on its stream. Files are written by a thread of their own,
// which is at most one call late.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "acl/executor.h"
#include "acl/planned_call.h"
#include "acl/recording.h"
#include "base/status.h"
#include "record/call.h"

namespace flashacl::acl {

// The record of one phase one, while that runs. Names live for ever.
class PlanRecord {
 public:
  PlanRecord(std::string_view operation, std::string_view function,
             std::span<const Passing> passed) noexcept;

  // What the phase answered, which it returns: a failure is recorded, else
  // the executor keeps what was passed for phase two.
  aclnnStatus Planned(aclnnStatus status, const uint64_t* workspace_size,
                      aclOpExecutor* const* executor) noexcept;

 private:
  PlannedCall Copy(aclnnStatus status) const;

  std::shared_ptr<const Recording> recording_;  // null: not recorded
  int64_t number_ = 0;
  timespec time_{};
  std::string_view operation_;
  std::string_view function_;
  std::span<const Passing> passed_;
};

struct GivenWorkspace {
  bool address = false;
  uint64_t bytes = 0;
};

// One run of what was planned, in what is recorded at its launch. Where only
// failures are, a run that succeeds is not looked at, but for inputs that it
// may overwrite.
class RunRecord {
 public:
  RunRecord(std::shared_ptr<const Recording> recording,
            const Executor& executor, GivenWorkspace workspace);

  // Whether there is nothing to record unless the run fails, and no byte to be
  // looked at before it: no input lies where an output does.
  bool WaitsForFailure() const;

  // On the stream's thread.
  void Before() noexcept;
  void After(const record::Answer& answer, int32_t stream,
             double microseconds) noexcept;

 private:
  // A call, and new bytes, which are to be written with it.
  struct State;

  // Whether the run may change what the operand has before it.
  bool MayOverwrite(const Address& operand) const;
  void Begin();
  // The contents, before the run or after it, of operands that `wanted` says.
  template <typename F>
  void Look(bool before, F&& wanted);

  const std::shared_ptr<const Recording> recording_;
  const std::shared_ptr<const PlannedCall> planned_;
  const Operator* const op_;
  const GivenWorkspace workspace_;
  std::vector<Address> operands_;
  std::shared_ptr<State> state_;
};

// Null where the executor is not recorded, or no longer. Under the executor's
// lock.
std::shared_ptr<RunRecord> RecordRun(const Executor& executor,
                                     GivenWorkspace workspace);

// Of a phase two that queued nothing. Without a message it is the newest.
void RecordFailedLaunch(const Executor& executor, GivenWorkspace workspace,
                        aclnnStatus status, std::string_view message) noexcept;

}  // namespace flashacl::acl
