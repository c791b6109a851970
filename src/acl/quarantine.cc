// SPDX-License-Identifier: Apache-2.0
#include "acl/quarantine.h"

#include <cstdlib>
#include <deque>
#include <map>
#include <mutex>
#include <utility>

#include "acl/address_number.h"
#include "acl/backend.h"
#include "acl/closed_memory.h"
#include "acl/device_memory_fault.h"
#include "acl/red_zone.h"
#include "acl/say.h"
#include "base/fork.h"
#include "base/once.h"
#include "base/str.h"
#include "plan/host_memory.h"

namespace flashacl::acl {
namespace {

constexpr size_t kMaxBytes = size_t{256} << 20;
constexpr size_t kMaxBlocks = 4096;

// Closed as long as it is here, if it is memory of the host.
class Fenced {
 public:
  Fenced(const Block& block, std::shared_ptr<const void> memory)
      : memory_(std::move(memory)),
        first_(block.base - kFrontZoneBytes),
        bytes_(kFrontZoneBytes + block.reserved + kSlackBytes) {
    HostMemory& host = HostMemory::Get();
    const bool of_host = !block.device() || IsHostMemory(DeviceMemory());
    closed_ = of_host && host.SetClosed(first_, bytes_, true);
  }
  ~Fenced() {
    if (closed_) HostMemory::Get().SetClosed(first_, bytes_, false);
  }
  Fenced(const Fenced&) = delete;
  Fenced& operator=(const Fenced&) = delete;

 private:
  const std::shared_ptr<const void> memory_;
  std::byte* const first_;
  const size_t bytes_;
  bool closed_ = false;
};

struct KeptBlock {
  FreedBlock freed;
  std::unique_ptr<Fenced> memory;  // null: given back
};

struct Freed {
  ProcessMutex mutex;
  std::map<uintptr_t, KeptBlock> blocks;  // by base
  std::deque<uintptr_t> order;            // oldest first
  size_t bytes = 0;                       // that are kept
  bool ended = false;  // others look through all memory once the process exits
};

Freed& TheFreed() {
  static constinit MadeOnce<Freed> freed;
  return *freed;
}

void GiveBack(Freed& all, KeptBlock& entry) {
  if (std::exchange(entry.memory, nullptr) == nullptr) return;
  all.bytes -= entry.freed.block.reserved;
}

}  // namespace

void Quarantine(FreedBlock freed, std::shared_ptr<const void> memory) {
  ExplainFaults();
  static constinit Once registered;
  registered.Do([] { std::atexit(&EmptyQuarantine); });
  const Block block = freed.block;
  Freed& all = TheFreed();
  std::lock_guard lock(all.mutex);
  KeptBlock& entry = all.blocks[Number(block.base)];
  GiveBack(all, entry);  // one that was here before, long ago
  entry.freed = std::move(freed);
  if (block.reserved <= kMaxBytes && !all.ended) {
    entry.memory = std::make_unique<Fenced>(block, std::move(memory));
    all.bytes += block.reserved;
  }
  all.order.push_back(Number(block.base));
  while (all.bytes > kMaxBytes || all.order.size() > kMaxBlocks) {
    const auto oldest = all.blocks.find(all.order.front());
    all.order.pop_front();
    if (oldest == all.blocks.end()) continue;
    GiveBack(all, oldest->second);
    if (all.order.size() > kMaxBlocks) all.blocks.erase(oldest);
  }
}

bool FindFreed(const void* address, FreedBlock* freed) {
  Freed& all = TheFreed();
  std::lock_guard lock(all.mutex);
  auto found = all.blocks.upper_bound(Number(address));
  if (found == all.blocks.begin()) return false;
  --found;
  const Block& block = found->second.freed.block;
  if (Number(address) - found->first >= block.reserved) return false;
  *freed = found->second.freed;
  return true;
}

void EmptyQuarantine() {
  Freed& all = TheFreed();
  std::lock_guard lock(all.mutex);
  all.ended = true;
  for (auto& [base, entry] : all.blocks) GiveBack(all, entry);
}

std::string ToString(const FreedBlock& freed) {
  return Str("the block of {} bytes at {} that {} freed; {} had made it",
             Grouped(freed.block.size),
             static_cast<const void*>(freed.block.base), ToString(freed.freed),
             ToString(freed.block.made));
}

}  // namespace flashacl::acl
