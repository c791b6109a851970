// SPDX-License-Identifier: Apache-2.0
// A call of each operator as data: tensors, arrays, numbers and texts that a
// test may change before making it. For whatever treats all operators alike.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "acl/acl.h"
#include "aclnn/acl_meta.h"

namespace flashacl::testing {

struct TensorArgument {
  std::vector<int64_t> dims;
  aclDataType type = ACL_FLOAT16;
  bool present = true;
  std::vector<int64_t> strides = {};  // empty: contiguous
  int64_t offset = 0;
  aclFormat format = ACL_FORMAT_ND;
  void* data = nullptr;

  // Bytes from `data` to behind the last element; 0 if there is none, or if
  // that would be more than any test wants.
  int64_t ExtentBytes() const;
};

struct OperatorCall {
  using Handles = struct CallHandles;
  using PrepareFunction = aclnnStatus (*)(const OperatorCall&, const Handles&,
                                          uint64_t*, aclOpExecutor**);
  using LaunchFunction = aclnnStatus (*)(void*, uint64_t, aclOpExecutor*,
                                         aclrtStream);

  const char* name;
  std::vector<TensorArgument> tensors;  // in order of declaration
  std::vector<std::optional<std::vector<int64_t>>> arrays;
  std::vector<double> reals;
  std::vector<int64_t> integers;
  std::vector<std::optional<std::string>> texts;
  size_t first_output;  // among tensors
  PrepareFunction prepare;
  LaunchFunction launch;

  // Makes the handles, plans and destroys the handles.
  aclnnStatus Prepare(uint64_t* workspace_size, aclOpExecutor** executor) const;
};

// The handles of one call, for phase 1 any number of times.
class StandingCall {
 public:
  explicit StandingCall(const OperatorCall& call);
  ~StandingCall();
  StandingCall(const StandingCall&) = delete;
  StandingCall& operator=(const StandingCall&) = delete;

  aclnnStatus Prepare(uint64_t* workspace_size, aclOpExecutor** executor) const;

 private:
  const OperatorCall& call_;
  std::unique_ptr<const CallHandles> handles_;
};

// The part of the below that is for training: forward, backward, then all other
// versions of both.
std::vector<OperatorCall> TrainingOperatorCalls();

// One valid call of every operator, with every argument given that can be
// given together. Tensors have no memory yet.
std::vector<OperatorCall> AllOperatorCalls();

}  // namespace flashacl::testing
