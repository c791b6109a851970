// SPDX-License-Identifier: Apache-2.0
// The table of blocks. Freed ones go back at once; what is left at aclFinalize
// stays valid, because programs still read and free it then.
#include "acl/memory.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <utility>

#include "acl/backend.h"
#include "acl/environment.h"
#include "acl/init.h"
#include "base/fork.h"
#include "base/str.h"
#include "plan/host_memory.h"

namespace flashacl::acl {
namespace {

struct Allocation {
  Block block;
  std::shared_ptr<const void> owner;        // of its bytes
  size_t device_bytes = 0;                  // returned when destroyed
  mutable std::shared_ptr<BlockFile> file;  // or null; under FilesMutex
  ~Allocation();
};

size_t BytesOf(const Block& block) { return block.reserved + kSlackBytes; }

Allocation::~Allocation() {
  ReturnDeviceBytes(device_bytes);
  if (file == nullptr) return;
  file->exported = nullptr;
  if (DeviceMemory().LeaveFile(block.base, BytesOf(block))) return;
  // Kept for ever, without asking for memory: what holds itself.
  file->never_released = std::move(owner);
  file->itself = file;
}

using Blocks = std::map<uintptr_t, std::shared_ptr<const Allocation>>;

struct Table {
  ProcessWide<std::shared_mutex> mutex;
  Blocks blocks;  // by base
};

// Never destroyed: programs free memory from destructors that run at exit.
Table& TheTable() {
  static Table& table = *[] {
    AddLeakReporter(&AppendMemoryLeaks);
    return new Table;
  }();
  return table;
}

ProcessMutex& FilesMutex() {
  static ProcessMutex& mutex = *new ProcessMutex;
  return mutex;
}

std::atomic<size_t> device_bytes_taken{0};
std::atomic<size_t> device_bytes_peak{0};

uintptr_t Number(const void* address) {
  return reinterpret_cast<uintptr_t>(address);
}

// The entry whose reserved bytes hold `at`, or the end.
Blocks::const_iterator Lookup(const Blocks& blocks, uintptr_t at) {
  auto next = blocks.upper_bound(at);
  if (next == blocks.begin()) return blocks.end();
  --next;
  return at - next->first < next->second->block.reserved ? next : blocks.end();
}

// False if a block is in the way.
bool Insert(std::shared_ptr<const Allocation> allocation) {
  Table& table = TheTable();
  const uintptr_t first = Number(allocation->block.base);
  const uintptr_t last = first + allocation->block.reserved;
  std::unique_lock lock(table.mutex);
  const auto next = table.blocks.lower_bound(first);
  if (next != table.blocks.end() && next->first < last) return false;
  if (Lookup(table.blocks, first) != table.blocks.end()) return false;
  table.blocks.emplace_hint(next, first, std::move(allocation));
  return true;
}

}  // namespace

bool FindBlock(const void* address, Block* block) {
  Table& table = TheTable();
  std::shared_lock lock(table.mutex);
  auto found = Lookup(table.blocks, Number(address));
  if (found == table.blocks.end()) return false;
  *block = found->second->block;
  if (block->kind != BlockKind::kMapped) return true;
  for (++found; found != table.blocks.end(); ++found) {
    const Block& next = found->second->block;
    if (next.kind != BlockKind::kMapped) break;
    if (next.base != block->base + block->reserved) break;
    block->reserved += next.reserved;
    block->size = block->reserved;
  }
  return true;
}

BlockUse::BlockUse(std::span<const void* const> addresses) {
  if (addresses.size() > 1) others_.reserve(addresses.size() - 1);
  Table& table = TheTable();
  std::shared_lock lock(table.mutex);
  for (const void* address : addresses) {
    const auto found = Lookup(table.blocks, Number(address));
    if (found == table.blocks.end()) continue;
    if (first_ == nullptr) {
      first_ = found->second;
    } else {
      others_.push_back(found->second);
    }
  }
}

std::byte* AllocateBlock(const BlockRequest& request) {
  constexpr size_t kNoSystemHasMore = size_t{1} << 48;
  if (request.reserved < request.size || request.reserved > kNoSystemHasMore) {
    return nullptr;
  }
  auto allocation = std::make_shared<Allocation>();
  if (request.kind == BlockKind::kDevice) {
    if (!TakeDeviceBytes(request.reserved)) return nullptr;
    allocation->device_bytes = request.reserved;
  }
  Memory& memory =
      request.kind == BlockKind::kDevice ? DeviceMemory() : HostMemory::Get();
  const std::shared_ptr<std::byte> bytes =
      memory.Allocate({.bytes = request.size,
                       .zeros = request.reserved - request.size + kSlackBytes,
                       .huge_pages = request.huge,
                       .own_pages = request.kind == BlockKind::kDevice &&
                                    request.size >= kOwnPagesBytes});
  if (bytes == nullptr) return nullptr;
  std::byte* const base = bytes.get();
  allocation->owner = bytes;
  allocation->block = {base,         request.size, request.reserved,
                       request.kind, request.huge, request.device_id};
  return Insert(std::move(allocation)) ? base : nullptr;
}

bool AddMapped(std::byte* base, const BlockRequest& request,
               std::shared_ptr<const void> owner) {
  auto allocation = std::make_shared<Allocation>();
  allocation->block = {base,         request.size, request.size,
                       request.kind, request.huge, request.device_id};
  allocation->owner = std::move(owner);
  return Insert(std::move(allocation));
}

bool RemoveMapped(const void* base, BlockKind kind, size_t* size) {
  std::shared_ptr<const Allocation> last;  // released without the lock
  Table& table = TheTable();
  std::unique_lock lock(table.mutex);
  const auto found = table.blocks.find(Number(base));
  if (found == table.blocks.end()) return false;
  if (found->second->block.kind != kind) return false;
  *size = found->second->block.size;
  last = found->second;
  table.blocks.erase(found);
  return true;
}

FreeResult FreeBlock(const void* base, BlockKind kind) {
  const bool strict = TheEnvironment().strict;
  std::shared_ptr<const Allocation> last;  // released without the lock
  Table& table = TheTable();
  std::unique_lock lock(table.mutex);
  const auto found = Lookup(table.blocks, Number(base));
  if (found == table.blocks.end()) return FreeResult::kUnknown;
  if (found->second->block.kind != kind) return FreeResult::kKind;
  if (found->second->block.base != base) return FreeResult::kInterior;
  if (strict && found->second.use_count() > 1) return FreeResult::kInUse;
  last = found->second;
  table.blocks.erase(found);
  lock.unlock();
  return FreeResult::kFreed;
}

BlockFile::~BlockFile() {
  if (file >= 0) close(file);
}

std::shared_ptr<BlockFile> MoveBlockToFile(const void* base) {
  std::shared_ptr<const Allocation> found;
  {
    Table& table = TheTable();
    std::shared_lock lock(table.mutex);
    const auto at = table.blocks.find(Number(base));
    if (at != table.blocks.end()) found = at->second;
  }
  errno = EINVAL;
  if (found == nullptr || found->block.kind != BlockKind::kDevice ||
      found->block.size < kOwnPagesBytes) {
    return nullptr;
  }
  std::lock_guard lock(FilesMutex());
  if (found->file != nullptr) return found->file;
  // With a place for it: a file that nobody closes would stay for ever.
  auto file = std::make_shared<BlockFile>(MemoryFile());
  static_cast<MemoryFile&>(*file) =
      DeviceMemory().MoveToFile(found->block.base, BytesOf(found->block));
  if (file->file < 0) return nullptr;
  found->file = file;
  return file;
}

bool IsBlockInFile(const void* base) {
  std::shared_ptr<const Allocation> found;
  {
    Table& table = TheTable();
    std::shared_lock lock(table.mutex);
    const auto at = table.blocks.find(Number(base));
    if (at == table.blocks.end()) return false;
    found = at->second;
  }
  std::lock_guard lock(FilesMutex());
  return found->file != nullptr;
}

bool IsBlockUsed(const void* address) {
  Table& table = TheTable();
  std::shared_lock lock(table.mutex);
  const auto found = Lookup(table.blocks, Number(address));
  return found != table.blocks.end() && found->second.use_count() > 1;
}

size_t DeviceBytes() {
  static const size_t bytes = [] {
    constexpr size_t kMax = size_t{64} << 30;
    const long pages = sysconf(_SC_PHYS_PAGES);
    const long page_bytes = sysconf(_SC_PAGESIZE);
    return pages <= 0 ? kMax
                      : std::min(kMax, static_cast<size_t>(pages) *
                                           static_cast<size_t>(page_bytes));
  }();
  return bytes;
}

size_t FreeDeviceBytes() { return DeviceBytes() - TakenDeviceBytes(); }

size_t TakenDeviceBytes() {
  return device_bytes_taken.load(std::memory_order_relaxed);
}

size_t PeakDeviceBytes() {
  return std::max(device_bytes_peak.load(std::memory_order_relaxed),
                  TakenDeviceBytes());
}

bool TakeDeviceBytes(size_t bytes) {
  size_t taken = device_bytes_taken.load(std::memory_order_relaxed);
  do {
    if (bytes > DeviceBytes() - taken) return false;
  } while (!device_bytes_taken.compare_exchange_weak(
      taken, taken + bytes, std::memory_order_relaxed));
  size_t peak = device_bytes_peak.load(std::memory_order_relaxed);
  while (peak < taken + bytes &&
         !device_bytes_peak.compare_exchange_weak(peak, taken + bytes,
                                                  std::memory_order_relaxed)) {
  }
  return true;
}

void ReturnDeviceBytes(size_t bytes) {
  device_bytes_taken.fetch_sub(bytes, std::memory_order_relaxed);
}

void AppendMemoryLeaks(std::string* text) {
  static constexpr const char* kNames[] = {"device", "host", "mapped",
                                           "imported"};
  size_t count[4] = {};
  size_t bytes[4] = {};
  {
    Table& table = TheTable();
    std::shared_lock lock(table.mutex);
    for (const auto& [base, allocation] : table.blocks) {
      const size_t kind = static_cast<size_t>(allocation->block.kind);
      ++count[kind];
      bytes[kind] += allocation->block.size;
    }
  }
  for (size_t kind = 0; kind < 4; ++kind) {
    if (count[kind] == 0) continue;
    *text += Str("{}{} {} block{} ({} bytes)", text->empty() ? "" : ", ",
                 count[kind], kNames[kind], count[kind] == 1 ? "" : "s",
                 bytes[kind]);
  }
}

}  // namespace flashacl::acl
