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
  bool list = false;   // passed as a list
  size_t members = 1;  // of the list, all of this memory

  // Bytes from `data` to after the last element; 0 if there is none, or if
  // that would be more than any test wants.
  int64_t ExtentBytes() const;
};

struct ScalarArgument {
  aclDataType type = ACL_FLOAT;
  double value = 1;
  bool present = true;
};

// An aclScalar of one of the types that C++ has; null if it is not present.
aclScalar* NewScalar(const ScalarArgument& of);

struct OperatorCall {
  const char* name;
  std::vector<TensorArgument> tensors;  // in order of declaration
  std::vector<std::optional<std::vector<int64_t>>> arrays;
  std::vector<double> reals;
  std::vector<int64_t> integers;
  std::vector<std::optional<std::string>> texts;
  size_t first_output;  // among tensors; 0 where the first is changed in place
  std::vector<ScalarArgument> scalars = {};
  std::vector<size_t> outputs = {};  // empty: all from the first on

  bool IsOutput(size_t tensor) const;

  // Makes the handles, plans and destroys the handles.
  aclnnStatus Prepare(uint64_t* workspace_size, aclOpExecutor** executor) const;
  aclnnStatus Launch(void* workspace, uint64_t workspace_size,
                     aclOpExecutor* executor, aclrtStream stream) const;
};

// Everything but the memory, for messages.
std::string ToString(const OperatorCall& call);

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
  std::unique_ptr<const struct CallHandles> handles_;
};

// The parts of the below, by family. Those for training: forward, backward,
// then all other versions of both; of inference the same of prefill and decode.
std::vector<OperatorCall> TrainingOperatorCalls();
std::vector<OperatorCall> InferenceOperatorCalls();
std::vector<OperatorCall> ElementwiseOperatorCalls();
std::vector<OperatorCall> DropoutOperatorCalls();
std::vector<OperatorCall> MergeOperatorCalls();
std::vector<OperatorCall> PageOperatorCalls();
std::vector<OperatorCall> IndexerOperatorCalls();

// One valid call of every operator, with every argument given that can be
// given together. Tensors have no memory yet.
std::vector<OperatorCall> AllOperatorCalls();

// Some of them with elements of types that attention does not compute with.
std::vector<OperatorCall> OperatorCallsOfOtherTypes();

}  // namespace flashacl::testing
