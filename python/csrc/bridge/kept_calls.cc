// SPDX-License-Identifier: Apache-2.0
#include "bridge/kept_calls.h"

#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "bridge/faces.h"

namespace flashacl::bridge {
namespace {

std::optional<aclDataType> TypeOf(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return ACL_FLOAT;
    case at::kHalf:
      return ACL_FLOAT16;
    case at::kBFloat16:
      return ACL_BF16;
    case at::kBool:
      return ACL_BOOL;
    case at::kByte:
      return ACL_UINT8;
    case at::kChar:
      return ACL_INT8;
    case at::kInt:
      return ACL_INT32;
    case at::kLong:
      return ACL_INT64;
    default:
      return std::nullopt;
  }
}

// The process, which a fork changes: what a parent has kept is not its child's.
std::atomic<int64_t> process{0};

struct Entry {
  Entry(CallKey of, uint64_t with_hash) : hash(with_hash), key(std::move(of)) {}
  uint64_t hash;
  CallKey key;
  Prepared prepared;
};

// What one thread keeps, the youngest last.
struct Table {
  int64_t of_process = process.load(std::memory_order_relaxed);
  std::vector<std::unique_ptr<Entry>> kept;
  std::unique_ptr<Entry> made;  // not kept yet
  uint64_t run_again = 0;
};

// A thread's, gone with it.
class Owner {
 public:
  ~Owner() { Drop(); }

  Table& table() {
    if (table_ != nullptr &&
        table_->of_process == process.load(std::memory_order_relaxed)) {
      return *table_;
    }
    Drop();
    table_ = new Table;
    return *table_;
  }

 private:
  void Drop() {
    if (table_ == nullptr) return;
    // Handles of the parent are none here.
    if (table_->of_process == process.load(std::memory_order_relaxed)) {
      delete table_;
    }
    table_ = nullptr;
  }

  Table* table_ = nullptr;
};

thread_local Owner owner;

}  // namespace

void InstallKeptCalls() {
  pthread_atfork(nullptr, nullptr,
                 [] { process.fetch_add(1, std::memory_order_relaxed); });
}

aclTensor* CArguments::Make(const at::Tensor& tensor) {
  const auto type = TypeOf(tensor.scalar_type());
  const c10::IntArrayRef sizes = tensor.sizes();
  aclTensor* const made =
      type.has_value()
          ? aclCreateTensor(sizes.data(), sizes.size(), *type,
                            tensor.strides().data(), 0, ACL_FORMAT_ND,
                            sizes.data(), sizes.size(), AddressOf(tensor))
          : nullptr;
  good_ = good_ && made != nullptr;
  if (made != nullptr) tensors_.push_back(made);
  return made;
}

aclTensor* CArguments::Of(TensorArgument tensor) {
  if (tensor == nullptr) return nullptr;
  aclTensor* const made = Make(*tensor);
  if (made != nullptr) alone_.push_back(made);
  return made;
}

aclTensorList* CArguments::Of(const ListOfOne& list) {
  if (list.tensor == nullptr) return nullptr;
  aclTensor* const made = Make(*list.tensor);
  if (made == nullptr) return nullptr;
  aclTensorList* const whole = aclCreateTensorList(&made, 1);
  good_ = good_ && whole != nullptr;
  if (whole == nullptr) {
    alone_.push_back(made);
  } else {
    lists_.push_back(whole);
  }
  return whole;
}

aclIntArray* CArguments::Of(const IntegersArgument& integers) {
  if (!integers.numbers.has_value() && !integers.empty) return nullptr;
  const c10::IntArrayRef numbers =
      integers.numbers.has_value() ? *integers.numbers : c10::IntArrayRef();
  aclIntArray* const made = aclCreateIntArray(numbers.data(), numbers.size());
  good_ = good_ && made != nullptr;
  if (made != nullptr) integers_.push_back(made);
  return made;
}

CArguments::~CArguments() {
  for (aclTensor* const tensor : alone_) aclDestroyTensor(tensor);
  for (aclTensorList* const list : lists_) aclDestroyTensorList(list);
  for (aclIntArray* const array : integers_) aclDestroyIntArray(array);
}

Prepared::~Prepared() {
  if (executor != nullptr) aclDestroyAclOpExecutor(executor);
}

bool Prepared::Run(Phase2 phase2, c10::ArrayRef<void*> addresses) {
  for (size_t i = 0; i < addresses.size(); ++i) {
    if (addresses[i] == at[i]) continue;
    // The tensor says which; the number is only where the search begins.
    if (aclSetTensorAddr(executor, i, arguments.tensors()[i], addresses[i]) !=
        0) {
      return false;
    }
    at[i] = addresses[i];
  }
  // Given back at once: the allocator lets nobody have it before the stream
  // has come so far.
  c10::DataPtr workspace;
  if (workspace_bytes > 0) {
    workspace = c10::GetAllocator(kNpu)->allocate(workspace_bytes);
  }
  return phase2(workspace.get(), workspace_bytes, executor, CurrentStream()) ==
         0;
}

Prepared* FindKept(const CallKey& key, uint64_t hash) {
  Table& table = owner.table();
  auto& kept = table.kept;
  for (size_t i = kept.size(); i-- > 0;) {
    if (kept[i]->hash != hash || !(kept[i]->key == key)) continue;
    std::rotate(kept.begin() + static_cast<std::ptrdiff_t>(i),
                kept.begin() + static_cast<std::ptrdiff_t>(i) + 1, kept.end());
    ++table.run_again;
    table.made = nullptr;  // of a call that an exception ended
    return &kept.back()->prepared;
  }
  return nullptr;
}

Prepared* NewKept(CallKey key, uint64_t hash) {
  auto& made = owner.table().made;
  made = std::make_unique<Entry>(std::move(key), hash);
  return &made->prepared;
}

void Keep() {
  Table& table = owner.table();
  table.kept.push_back(std::move(table.made));
  if (table.kept.size() > kKeptCalls) table.kept.erase(table.kept.begin());
}

bool Drop() {
  Table& table = owner.table();
  if (table.made != nullptr) {
    table.made = nullptr;
  } else {
    table.kept.pop_back();  // where FindKept() has put it
  }
  ForgetMessage();
  return false;
}

std::pair<size_t, uint64_t> KeptCounts() {
  const Table& table = owner.table();
  return {table.kept.size(), table.run_again};
}

}  // namespace flashacl::bridge
