// SPDX-License-Identifier: Apache-2.0
// What the bridge knows of an operator before it is called, and counts after.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace flashacl::bridge {

// How an operator with npu tensors is run.
enum class Way {
  kOnFaces,    // its CPU kernel, on CPU faces of the tensors
  kComposite,  // PyTorch's composition of other operators, on the npu tensors
  kAutograd,   // PyTorch's own derivative, then on faces
  kCopy,       // between devices, on faces of those that are npu's
};

struct OperatorInfo {
  explicit OperatorInfo(const c10::OperatorHandle& op, Way way);

  std::string name;  // "aten::add.Tensor"
  Way way;
  std::vector<bool> written;    // by argument
  std::vector<bool> takes_cpu;  // by argument: may stay on the CPU
  int generator = -1;           // the argument of that type
  bool random = false;
  bool all_take_cpu = false;
  std::atomic<uint64_t> calls{0};
};

// Makes one that lives as long as the process, and lists it.
OperatorInfo& MakeOperatorInfo(const c10::OperatorHandle& op, Way way);

// All that were made.
const std::vector<std::unique_ptr<OperatorInfo>>& OperatorInfos();

const char* ToString(Way way);

}  // namespace flashacl::bridge
