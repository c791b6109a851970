// SPDX-License-Identifier: Apache-2.0
// A call of an operator with memory of its own, to be timed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <vector>

#include "acl/acl.h"
#include "aclnn/acl_meta.h"

namespace flashacl::bench {

// Tensors of one call, with memory of their own.
class Call {
 public:
  using PhaseOne = std::function<aclnnStatus(const std::vector<aclTensor*>&,
                                             uint64_t*, aclOpExecutor**)>;
  using PhaseTwo = aclnnStatus (*)(void*, uint64_t, aclOpExecutor*,
                                   aclrtStream);

  explicit Call(PhaseTwo run) : run_(run) { aclrtSetDevice(0); }
  ~Call() {
    for (const aclTensorList* list : lists_) aclDestroyTensorList(list);
    for (const aclTensor* tensor : tensors_) aclDestroyTensor(tensor);
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // Filled with the bits of `value` as fp32.
  void Add(aclDataType type, const std::vector<int64_t>& dims, float value) {
    int64_t bytes = static_cast<int64_t>(aclDataTypeSize(type));
    for (const int64_t dim : dims) bytes *= dim;
    bytes_ += bytes;
    float* const memory = memory_.emplace_back(NewMemory(bytes)).get();
    std::fill_n(memory, bytes / 4, value);
    tensors_.push_back(aclCreateTensor(dims.data(), dims.size(), type, nullptr,
                                       0, ACL_FORMAT_ND, dims.data(),
                                       dims.size(), memory));
  }

  // The last tensors become a list, which owns them.
  const aclTensorList* TakeList(int64_t count) {
    const std::vector<const aclTensor*> members(tensors_.end() - count,
                                                tensors_.end());
    tensors_.resize(tensors_.size() - static_cast<size_t>(count));
    lists_.push_back(aclCreateTensorList(members.data(), members.size()));
    return lists_.back();
  }

  void Prepare(const PhaseOne& plan) { plan_ = plan; }

  bool Run() {
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    if (plan_(tensors_, &size, &executor) != 0) return false;
    if (workspace_bytes_ < size) {
      workspace_ = NewMemory(static_cast<int64_t>(size));
      workspace_bytes_ = size;
    }
    return run_(size == 0 ? nullptr : workspace_.get(), size, executor,
                nullptr) == 0 &&
           aclrtSynchronizeStream(nullptr) == 0;
  }

  int64_t bytes() const { return bytes_; }

  // Of a tensor that was added.
  template <typename T>
  T* Data(size_t n) const {
    return reinterpret_cast<T*>(memory_[n].get());
  }

 private:
  // As programs get it: what malloc gives has small pages, which copies feel.
  struct Free {
    void operator()(float* memory) const { aclrtFree(memory); }
  };
  using Memory = std::unique_ptr<float, Free>;

  static Memory NewMemory(int64_t bytes) {
    void* memory = nullptr;
    if (aclrtMalloc(&memory, static_cast<size_t>(bytes),
                    ACL_MEM_MALLOC_HUGE_FIRST) != ACL_SUCCESS) {
      std::abort();
    }
    return Memory(static_cast<float*>(memory));
  }

  const PhaseTwo run_;
  PhaseOne plan_;
  std::vector<Memory> memory_;
  Memory workspace_;
  uint64_t workspace_bytes_ = 0;
  std::vector<aclTensor*> tensors_;
  std::vector<const aclTensorList*> lists_;
  int64_t bytes_ = 0;
};

}  // namespace flashacl::bench
