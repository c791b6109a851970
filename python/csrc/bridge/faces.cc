// SPDX-License-Identifier: Apache-2.0
#include "bridge/faces.h"

#include <ATen/core/TensorBase.h>
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include "bridge/kernel_memory.h"
#include "bridge/npu_storage.h"

namespace flashacl::bridge {
namespace {

// From so many arguments on, they are looked up by hash.
constexpr size_t kMany = 16;

void ReleaseStorage(void* storage) {
  c10::raw::intrusive_ptr::decref(static_cast<c10::StorageImpl*>(storage));
}

// Bytes of `storage`, which they keep alive.
c10::DataPtr Borrow(c10::StorageImpl* storage, c10::Device device) {
  c10::raw::intrusive_ptr::incref(storage);
  return {storage->mutable_data(), storage, &ReleaseStorage, device};
}

c10::intrusive_ptr<c10::StorageImpl> FaceStorage(c10::StorageImpl* npu) {
  return c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), npu->nbytes(),
      Borrow(npu, c10::kCPU), c10::GetCPUAllocator(), /*resizable=*/true);
}

at::Tensor Make(c10::Storage storage, c10::DispatchKey key,
                const at::Tensor& like) {
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(key), like.dtype());
  c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  const c10::TensorImpl* from = like.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(like.sizes(), like.strides(),
                              like.storage_offset());
  if (like.is_conj()) impl->_set_conj(true);
  if (like.is_neg()) impl->_set_neg(true);
  if (from->is_wrapped_number()) impl->set_wrapped_number(true);
  return tensor;
}

bool SameShape(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && a.strides() == b.strides() &&
         a.storage_offset() == b.storage_offset();
}

}  // namespace

Faces::Entry* Faces::FindEntry(const c10::TensorImpl* npu) {
  if (entries_.size() >= kMany) {
    const auto found = entry_of_.find(npu);
    return found == entry_of_.end() ? nullptr : &entries_[found->second];
  }
  for (Entry& entry : entries_) {
    if (entry.npu.unsafeGetTensorImpl() == npu) return &entry;
  }
  return nullptr;
}

size_t Faces::SharedOf(const at::Tensor& npu) {
  c10::StorageImpl* storage = npu.storage().unsafeGetStorageImpl();
  if (shared_.size() >= kMany) {
    const auto found = shared_of_.find(storage);
    if (found != shared_of_.end()) return found->second;
  } else {
    for (size_t i = 0; i < shared_.size(); ++i) {
      if (shared_[i].npu == storage) return i;
    }
  }
  auto face = FaceStorage(storage);
  shared_.push_back({storage, face, face->_mutable_data_ptr_no_checks().get(),
                     face->nbytes()});
  if (shared_.size() >= kMany) {
    const size_t first = shared_.size() == kMany ? 0 : shared_.size() - 1;
    for (size_t i = first; i < shared_.size(); ++i) {
      shared_of_[shared_[i].npu] = i;
      face_of_[shared_[i].face.get()] = i;
    }
  }
  return shared_.size() - 1;
}

const Faces::Shared* Faces::FindFaceStorage(
    const c10::StorageImpl* face) const {
  if (shared_.size() >= kMany) {
    const auto found = face_of_.find(face);
    return found == face_of_.end() ? nullptr : &shared_[found->second];
  }
  for (const Shared& shared : shared_) {
    if (shared.face.get() == face) return &shared;
  }
  return nullptr;
}

at::Tensor Faces::Face(const at::Tensor& npu, bool written) {
  if (Entry* entry = FindEntry(npu.unsafeGetTensorImpl())) {
    entry->written |= written;
    return entry->face;
  }
  const Shared& shared = shared_[SharedOf(npu)];
  at::Tensor face = Make(c10::Storage(shared.face), c10::DispatchKey::CPU, npu);
  entries_.push_back({npu, face, written});
  if (entries_.size() >= kMany) {
    const size_t first = entries_.size() == kMany ? 0 : entries_.size() - 1;
    for (size_t i = first; i < entries_.size(); ++i) {
      entry_of_[entries_[i].npu.unsafeGetTensorImpl()] = i;
    }
  }
  return face;
}

c10::Storage Faces::Adopt(const at::Tensor& cpu, c10::Device device) {
  c10::StorageImpl* storage = cpu.storage().unsafeGetStorageImpl();
  if (cpu.use_count() == 1 && cpu.storage().use_count() == 1) {
    return MakeNpuStorage(
        AsDeviceMemory(storage->set_data_ptr(c10::DataPtr()), device),
        storage->nbytes(), ContentsOf(cpu));
  }
  for (const auto& [from, made] : adopted_) {
    if (from == storage) return made;
  }
  c10::Storage made =
      MakeNpuStorage(AsDeviceMemory(Borrow(storage, device), device),
                     storage->nbytes(), ContentsOf(cpu));
  adopted_.emplace_back(storage, made);
  return made;
}

at::Tensor Faces::Back(at::Tensor cpu, c10::Device device) {
  if (!cpu.defined() || !cpu.device().is_cpu()) return cpu;
  TORCH_CHECK_NOT_IMPLEMENTED(cpu.layout() == c10::kStrided,
                              "its result is a tensor of layout ", cpu.layout(),
                              "; npu tensors are strided");
  // A storage of its own is nobody's face.
  if (cpu.use_count() > 1 || cpu.storage().use_count() > 1) {
    for (const Entry& entry : entries_) {
      if (entry.face.is_same(cpu)) return entry.npu;
    }
    const Shared* shared =
        FindFaceStorage(cpu.storage().unsafeGetStorageImpl());
    if (shared != nullptr) {
      return Make(
          c10::Storage(
              c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(shared->npu)),
          c10::DispatchKey::PrivateUse1, cpu);
    }
  }
  // Both read before the storage is emptied.
  c10::Storage storage = Adopt(cpu, device);
  return Make(std::move(storage), c10::DispatchKey::PrivateUse1, cpu);
}

void Faces::WriteBackOne(const Entry& entry) {
  const at::Tensor& npu = entry.npu;
  const at::Tensor& face = entry.face;
  const Shared& shared = shared_[SharedOf(npu)];
  c10::StorageImpl* now = face.storage().unsafeGetStorageImpl();
  c10::TensorImpl* impl = npu.unsafeGetTensorImpl();
  if (now != shared.face.get()) {
    impl->set_storage_keep_dtype(Adopt(face, npu.device()));
  } else if (now->_mutable_data_ptr_no_checks().get() != shared.data) {
    shared.npu->set_data_ptr_noswap(
        AsDeviceMemory(now->set_data_ptr(c10::DataPtr()), npu.device()));
    shared.npu->set_nbytes(now->nbytes());
  } else if (now->nbytes() != shared.bytes) {
    shared.npu->set_nbytes(now->nbytes());
  }
  if (!SameShape(npu, face)) {
    impl->set_sizes_and_strides(face.sizes(), face.strides(),
                                face.storage_offset());
    DescribeNpuStorage(npu.storage(), ContentsOf(npu));
  }
}

void Faces::WriteBack() {
  for (const Entry& entry : entries_) {
    if (!entry.written) continue;
    c10::StorageImpl* now = entry.face.storage().unsafeGetStorageImpl();
    const Shared* shared = FindFaceStorage(now);
    if (shared != nullptr &&
        now->_mutable_data_ptr_no_checks().get() == shared->data &&
        now->nbytes() == shared->bytes && SameShape(entry.npu, entry.face)) {
      continue;
    }
    WriteBackOne(entry);
  }
}

}  // namespace flashacl::bridge
