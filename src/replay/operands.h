// SPDX-License-Identifier: Apache-2.0
// The handles and the device memory of one recorded call.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "record/directory.h"
#include "replay/entry_point.h"

namespace flashacl::replay {

// Device memory for the length of a scope; null where there is none left.
class DeviceBlock {
 public:
  explicit DeviceBlock(size_t bytes);
  ~DeviceBlock();
  DeviceBlock(const DeviceBlock&) = delete;
  DeviceBlock& operator=(const DeviceBlock&) = delete;

  std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
};

// One tensor that the run reads or writes.
struct Operand {
  std::string name;
  const record::Tensor* tensor = nullptr;
  std::vector<std::byte> before;
  std::byte* first = nullptr;  // of its bytes, in device memory
};

class Operands {
 public:
  // `call` outlives it. Fails where bytes are missing or broken.
  static Result<std::unique_ptr<Operands>> Make(const record::Reader& reader,
                                                const record::Call& call);
  ~Operands();
  Operands(const Operands&) = delete;
  Operands& operator=(const Operands&) = delete;

  const std::vector<Given>& values() const { return values_; }
  const std::vector<Operand>& tensors() const { return tensors_; }
  // Whose bytes may be taken where nothing is uploaded any more.
  std::vector<Operand>& tensors() { return tensors_; }

  // Brings all tensors to what they were before the call.
  Status Upload() const;

 private:
  Operands() = default;

  Result<Given> Value(const record::Reader& reader,
                      const record::Parameter& parameter);
  Result<const aclTensor*> NewTensor(const record::Reader& reader,
                                     const std::string& name,
                                     const record::Tensor& tensor);

  std::vector<Given> values_;
  std::vector<Operand> tensors_;
  std::vector<std::unique_ptr<DeviceBlock>> blocks_;
  std::vector<std::unique_ptr<std::string>> texts_;
  // Destroyed with it; members of lists by their list.
  std::vector<const aclTensor*> handles_;
  std::vector<const aclTensorList*> lists_;
  std::vector<const aclIntArray*> arrays_;
  std::vector<const aclScalar*> scalars_;
};

}  // namespace flashacl::replay
