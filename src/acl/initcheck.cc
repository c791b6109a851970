// SPDX-License-Identifier: Apache-2.0
#include "acl/initcheck.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>

#include "acl/closed_memory.h"
#include "acl/environment.h"
#include "acl/finding.h"
#include "acl/memory.h"
#include "acl/red_zone.h"
#include "acl/say.h"
#include "base/fork.h"
#include "base/once.h"
#include "base/str.h"

namespace flashacl::acl {
namespace {

using WrittenRanges =
    std::map<const std::byte*, const std::byte*>;  // first, end

struct WrittenState {
  ProcessMutex mutex;
  WrittenRanges written;  // apart from each other
  std::set<const std::byte*> told;
};

WrittenState& TheWrittenState() {
  static constinit MadeOnce<WrittenState> state;
  return *state;
}

void Add(WrittenRanges& ranges, const std::byte* first, const std::byte* end) {
  auto next = ranges.upper_bound(first);
  if (next != ranges.begin() && std::prev(next)->second >= first) --next;
  while (next != ranges.end() && next->first <= end) {
    first = std::min(first, next->first);
    end = std::max(end, next->second);
    next = ranges.erase(next);
  }
  ranges.emplace(first, end);
}

void Remove(WrittenRanges& ranges, const std::byte* first,
            const std::byte* end) {
  auto next = ranges.upper_bound(first);
  if (next != ranges.begin()) --next;
  while (next != ranges.end() && next->first < end) {
    const auto [from, to] = *next;
    next = to > first ? ranges.erase(next) : std::next(next);
    if (from < first && to > first) ranges.emplace(from, first);
    if (to > end) ranges.emplace(end, to);
  }
}

// The first byte of a run that nobody has written; its end if there is none.
const std::byte* Unwritten(const WrittenRanges& ranges, const std::byte* first,
                           const std::byte* end) {
  auto next = ranges.upper_bound(first);
  if (next == ranges.begin()) return first;
  --next;
  return next->second <= first ? first : std::min(next->second, end);
}

// The first byte of a view that is still as a new block has it.
const std::byte* FirstUntouched(const WrittenRanges& ranges,
                                const ByteView& view) {
  const std::byte* found = nullptr;
  (void)view.ForRuns([&](const std::byte* first, size_t bytes) {
    const std::byte* const end = first + bytes;
    for (const std::byte* at = Unwritten(ranges, first, end); at < end;
         at = Unwritten(ranges, at, end)) {
      if (*at == kNewByte) {
        found = at;
        return false;
      }
      ++at;
    }
    return true;
  });
  return found;
}

// Its first byte, if all of a view is still as a new block has it. Where the
// program's own operators write unseen, single bytes prove nothing: numbers
// have such bytes, too.
const std::byte* WhollyUntouched(const WrittenRanges& ranges,
                                 const ByteView& view) {
  bool all = true;
  (void)view.ForRuns([&](const std::byte* first, size_t bytes) {
    const std::byte* const end = first + bytes;
    const auto next = ranges.upper_bound(first);
    const bool noted = Unwritten(ranges, first, end) != first ||
                       (next != ranges.end() && next->first < end);
    const auto used = [](std::byte byte) { return byte != kNewByte; };
    all = !noted && std::find_if(first, end, used) == end;
    return all;
  });
  return all ? view.first : nullptr;
}

bool IsFilled(const ByteView& view, Block* block) {
  return !view.empty() && FindBlock(view.first, block) &&
         block->kind == BlockKind::kDevice;
}

void Tell(std::string_view operation, const Access& access, const Block& block,
          const std::byte* at) {
  CountFinding();
  Log(Level::kWarning, "initcheck",
      Str("{}: {} has {} bytes at {} that are read before anybody wrote them, "
          "from {} on: byte {} of the block of {} bytes that {} made",
          operation, access.name, Grouped(access.view.bytes()),
          static_cast<const void*>(access.view.first),
          static_cast<const void*>(at), at - block.base, Grouped(block.size),
          ToString(block.made)));
}

}  // namespace

void CheckInitialised(std::string_view operation,
                      std::span<const Access> accesses) {
  if (!TheEnvironment().strict) return;
  WrittenState& state = TheWrittenState();
  std::lock_guard lock(state.mutex);
  for (const Access& access : accesses) {
    Block block;
    if (!access.reads || !IsFilled(access.view, &block)) continue;
    const std::byte* const at =
        (ClosesDeviceMemory() ? FirstUntouched : WhollyUntouched)(state.written,
                                                                  access.view);
    if (at == nullptr || !state.told.insert(access.view.first).second) continue;
    Tell(operation, access, block, at);
  }
  for (const Access& access : accesses) {
    Block block;
    if (!access.writes || !IsFilled(access.view, &block)) continue;
    (void)access.view.ForRuns([&](const std::byte* first, size_t bytes) {
      Add(state.written, first, first + bytes);
      return true;
    });
  }
}

void NoteWritten(const ByteView& view) {
  Block block;
  if (!TheEnvironment().strict || !IsFilled(view, &block)) return;
  WrittenState& state = TheWrittenState();
  std::lock_guard lock(state.mutex);
  (void)view.ForRuns([&](const std::byte* first, size_t bytes) {
    Add(state.written, first, first + bytes);
    return true;
  });
}

void ForgetWritten(const void* base, size_t bytes) {
  if (!TheEnvironment().strict) return;
  const auto* const first = static_cast<const std::byte*>(base);
  WrittenState& state = TheWrittenState();
  std::lock_guard lock(state.mutex);
  Remove(state.written, first, first + bytes);
  state.told.erase(state.told.lower_bound(first),
                   state.told.lower_bound(first + bytes));
}

}  // namespace flashacl::acl
