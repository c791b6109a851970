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
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "acl/executor.h"
#include "acl/raw_enum.h"
#include "acl/recording.h"
#include "base/status.h"
#include "record/call.h"

namespace flashacl::acl {

// A parameter of phase one as it was passed. Its name lives for ever.
class Passing {
 public:
  Passing(const char* name, const aclTensor* it) : Passing(name, it, kTensor) {}
  Passing(const char* name, const aclTensorList* it)
      : Passing(name, it, kTensors) {}
  Passing(const char* name, const aclIntArray* it) : Passing(name, it, kInts) {}
  Passing(const char* name, const aclScalar* it) : Passing(name, it, kScalar) {}
  Passing(const char* name, const char* it) : Passing(name, it, kText) {}
  Passing(const char* name, double it) : name_(name), kind_(kReal), real_(it) {}
  Passing(const char* name, int64_t it)
      : name_(name), kind_(kInt), integer_(it) {}
  Passing(const char* name, bool it)
      : name_(name), kind_(kBool), integer_(it ? 1 : 0) {}
  template <typename E>
  requires std::is_enum_v<E> Passing(const char* name, const E& it)
      : Passing(name, int64_t{Raw(it)}) {}

  record::Parameter Copy() const;

 private:
  enum Kind { kTensor, kTensors, kInts, kScalar, kText, kReal, kInt, kBool };

  Passing(const char* name, const void* it, Kind kind)
      : name_(name), kind_(kind), pointer_(it) {}

  const char* name_;
  Kind kind_;
  const void* pointer_ = nullptr;
  double real_ = 0;
  int64_t integer_ = 0;
};

// The record of one phase one. Names live for ever.
class PlanRecord {
 public:
  PlanRecord(std::string_view operation, std::string_view function,
             std::span<const Passing> passed) noexcept;

  // What the phase answered, which it returns: a failure is recorded, else
  // the executor keeps the record for phase two.
  aclnnStatus Planned(aclnnStatus status, const uint64_t* workspace_size,
                      aclOpExecutor* const* executor) noexcept;

 private:
  std::shared_ptr<const Recording> recording_;
  std::shared_ptr<record::Call> call_;  // null: not recorded
};

struct GivenWorkspace {
  bool address = false;
  uint64_t bytes = 0;
};

// One run of what was planned, in what is recorded at its launch.
class RunRecord {
 public:
  RunRecord(std::shared_ptr<const Recording> recording,
            const Executor& executor, GivenWorkspace workspace);

  // On the stream's thread.
  void Before() noexcept;
  void After(const record::Answer& answer, int32_t stream,
             double microseconds) noexcept;

 private:
  struct Operand {
    size_t parameter = 0;
    size_t member = 0;
    const std::byte* first = nullptr;
    int64_t bytes = 0;
    bool input = false;
    bool output = false;
  };
  // New bytes, which are to be written with the call.
  struct State;

  record::Tensor* TensorOf(record::Call& call, const Operand& operand) const;
  // The contents of all operands, or of outputs.
  void Look(bool before);

  const std::shared_ptr<const Recording> recording_;
  const std::shared_ptr<const record::Call> planned_;
  const GivenWorkspace workspace_;
  std::vector<Operand> operands_;
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
