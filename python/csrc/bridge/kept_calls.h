// SPDX-License-Identifier: Apache-2.0
// Calls of the library's operators that a thread made lately, kept as
// repeatable executors: the next call of the kind says where its tensors are,
// and runs. Nothing waits: a launch takes the addresses with it.
#pragma once

#include <c10/util/SmallVector.h>

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>

#include "aclnn/acl_meta.h"
#include "aclnn/aclnn_base.h"
#include "bridge/call_key.h"
#include "bridge/queue.h"

namespace flashacl::bridge {

// Calls that a thread keeps; the one that was run longest ago goes first. Each
// takes some 10 KiB. With more numbers in lists none is kept: such lists seldom
// come again.
inline constexpr size_t kKeptCalls = 64;
inline constexpr size_t kKeptNumbers = 128;

// The second phase of an operator.
using Phase2 = aclnnStatus (*)(void* workspace, uint64_t workspace_size,
                               aclOpExecutor* executor, aclrtStream stream);

// C's arguments of one call, made for its first phase. Tensors live on, as the
// executor is told of new addresses by them.
class CArguments {
 public:
  CArguments() = default;
  ~CArguments();
  CArguments(const CArguments&) = delete;
  CArguments& operator=(const CArguments&) = delete;

  aclTensor* Of(TensorArgument tensor);
  aclTensorList* Of(const ListOfOne& list);
  aclIntArray* Of(const IntegersArgument& integers);
  char* Of(const TextArgument& text) { return const_cast<char*>(text.text); }
  int64_t Of(int64_t number) { return number; }
  double Of(double number) { return number; }
  bool Of(bool flag) { return flag; }

  // Whether all could be made.
  bool good() const { return good_; }
  const c10::SmallVector<aclTensor*, 8>& tensors() const { return tensors_; }

 private:
  aclTensor* Make(const at::Tensor& tensor);

  bool good_ = true;
  c10::SmallVector<aclTensor*, 8> tensors_;  // all, also those in lists
  c10::SmallVector<aclTensor*, 8> alone_;  // not in a list, which owns its own
  c10::SmallVector<aclTensorList*, 2> lists_;
  c10::SmallVector<aclIntArray*, 2> integers_;
};

// A planned call, which its thread runs any number of times.
class Prepared {
 public:
  Prepared() = default;
  ~Prepared();
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;

  // Launches it on the calling thread's current stream, with its tensors at
  // `addresses`, in the order of the arguments. False if the library refuses.
  bool Run(Phase2 phase2, c10::ArrayRef<void*> addresses);

  CArguments arguments;
  aclOpExecutor* executor = nullptr;
  uint64_t workspace_bytes = 0;
  c10::SmallVector<void*, 8> at;  // where the tensors are
};

// Follows forks. Once, before the first call.
void InstallKeptCalls();

// The calling thread's call under this key, or null.
Prepared* FindKept(const CallKey& key, uint64_t hash);

// A new one under this key, which is not kept before Keep().
Prepared* NewKept(CallKey key, uint64_t hash);
void Keep();

// Drops the one that FindKept() or NewKept() has given, and what the library
// says of its failure; returns false.
bool Drop();

// How many calls the calling thread keeps, and how many were run again.
std::pair<size_t, uint64_t> KeptCounts();

// Of results, too; asked as of arguments, whose memory may be shared until
// somebody writes to it.
inline void* AddressOf(const at::Tensor& tensor) {
  return const_cast<void*>(tensor.const_data_ptr());
}

inline void Collect(c10::SmallVector<void*, 8>& to, TensorArgument tensor) {
  if (tensor != nullptr) to.push_back(AddressOf(*tensor));
}
inline void Collect(c10::SmallVector<void*, 8>& to, const ListOfOne& list) {
  Collect(to, list.tensor);
}
template <typename T>
void Collect(c10::SmallVector<void*, 8>&, const T&) {}

// Calls an operator by its two C functions on the calling thread's current
// stream. False, and nothing was launched, where the library refuses: whoever
// asked the adapter then is told why.
template <typename Phase1, typename... Args>
bool CallKept(Phase1 phase1, Phase2 phase2, const Args&... args) {
  CallKey key(reinterpret_cast<const void*>(phase2), CurrentDevice());
  (key.Add(args), ...);
  if (key.numbers() > kKeptNumbers) return false;
  c10::SmallVector<void*, 8> addresses;
  (Collect(addresses, args), ...);
  const uint64_t hash = key.Hash();
  if (Prepared* const kept = FindKept(key, hash)) {
    return kept->Run(phase2, addresses) || Drop();
  }
  Prepared* const made = NewKept(std::move(key), hash);
  CArguments& c = made->arguments;
  // Braces: C's arguments are made in order, as the addresses were collected.
  const std::tuple converted{c.Of(args)...};
  const auto plan = [&](auto... values) {
    return phase1(values..., &made->workspace_bytes, &made->executor);
  };
  if (!c.good() || std::apply(plan, converted) != 0) return Drop();
  made->at = addresses;
  if (aclSetAclOpExecutorRepeatable(made->executor) != 0 ||
      !made->Run(phase2, addresses)) {
    return Drop();
  }
  Keep();
  return true;
}

}  // namespace flashacl::bridge
