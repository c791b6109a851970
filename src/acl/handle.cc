// SPDX-License-Identifier: Apache-2.0
#include "acl/handle.h"

#include <atomic>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "acl/call_site.h"
#include "acl/error.h"
#include "base/fork.h"
#include "base/once.h"
#include "base/str.h"
#include "base/tsan.h"

namespace flashacl::acl {
namespace {

// A handle from its highest bit down: 8 bits of mark, 5 of kind, 27 of
// generation, 24 of index. The mark makes it an address outside of what user
// programs get on any 64-bit machine we know.
constexpr uint64_t kMark = 0xAC;
constexpr int kIndexBits = 24;
constexpr int kGenerationBits = 27;
constexpr int kKindBits = 5;
constexpr int kKindShift = kIndexBits + kGenerationBits;
constexpr uint32_t kLastGeneration = (uint32_t{1} << kGenerationBits) - 1;
constexpr uint32_t kSlotsPerChunk = 4096;
constexpr uint32_t kChunks = (uint32_t{1} << kIndexBits) / kSlotsPerChunk;
constexpr uint32_t kNoSlot = ~uint32_t{0};
static_assert(kHandleKinds <= 1 << kKindBits);
static_assert(kKindShift + kKindBits == 56);

struct Parts {
  uint64_t mark;
  HandleKind kind;
  uint32_t generation;
  uint32_t index;
};

uint64_t Bits(const void* handle) {
  return reinterpret_cast<uintptr_t>(handle);
}

Parts Decode(const void* handle) {
  const uint64_t bits = Bits(handle);
  return {
      bits >> 56,
      static_cast<HandleKind>((bits >> kKindShift) & ((1u << kKindBits) - 1)),
      static_cast<uint32_t>(bits >> kIndexBits) & kLastGeneration,
      static_cast<uint32_t>(bits) & ((1u << kIndexBits) - 1)};
}

void* Encode(HandleKind kind, uint32_t generation, uint32_t index) {
  const uint64_t bits = kMark << 56 |
                        uint64_t{static_cast<uint8_t>(kind)} << kKindShift |
                        uint64_t{generation} << kIndexBits | index;
  return reinterpret_cast<void*>(static_cast<uintptr_t>(bits));
}

// A lock for the few instructions it takes to copy a shared_ptr.
class SpinLock {
 public:
  void lock() {
    while (flag_.test_and_set(std::memory_order_acquire)) {
      std::this_thread::yield();
    }
    TsanAcquire(this);
  }
  void unlock() {
    TsanRelease(this);
    flag_.clear(std::memory_order_release);
  }

 private:
  std::atomic_flag flag_ = ATOMIC_FLAG_INIT;
};

struct HandleSlot {
  // Of the process that made the handle: others find nothing here, and do not
  // take the lock, which a thread of the parent may hold for ever.
  std::atomic<uint32_t> process{0};
  SpinLock lock;  // guards what follows
  bool live = false;
  HandleKind kind = HandleKind::kCount;
  uint32_t generation = 0;
  std::shared_ptr<void> object;
  const void* made_from = nullptr;  // see call_site.h
  uint32_t next_free = kNoSlot;     // guarded by Slots::mutex
};

struct Slots {
  std::array<std::atomic<HandleSlot*>, kChunks> chunks{};
  std::array<std::atomic<int64_t>, kHandleKinds> live{};
  std::atomic<uint32_t> process{0};  // whose handles `live` counts

