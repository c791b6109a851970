// SPDX-License-Identifier: Apache-2.0
// An aclOpExecutor is a plan of attention or another computation, the addresses
// it was made for, and whether it may run again. This is all the runtime knows
// about operators, so phase two of every operator is the same line.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "acl/arguments.h"
#include "acl/byte_view.h"
#include "acl/handle.h"
#include "acl/recorder.h"
#include "aclnn/acl_meta.h"
#include "base/function_ref.h"
#include "plan/bindings.h"
#include "plan/computation.h"
#include "plan/device_checks.h"
#include "plan/plan.h"
#include "problem/attention_problem.h"

namespace flashacl::acl {

struct PlannedCall;

// Where an argument's memory goes in the problem.
struct Use {
  int argument = 0;  // row of the operator's table
  int member = 0;    // of a list
  Slot slot = Slot::kQuery;
  bool in_list = false;      // goes to key_list / value_list at `member`
  int64_t offset_bytes = 0;  // of the slot's element 0, from the tensor's data
};

// What an operator asks for, in the house's words.
struct Lowered {
  AttentionProblem problem;
  std::vector<Use> uses;
  bool nothing = false;  // all outputs are empty: succeed without work
  // A compressed mask, whose contents only strict mode looks at: its row of
  // the table, or -1.
  int compressed_mask = -1;

  // States that `slot` is the whole of the tensor in row `argument`, further
  // elements into it by `more_elements`.
  void Bind(const Arguments& arguments, int argument, Slot slot,
            int64_t more_elements = 0);
  // The same for every member of a list.
  void BindList(const Arguments& arguments, int argument, Slot slot);
};

// The address of one tensor argument; changes with aclSet*TensorAddr.
struct Address {
  int argument = 0;
  int member = 0;
  bool input = false;
  bool output = false;                // both: in place
  const aclTensor* handle = nullptr;  // null: nothing was passed
  std::byte* data = nullptr;
  bool has_elements = false;
  // Where the elements lie: from `data` to the first, and from there to after
  // the last. 0 bytes where the operator takes the tensor for absent.
  int64_t offset_bytes = 0;
  int64_t extent_bytes = 0;
  ByteView view = {};  // the same to the byte, in strict mode only
};

// One operator, as far as the runtime is concerned.
struct Operator {
  std::string_view name;  // "aclnnFlashAttentionVarLenScore"
  std::span<const Argument> arguments;
  // What this operator's documents answer when arguments that are each fine
  // contradict one another.
  aclnnStatus contradiction = 161002;
};

struct Executor {
  static constexpr HandleKind kHandleKind = HandleKind::kExecutor;

  const Operator* op = nullptr;
  // At most one of these; none: nothing to do.
  std::shared_ptr<const Plan> plan;  // of attention
  std::shared_ptr<const Computation> computation;
  // Of attention:
  std::vector<Use> uses;
  std::optional<CompressedMask> compressed_mask;  // strict mode only
  int64_t compressed_offset_bytes = 0;
  int compressed_argument = 0;
  // Of both:
  std::vector<Address> addresses;
  std::shared_ptr<const PlannedCall> record;  // null: not recorded
  std::atomic<bool> repeatable{false};
  std::mutex mutex;  // of addresses

  bool nothing() const { return plan == nullptr && computation == nullptr; }
  uint64_t workspace_bytes() const;
};

// Where phase 1 puts its answers; both are left alone on failure.
struct PhaseOne {
  uint64_t* workspace_size;
  aclOpExecutor** executor;
};

// Lowers the arguments of one call; the scalars are captured by the operator.
using LowerFunction = FunctionRef<Result<Lowered>(const Arguments&)>;

// Phase 1 of an operator of attention: nulls, snapshot, lower, plan. Reads no
// device data, needs no context, never blocks.
aclnnStatus Prepare(const Operator& op, std::span<const Passed> passed,
                    LowerFunction lower, PhaseOne answer) noexcept;

// What the arguments of one call ask for, if that is no attention; null:
// succeed without work.
using ComputeFunction =
    FunctionRef<Result<std::shared_ptr<const Computation>>(const Arguments&)>;

// Phase 1 of an operator that is no attention, the same otherwise.
aclnnStatus PrepareComputation(const Operator& op,
                               std::span<const Passed> passed,
                               ComputeFunction compute,
                               PhaseOne answer) noexcept;

// What a call with this problem needs of workspace.
Result<uint64_t> WorkspaceBytes(const AttentionProblem& problem);

// The same for any lengths up to those that the problem has.
Result<uint64_t> MostWorkspaceBytes(const AttentionProblem& problem);

// Phase 2 of every operator: takes the executor (and frees it unless it is
// repeatable) and queues the run on the stream. Strict mode refuses the
// executor of another operator than `caller`, if that is one.
aclnnStatus Launch(void* workspace, uint64_t workspace_size,
                   aclOpExecutor* executor, aclrtStream stream,
                   const char* caller = __builtin_FUNCTION()) noexcept;

// What the task of a launch computes, and by which implementation; empty for
// other tasks.
std::string DescribeLaunch(const Task& task);

}  // namespace flashacl::acl
