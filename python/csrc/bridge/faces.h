// SPDX-License-Identifier: Apache-2.0
// The CPU faces of npu tensors. Device memory is the host's, so that a CPU
// tensor over an npu tensor's bytes is all that a CPU kernel needs; what it
// returns becomes an npu tensor over the bytes that it returned. Nothing is
// copied in either direction.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/SmallVector.h>

#include <cstddef>
#include <unordered_map>
#include <utility>

namespace flashacl::bridge {

inline constexpr c10::DeviceType kNpu = c10::DeviceType::PrivateUse1;

inline bool IsNpu(const at::Tensor& tensor) {
  return tensor.defined() && tensor.device().type() == kNpu;
}

// The faces of one call's arguments.
class Faces {
 public:
  // A CPU tensor with the memory, shape, strides, and conjugate and negative
  // bits of `npu`, which it keeps alive. One tensor has one face, and tensors
  // that share a storage have faces that do, so that kernels see what overlaps.
  // Written ones are looked at by WriteBack.
  at::Tensor Face(const at::Tensor& npu, bool written);

  // What a CPU kernel returned, as a tensor of `device`: the argument itself if
  // it is a face, a view of the argument if it shares a face's storage, else a
  // tensor that takes over the memory. Others than CPU tensors stay.
  at::Tensor Back(at::Tensor cpu, c10::Device device);

  // After a call: written arguments become what their faces have become, where
  // the kernel has resized them or replaced their memory.
  void WriteBack();

 private:
  struct Entry {
    at::Tensor npu;
    at::Tensor face;
    bool written = false;
  };
  // The storage of an argument and that of its faces.
  struct Shared {
    c10::StorageImpl* npu = nullptr;
    c10::intrusive_ptr<c10::StorageImpl> face;
    void* data = nullptr;
    size_t bytes = 0;
  };

  Entry* FindEntry(const c10::TensorImpl* npu);
  size_t SharedOf(const at::Tensor& npu);  // its index in shared_
  const Shared* FindFaceStorage(const c10::StorageImpl* face) const;
  c10::Storage Adopt(const at::Tensor& cpu, c10::Device device);
  void WriteBackOne(const Entry& entry);

  c10::SmallVector<Entry, 6> entries_;
  c10::SmallVector<Shared, 6> shared_;
  // CPU storages with several owners and the npu storages made of them.
  c10::SmallVector<std::pair<c10::StorageImpl*, c10::Storage>, 2> adopted_;
  // Filled where there are many arguments: lists of hundreds are common.
  std::unordered_map<const c10::TensorImpl*, size_t> entry_of_;
  std::unordered_map<const c10::StorageImpl*, size_t> shared_of_;
  std::unordered_map<const c10::StorageImpl*, size_t> face_of_;
};

}  // namespace flashacl::bridge