  ProcessMutex mutex;  // guards what follows
  uint32_t used = 0;
  // Oldest first, so that a generation lasts as long as possible.
  uint32_t first_free = kNoSlot;
  uint32_t last_free = kNoSlot;
};

Slots& TheSlots() {
  static constinit MadeOnce<Slots> table;
  return *table;
}

HandleSlot* SlotAt(Slots& table, uint32_t index) {
  HandleSlot* chunk =
      table.chunks[index / kSlotsPerChunk].load(std::memory_order_acquire);
  return chunk == nullptr ? nullptr : &chunk[index % kSlotsPerChunk];
}

// A slot that is not live, or kNoSlot.
uint32_t Allocate(Slots& table) {
  std::lock_guard lock(table.mutex);
  if (table.process.exchange(ForkGeneration()) != ForkGeneration()) {
    for (std::atomic<int64_t>& count : table.live) count.store(0);
  }
  if (table.first_free != kNoSlot) {
    const uint32_t index = table.first_free;
    table.first_free = SlotAt(table, index)->next_free;
    if (table.first_free == kNoSlot) table.last_free = kNoSlot;
    return index;
  }
  if (table.used == kChunks * kSlotsPerChunk) return kNoSlot;
  std::atomic<HandleSlot*>& chunk = table.chunks[table.used / kSlotsPerChunk];
  if (chunk.load(std::memory_order_relaxed) == nullptr) {
    chunk.store(new HandleSlot[kSlotsPerChunk], std::memory_order_release);
  }
  return table.used++;
}

void Release(Slots& table, uint32_t index) {
  std::lock_guard lock(table.mutex);
  SlotAt(table, index)->next_free = kNoSlot;
  if (table.last_free == kNoSlot) {
    table.first_free = index;
  } else {
    SlotAt(table, table.last_free)->next_free = index;
  }
  table.last_free = index;
}

// The slot a well-formed handle of `kind` names; null for anything else.
HandleSlot* SlotOf(Slots& table, HandleKind kind, const void* handle) {
  const Parts parts = Decode(handle);
  if (parts.mark != kMark || parts.kind != kind) return nullptr;
  return SlotAt(table, parts.index);
}

bool IsOfThisProcess(const HandleSlot& slot) {
  return slot.process.load(std::memory_order_relaxed) == ForkGeneration();
}

// Takes over a slot that a parent of this process used last.
void TakeOver(HandleSlot& slot) {
  if (IsOfThisProcess(slot)) return;
  slot.lock.unlock();
  slot.process.store(ForkGeneration(), std::memory_order_relaxed);
}

}  // namespace

std::string_view Name(HandleKind kind) {
  constexpr std::array<std::string_view, kHandleKinds> kNames = {
      "context",
      "stream",
      "event",
      "tensor",
      "scalar",
      "int array",
      "float array",
      "bool array",
      "tensor list",
      "scalar list",
      "executor",
      "data buffer",
      "physical memory",
      "graph",
      "task group",
      "condition handle",
      "tensor description",
      "set of attributes",
      "data item",
      "dataset",
      "graph dump option",
      "notify",
      "profile configuration",
      "stamp",
      "step information",
      "label",
      "list of labels"};
  return kNames[static_cast<size_t>(kind)];
}

void* NewHandle(HandleKind kind, std::shared_ptr<void> object) {
  Slots& table = TheSlots();
  const uint32_t index = Allocate(table);
  if (index == kNoSlot) return nullptr;
  HandleSlot& slot = *SlotAt(table, index);
  TakeOver(slot);
  table.live[static_cast<size_t>(kind)].fetch_add(1);
  const CallSite site = CallSiteOf({});
  std::lock_guard lock(slot.lock);
  slot.live = true;
  slot.made_from = site.from;
  slot.kind = kind;
  slot.object = std::move(object);
  return Encode(kind, slot.generation, index);
}

std::shared_ptr<void> FindHandle(HandleKind kind, const void* handle) {
  HandleSlot* slot = SlotOf(TheSlots(), kind, handle);
  if (slot == nullptr || !IsOfThisProcess(*slot)) return nullptr;
  const Parts parts = Decode(handle);
  std::lock_guard lock(slot->lock);
  const bool found =
      slot->live && slot->kind == kind && slot->generation == parts.generation;
  return found ? slot->object : nullptr;
}

std::shared_ptr<void> TakeHandle(HandleKind kind, const void* handle) {
  Slots& table = TheSlots();
  HandleSlot* slot = SlotOf(table, kind, handle);
  if (slot == nullptr || !IsOfThisProcess(*slot)) return nullptr;
  const Parts parts = Decode(handle);
  std::shared_ptr<void> object;
  bool reusable = false;
  {
    std::lock_guard lock(slot->lock);
    if (!slot->live || slot->kind != kind ||
        slot->generation != parts.generation) {
      return nullptr;
    }
    slot->live = false;
    object = std::move(slot->object);
    reusable = slot->generation < kLastGeneration;
    // The last generation stays as it is: not live, and never given out again.
    if (reusable) ++slot->generation;
  }
  table.live[static_cast<size_t>(kind)].fetch_sub(1);
  if (reusable) Release(table, parts.index);
  return object;
}

HandleState StateOf(HandleKind kind, const void* handle) {
  HandleSlot* slot = SlotOf(TheSlots(), kind, handle);
  if (slot == nullptr) return HandleState::kForeign;
  if (!IsOfThisProcess(*slot)) return HandleState::kParents;
  const Parts parts = Decode(handle);
  std::lock_guard lock(slot->lock);
  if (parts.generation > slot->generation) return HandleState::kForeign;
  if (parts.generation < slot->generation) return HandleState::kStale;
  if (slot->live) {
    return slot->kind == kind ? HandleState::kLive : HandleState::kForeign;
  }
  return slot->generation == kLastGeneration ? HandleState::kStale
                                             : HandleState::kForeign;
}

std::string ExpectedInsteadOf(HandleKind kind, const void* handle) {
  const std::string_view name = Name(kind);
  const bool vowel = name.front() == 'e' || name.front() == 'i';
  const std::string_view article = vowel ? "an" : "a";
  if (StateOf(kind, handle) == HandleState::kParents) {
    return Str(
        "{} {} that this process made: fork() leaves those of the parent to "
        "it, with the threads they need. Call aclrtSetDevice in the child and "
        "make new ones there",
        article, name);
  }
  return Str("{} {} that is not destroyed", article, name);
}

aclError FailStale(HandleKind kind, std::string_view function,
                   std::string_view parameter, const void* handle) {
  return FailValue(ACL_ERROR_RT_PARAM_INVALID, function, parameter,
                   Str("{}", handle), ExpectedInsteadOf(kind, handle));
}

std::string_view IfParents(HandleKind kind, const void* handle) {
  if (StateOf(kind, handle) != HandleState::kParents) return "";
  return "; it is one of the process that forked this one: make another in the "
         "child";
}

std::array<int64_t, kHandleKinds> LiveHandles() {
  std::array<int64_t, kHandleKinds> counts{};
  if (TheSlots().process.load() != ForkGeneration()) return counts;
  for (size_t i = 0; i < counts.size(); ++i) {
    counts[i] = TheSlots().live[i].load();
  }
  return counts;
}

std::string LeakedHandles() {
  constexpr size_t kMost = 8;
  std::map<std::pair<HandleKind, const void*>, int> made;
  Slots& table = TheSlots();
  for (uint32_t index = 0; HandleSlot* const slot = SlotAt(table, index);
       ++index) {
    if (!IsOfThisProcess(*slot)) continue;
    std::lock_guard lock(slot->lock);
    if (slot->live && slot->made_from != nullptr) {
      ++made[{slot->kind, slot->made_from}];
    }
    if (index + 1 == kChunks * kSlotsPerChunk) break;
  }
  std::string text;
  size_t left = kMost;
  for (const auto& [what, count] : made) {
    if (left-- == 0) return text + "\n  ...";
    text += Str("\n  {} {}{}{}", count, Name(what.first), count == 1 ? "" : "s",
                ToString(CallSite{{}, what.second}));
  }
  return text;
}

}  // namespace flashacl::acl
