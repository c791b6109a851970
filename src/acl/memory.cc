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
#include <vector>

#include "acl/address_number.h"
#include "acl/backend.h"
#include "acl/closed_memory.h"
#include "acl/environment.h"
#include "acl/finding.h"
#include "acl/init.h"
#include "acl/initcheck.h"
#include "acl/quarantine.h"
#include "acl/red_zone.h"
#include "acl/say.h"
#include "base/fork.h"
#include "base/once.h"
#include "base/str.h"
#include "plan/host_memory.h"

namespace flashacl::acl {
namespace {

struct Allocation {
  Block block;
  std::shared_ptr<const void> owner;  // of its bytes
  // Returned when destroyed, or when others cannot have the bytes yet.
  mutable size_t device_bytes = 0;
  bool has_zones = false;                   // see red_zone.h
  mutable std::shared_ptr<BlockFile> file;  // or null; under FilesMutex
  std::unique_ptr<Door> door;               // null: open; goes first
  ~Allocation();
};

size_t BytesOf(const Block& block) { return block.reserved + kSlackBytes; }

Memory& MemoryOf(BlockKind kind) {
  return kind == BlockKind::kDevice ? DeviceMemory() : HostMemory::Get();
}

// What work keeps of a block, which is open meanwhile.
std::shared_ptr<const void> ToUse(std::shared_ptr<const Allocation> block) {
  Door* const door = block->door.get();
  if (door == nullptr) return block;
  door->Use();
  return {door, [block = std::move(block)](Door* used) { used->Leave(); }};
}

Allocation::~Allocation() {
  door = nullptr;
  ReturnDeviceBytes(device_bytes);
  if (file == nullptr) return;
  file->exported = nullptr;
  if (DeviceMemory().LeaveFile(block.base, BytesOf(block))) return;
  // Kept for ever, without asking for memory: what holds itself.
  file->never_released = std::move(owner);
  file->itself = file;
}

using Blocks = std::map<uintptr_t, std::shared_ptr<const Allocation>>;

struct BlockTable {
  ProcessWide<std::shared_mutex> mutex;
  Blocks blocks;  // by base
};

// Never destroyed: programs free memory from destructors that run at exit.
BlockTable& TheBlockTable() {
  static constinit MadeOnce<BlockTable> table;
  return table.Get([] {
    AddLeakReporter(&AppendMemoryLeaks);
    return BlockTable();
  });
}

ProcessMutex& FilesMutex() {
  static constinit MadeOnce<ProcessMutex> mutex;
  return *mutex;
}

std::atomic<size_t> device_bytes_taken{0};
std::atomic<size_t> device_bytes_peak{0};

bool Holds(const Blocks::value_type& entry, uintptr_t at) {
  return at - entry.first < entry.second->block.reserved;
}

// The entry whose reserved bytes hold `at`, or the end.
Blocks::const_iterator Lookup(const Blocks& blocks, uintptr_t at) {
  auto next = blocks.upper_bound(at);
  if (next == blocks.begin()) return blocks.end();
  --next;
  return Holds(*next, at) ? next : blocks.end();
}

// Bytes from `at`, which the block holds, to its end.
size_t LeftIn(const Block& block, uintptr_t at) {
  const size_t end = TheEnvironment().strict ? block.size : block.reserved;
  const size_t offset = at - Number(block.base);
  return end - std::min(end, offset);
}

// The first block that begins inside of a range; null if none does.
const Block* Next(const Blocks& blocks, const ByteRange& range) {
  const auto next = blocks.upper_bound(Number(range.first));
  if (next == blocks.end()) return nullptr;
  const bool reaches = next->first - Number(range.first) < range.bytes;
  return reaches ? &next->second->block : nullptr;
}

// The block after whose end, and before another begins, an address lies, by no
// more than the zeros there; null if there is none.
const Block* JustBefore(const Blocks& blocks, uintptr_t at) {
  const auto next = blocks.upper_bound(at);
  if (next == blocks.begin()) return nullptr;
  const Block& block = std::prev(next)->second->block;
  const bool zeros =
      block.kind == BlockKind::kDevice || block.kind == BlockKind::kHost;
  const bool near = at - Number(block.base) < block.reserved + kSlackBytes;
  return zeros && near ? &block : nullptr;
}

// Where a range lies that begins in no block, and the block that it is near.
std::pair<Placement, const Block*> Outside(const Blocks& blocks,
                                           const ByteRange& range) {
  const Block* const before = JustBefore(blocks, Number(range.first));
  if (before != nullptr) return {Placement::kPastEnd, before};
  const Block* const next = Next(blocks, range);
  return {next != nullptr ? Placement::kRunsInto : Placement::kUnknown, next};
}

// Makes *at the mapped block that follows a mapped one without a gap; false if
// there is none.
bool Follow(const Blocks& blocks, Blocks::const_iterator* at) {
  const Block& before = (*at)->second->block;
  if (before.kind != BlockKind::kMapped || ++*at == blocks.end()) return false;
  const Block& next = (*at)->second->block;
  return next.kind == BlockKind::kMapped &&
         next.base == before.base + before.reserved;
}

// False if a block is in the way.
bool Insert(std::shared_ptr<const Allocation> allocation) {
  BlockTable& table = TheBlockTable();
  const uintptr_t first = Number(allocation->block.base);
  const uintptr_t last = first + allocation->block.reserved;
  std::unique_lock lock(table.mutex);
  const auto next = table.blocks.lower_bound(first);
  if (next != table.blocks.end() && next->first < last) return false;
  if (Lookup(table.blocks, first) != table.blocks.end()) return false;
  table.blocks.emplace_hint(next, first, std::move(allocation));
  return true;
}

void TellDamageAtExit() {
  const std::string damage = DamageOfAll();
  if (damage.empty()) return;
  CountFinding();
  Log(Level::kError, "memcheck", Str("at exit: {}", damage));
}

}  // namespace

bool FindBlock(const void* address, Block* block) {
  BlockTable& table = TheBlockTable();
  std::shared_lock lock(table.mutex);
  auto found = Lookup(table.blocks, Number(address));
  if (found == table.blocks.end()) return false;
  *block = found->second->block;
  while (Follow(table.blocks, &found)) {
    block->reserved += found->second->block.reserved;
    block->size = block->reserved;
  }
  return true;
}

void BlockUse::Keep(const std::shared_ptr<const void>& allocation) {
  if (first_ == nullptr) {
    first_ = allocation;
  } else {
    others_.push_back(allocation);
  }
}

BlockUse::BlockUse(std::span<const void* const> addresses) {
  if (addresses.size() > 1) others_.reserve(addresses.size() - 1);
  BlockTable& table = TheBlockTable();
  std::shared_lock lock(table.mutex);
  for (const void* address : addresses) {
    const auto found = Lookup(table.blocks, Number(address));
    if (found != table.blocks.end()) Keep(ToUse(found->second));
  }
}

BlockUse::BlockUse(std::span<const ByteRange> ranges, Told told) {
  if (ranges.size() > 1) others_.reserve(ranges.size() - 1);
  BlockTable& table = TheBlockTable();
  std::shared_lock lock(table.mutex);
  const Blocks& blocks = table.blocks;
  auto found = blocks.end();
  for (size_t n = 0; n < ranges.size(); ++n) {
    const ByteRange& range = ranges[n];
    if (range.first == nullptr || range.bytes == 0) continue;
    // Frameworks cut many tensors out of one block.
    const uintptr_t first = Number(range.first);
    if (found == blocks.end() || !Holds(*found, first)) {
      found = Lookup(blocks, first);
      if (found != blocks.end()) Keep(ToUse(found->second));
    }
    if (found == blocks.end()) {
      const auto [at, block] = Outside(blocks, range);
      told(n, at, block);
      continue;
    }
    size_t left = LeftIn(found->second->block, first);
    for (auto next = found; left < range.bytes && Follow(blocks, &next);) {
      Keep(ToUse(next->second));
      left += next->second->block.reserved;
    }
    told(n, range.bytes <= left ? Placement::kInside : Placement::kPastEnd,
         &found->second->block);
  }
}

std::byte* AllocateBlock(const BlockRequest& request) {
  constexpr size_t kNoSystemHasMore = size_t{1} << 48;
  if (request.reserved < request.size || request.reserved > kNoSystemHasMore) {
    return nullptr;
  }
  const bool strict = TheEnvironment().strict;
  auto allocation = std::make_shared<Allocation>();
  if (request.kind == BlockKind::kDevice) {
    if (!TakeDeviceBytes(request.reserved)) return nullptr;
    allocation->device_bytes = request.reserved;
  }
  Memory& memory = MemoryOf(request.kind);
  const size_t front = strict ? kFrontZoneBytes : 0;
  const MemoryRequest wanted{
      .bytes = front + request.size,
      .zeros = request.reserved - request.size + kSlackBytes,
      .huge_pages = request.huge,
      .own_pages = strict || (request.kind == BlockKind::kDevice &&
                              request.size >= kOwnPagesBytes)};
  std::shared_ptr<std::byte> bytes = memory.Allocate(wanted);
  if (bytes == nullptr && strict) {
    EmptyQuarantine();
    bytes = memory.Allocate(wanted);
  }
  if (bytes == nullptr) return nullptr;
  std::byte* const base = bytes.get() + front;
  allocation->owner = std::move(bytes);
  allocation->block = {base,
                       request.size,
                       request.reserved,
                       request.kind,
                       request.huge,
                       request.device_id,
                       CallSiteOf(request.function)};
  if (strict) {
    FillNewBlock(memory, allocation->block);
    JudgeAtExit(&TellDamageAtExit);
  }
  allocation->has_zones = strict;
  if (strict) allocation->door = Door::Of(allocation->block);
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
  BlockTable& table = TheBlockTable();
  std::unique_lock lock(table.mutex);
  const auto found = table.blocks.find(Number(base));
  if (found == table.blocks.end()) return false;
  if (found->second->block.kind != kind) return false;
  *size = found->second->block.size;
  last = found->second;
  table.blocks.erase(found);
  lock.unlock();
  ForgetAccesses(base, *size);
  return true;
}

FreeResult FreeBlock(const void* base, BlockKind kind,
                     std::string_view function) {
  const bool strict = TheEnvironment().strict;
  std::shared_ptr<const Allocation> last;  // released without the lock
  BlockTable& table = TheBlockTable();
  std::unique_lock lock(table.mutex);
  const auto found = Lookup(table.blocks, Number(base));
  if (found == table.blocks.end()) return FreeResult::kUnknown;
  if (found->second->block.kind != kind) return FreeResult::kKind;
  if (found->second->block.base != base) return FreeResult::kInterior;
  if (strict && found->second.use_count() > 1) return FreeResult::kInUse;
  last = found->second;
  table.blocks.erase(found);
  lock.unlock();
  ForgetAccesses(base, last->block.size);
  ForgetWritten(base, last->block.size);
  if (last->has_zones && last->file == nullptr) {
    ReturnDeviceBytes(std::exchange(last->device_bytes, 0));
    const Block block = last->block;
    Quarantine({block, CallSiteOf(function)}, std::move(last));
  }
  return FreeResult::kFreed;
}

std::string DamageOf(const void* base) {
  if (!TheEnvironment().strict) return {};
  BlockTable& table = TheBlockTable();
  std::shared_lock lock(table.mutex);
  const auto found = table.blocks.find(Number(base));
  if (found == table.blocks.end() || !found->second->has_zones) return {};
  const Block& block = found->second->block;
  const std::shared_ptr<const void> open = ToUse(found->second);
  const std::string damage = DamageAround(MemoryOf(block.kind), block);
  return damage.empty()
             ? damage
             : Str("around the block of {} bytes at {}, which {} "
                   "made, {} were written",
                   Grouped(block.size), static_cast<const void*>(block.base),
                   ToString(block.made), damage);
}

std::string DamageOfAll() {
  std::vector<const void*> bases;
  {
    BlockTable& table = TheBlockTable();
    std::shared_lock lock(table.mutex);
    for (const auto& [base, allocation] : table.blocks) {
      if (allocation->has_zones) bases.push_back(allocation->block.base);
    }
  }
  std::string all;
  for (const void* base : bases) {
    const std::string damage = DamageOf(base);
    if (!damage.empty()) all += Str("{}{}", all.empty() ? "" : "; ", damage);
  }
  return all;
}

BlockFile::~BlockFile() {
  if (file >= 0) close(file);
}

std::shared_ptr<BlockFile> MoveBlockToFile(const void* base) {
  std::shared_ptr<const Allocation> found;
  {
    BlockTable& table = TheBlockTable();
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
    BlockTable& table = TheBlockTable();
    std::shared_lock lock(table.mutex);
    const auto at = table.blocks.find(Number(base));
    if (at == table.blocks.end()) return false;
    found = at->second;
  }
  std::lock_guard lock(FilesMutex());
  return found->file != nullptr;
}

bool IsBlockUsed(const void* address) {
  BlockTable& table = TheBlockTable();
  std::shared_lock lock(table.mutex);
  const auto found = Lookup(table.blocks, Number(address));
  return found != table.blocks.end() && found->second.use_count() > 1;
}

size_t DeviceBytes() {
  static constinit MadeOnce<const size_t> bytes;
  return bytes.Get([] {
    constexpr size_t kMax = size_t{64} << 30;
    const long pages = sysconf(_SC_PHYS_PAGES);
    const long page_bytes = sysconf(_SC_PAGESIZE);
    return pages <= 0 ? kMax
                      : std::min(kMax, static_cast<size_t>(pages) *
                                           static_cast<size_t>(page_bytes));
  });
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
    BlockTable& table = TheBlockTable();
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

// The largest first: where they lie differs from run to run.
std::string LeakedBlocks() {
  constexpr size_t kMost = 8;
  std::string text;
  BlockTable& table = TheBlockTable();
  std::shared_lock lock(table.mutex);
  std::vector<const Block*> leaked;
  for (const auto& [base, allocation] : table.blocks) {
    const Block& block = allocation->block;
    if (!block.made.function.empty()) leaked.push_back(&block);
  }
  std::stable_sort(
      leaked.begin(), leaked.end(),
      [](const Block* a, const Block* b) { return a->size > b->size; });
  for (size_t n = 0; n < leaked.size(); ++n) {
    if (n == kMost) return text + "\n  ...";
    text += Str("\n  {} bytes at {}: {}", Grouped(leaked[n]->size),
                static_cast<const void*>(leaked[n]->base),
                ToString(leaked[n]->made));
  }
  return text;
}

}  // namespace flashacl::acl
