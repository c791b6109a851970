// SPDX-License-Identifier: Apache-2.0
#include "acl/closed_memory.h"

#include <cstdint>
#include <cstdlib>
#include <map>
#include <mutex>

#include "acl/address_number.h"
#include "acl/backend.h"
#include "acl/device_memory_fault.h"
#include "acl/environment.h"
#include "acl/red_zone.h"
#include "base/fork.h"
#include "base/once.h"
#include "plan/host_memory.h"

namespace flashacl::acl {

// All doors. The lock asks for no other one.
struct Doors {
  ProcessMutex mutex;
  std::map<uintptr_t, Door*> by_base;
  bool open = false;  // for good

  static Doors& All() {
    static constinit MadeOnce<Doors> all;
    return *all;
  }

  // Others look through all memory once the process exits.
  static void OpenAll() {
    Doors& all = All();
    const std::lock_guard lock(all.mutex);
    all.open = true;
    for (const auto& [base, door] : all.by_base) door->SetClosed(false);
  }
};

namespace {

// Pages of the process differ from their neighbours' where a block is closed,
// and the system has a limit of 65,530 such borders.
constexpr size_t kMostClosed = 16384;

class Opening final : public Memory {
 public:
  explicit Opening(Memory& memory) : memory_(memory) {}

  std::shared_ptr<std::byte> Allocate(const MemoryRequest& request) override {
    return memory_.Allocate(request);
  }
  void Copy(std::byte* to, const std::byte* from, size_t bytes) override {
    const void* const addresses[] = {to, from};
    const BlockUse open(addresses);
    memory_.Copy(to, from, bytes);
  }
  void Fill(std::byte* at, std::byte value, size_t bytes) override {
    const BlockUse open = Open(at);
    memory_.Fill(at, value, bytes);
  }
  void FillWords(std::byte* at, uint32_t value, size_t words) override {
    const BlockUse open = Open(at);
    memory_.FillWords(at, value, words);
  }
  uint64_t LoadWord(const std::byte* at) override {
    const BlockUse open = Open(at);
    return memory_.LoadWord(at);
  }
  void StoreWord(std::byte* at, uint64_t value) override {
    const BlockUse open = Open(at);
    memory_.StoreWord(at, value);
  }
  MemoryFile MoveToFile(std::byte* base, size_t bytes) override {
    const BlockUse open = Open(base);
    return memory_.MoveToFile(base, bytes);
  }
  bool LeaveFile(std::byte* base, size_t bytes) override {
    return memory_.LeaveFile(base, bytes);
  }

 private:
  static BlockUse Open(const void* at) { return BlockUse({&at, 1}); }

  Memory& memory_;
};

}  // namespace

bool ClosesDeviceMemory() {
  static constinit MadeOnce<const bool> closes;
  return closes.Get(
      [] { return TheEnvironment().strict && !HostTouchesDevice(); });
}

Memory& OpeningMemory() {
  static constinit MadeOnce<Opening> opening;
  return opening.Get([] { return Opening(HostMemory::Get()); });
}

bool IsHostMemory(const Memory& memory) {
  return &memory == &HostMemory::Get() || &memory == &OpeningMemory();
}

std::unique_ptr<Door> Door::Of(const Block& block) {
  if (!block.device() || !ClosesDeviceMemory()) return nullptr;
  if (&DeviceMemory() != &OpeningMemory()) return nullptr;
  ExplainFaults();
  static constinit Once registered;
  registered.Do([] { std::atexit(&Doors::OpenAll); });
  Doors& all = Doors::All();
  const std::lock_guard lock(all.mutex);
  if (all.open || all.by_base.size() >= kMostClosed) return nullptr;
  std::unique_ptr<Door> door(new Door(block));
  all.by_base[Number(block.base)] = door.get();
  door->SetClosed(true);
  return door;
}

Door::~Door() {
  Doors& all = Doors::All();
  const std::lock_guard lock(all.mutex);
  all.by_base.erase(Number(block_.base));
  SetClosed(false);
}

void Door::Use() {
  const std::lock_guard lock(Doors::All().mutex);
  if (uses_++ == 0) SetClosed(false);
}

void Door::Leave() {
  Doors& all = Doors::All();
  const std::lock_guard lock(all.mutex);
  if (--uses_ == 0 && !all.open) SetClosed(true);
}

void Door::SetClosed(bool closed) const {
  HostMemory::Get().SetClosed(block_.base - kFrontZoneBytes,
                              kFrontZoneBytes + block_.reserved + kSlackBytes,
                              closed);
}

bool FindClosed(const void* address, Block* block) {
  constexpr uintptr_t kPageBytes = 4096;
  const uintptr_t at = Number(address);
  Doors& all = Doors::All();
  const std::lock_guard lock(all.mutex);
  auto next = all.by_base.upper_bound(at + kPageBytes);
  // One that begins right after the address, or the one before.
  for (int n = 0; n < 2 && next != all.by_base.begin(); ++n) {
    const Block& of = (--next)->second->block();
    const uintptr_t first = Number(of.base) - kPageBytes;
    if (at < first || at - first >= 2 * kPageBytes + of.reserved) continue;
    *block = of;
    return true;
  }
  return false;
}

}  // namespace flashacl::acl
