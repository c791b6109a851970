// SPDX-License-Identifier: Apache-2.0
#include "acl/graph/condition.h"

#include <utility>

#include "acl/backend.h"
#include "acl/context.h"
#include "acl/error.h"
#include "acl/stream.h"

namespace flashacl::acl {

std::shared_ptr<Condition> Condition::Create(Graph& root, uint64_t start,
                                             bool assigns) {
  std::shared_ptr<Condition> made(new Condition(root, start, assigns));
  const auto context = root.context();
  if (context == nullptr) return nullptr;
  made->cell_ = AllocateBlock({.size = sizeof(uint64_t),
                               .reserved = sizeof(uint64_t) + kSlackBytes,
                               .device_id = context->device()});
  if (made->cell_ == nullptr) return nullptr;
  const void* const cell = made->cell_;
  made->use_ = BlockUse({&cell, 1});
  DeviceMemory().Fill(made->cell_, std::byte{0}, sizeof(uint64_t));
  made->handle_ = NewHandle(made);
  return made->handle_ == nullptr ? nullptr : made;
}

Condition::~Condition() {
  // While it is used its address is nobody else's: the program may have freed
  // it.
  Block block;
  const bool live = cell_ != nullptr && FindBlock(cell_, &block);
  use_ = BlockUse();
  if (live) (void)FreeBlock(cell_, BlockKind::kDevice);
}

void Condition::StartReplay() const {
  if (!assigns_) return;
  DeviceMemory().Copy(cell_, reinterpret_cast<const std::byte*>(&start_),
                      sizeof(start_));
}

uint64_t Condition::Read() const {
  uint64_t value = 0;
  DeviceMemory().Copy(reinterpret_cast<std::byte*>(&value), cell_,
                      sizeof(value));
  return value;
}

Task RunByCondition(std::shared_ptr<Condition> condition, int type,
                    std::vector<std::shared_ptr<Graph>> children) {
  return [condition = std::move(condition), type,
          children = std::move(children)]() -> aclError {
    if (type == ACL_MODEL_RI_COND_TYPE_WHILE) {
      // What would end it may be work on the device.
      if (children[0]->root().skips()) return ACL_SUCCESS;
      while (condition->Read() != 0 && !ThisStream().aborting()) {
        const aclError code = children[0]->RunNodes();
        if (code != ACL_SUCCESS || children[0]->root().aborted()) return code;
      }
      return ACL_SUCCESS;
    }
    uint64_t chosen = condition->Read();
    if (type == ACL_MODEL_RI_COND_TYPE_IF) chosen = chosen != 0 ? 0 : 1;
    if (chosen >= children.size()) return ACL_SUCCESS;
    return children[static_cast<size_t>(chosen)]->RunNodes();
  };
}

}  // namespace flashacl::acl
