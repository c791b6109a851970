// SPDX-License-Identifier: Apache-2.0
#include "acl/racecheck.h"

#include <algorithm>
#include <deque>
#include <mutex>
#include <utility>

#include "acl/environment.h"
#include "acl/memory.h"
#include "acl/say.h"
#include "base/fork.h"
#include "base/once.h"
#include "base/str.h"

namespace flashacl::acl {
namespace {

constexpr int32_t kProgram = -1;
constexpr size_t kMostRecords = 4096;

// What somebody did; older ones of the same to the same bytes are forgotten,
// as whoever is ordered with this one is with those.
struct Record {
  int32_t by;
  uint64_t number;
  std::string operation;
  std::string name;
  ByteView view;
  bool writes;
};

struct RaceState {
  ProcessMutex mutex;
  std::map<int32_t, Knowledge> known;
  std::deque<Record> records;  // oldest first
};

RaceState& TheRaceState() {
  static constinit MadeOnce<RaceState> state;
  return *state;
}

thread_local int32_t this_one = kProgram;

bool Watching() { return TheEnvironment().strict; }

void Merge(Knowledge& into, const Knowledge& from) {
  for (const auto& [who, number] : from) {
    uint64_t& known = into[who];
    known = std::max(known, number);
  }
}

bool SameBytes(const ByteView& a, const ByteView& b) {
  return a.first == b.first && a.element == b.element && a.rank == b.rank &&
         a.dims == b.dims && a.strides == b.strides;
}

std::string Who(int32_t by, uint64_t number, std::string_view operation) {
  if (by == kProgram) return Str("{} of the program", operation);
  return Str("{} (task {} of stream {})", operation, number, by);
}

bool Races(const Record& before, const Record& now, const Knowledge& known) {
  if (before.by == now.by || (!before.writes && !now.writes)) return false;
  const auto found = known.find(before.by);
  const bool ordered = found != known.end() && found->second >= before.number;
  return !ordered && Overlap(before.view, now.view);
}

std::string Describe(const Record& before, const Record& now) {
  const auto verb = [](const Record& of) {
    return of.writes ? "writes" : "reads";
  };
  return Str(
      "race: {} {} {}, {} bytes at {}, and {} {} {}, {} bytes at {}; no event "
      "and no synchronization orders them",
      Who(now.by, now.number, now.operation), verb(now), now.name,
      Grouped(now.view.bytes()), static_cast<const void*>(now.view.first),
      Who(before.by, before.number, before.operation), verb(before),
      before.name, Grouped(before.view.bytes()),
      static_cast<const void*>(before.view.first));
}

void Keep(RaceState& state, Record record) {
  std::erase_if(state.records, [&](const Record& old) {
    return old.by == record.by && old.writes == record.writes &&
           SameBytes(old.view, record.view);
  });
  state.records.push_back(std::move(record));
  if (state.records.size() > kMostRecords) state.records.pop_front();
}

// Memory of the program's own comes and goes without our knowledge.
bool IsKnown(const ByteView& view) {
  Block block;
  return !view.empty() && FindBlock(view.first, &block);
}

}  // namespace

std::shared_ptr<const Knowledge> Known() {
  if (!Watching()) return nullptr;
  RaceState& state = TheRaceState();
  std::lock_guard lock(state.mutex);
  return std::make_shared<const Knowledge>(state.known[this_one]);
}

void Learn(const std::shared_ptr<const Knowledge>& known) {
  if (!Watching() || known == nullptr) return;
  RaceState& state = TheRaceState();
  std::lock_guard lock(state.mutex);
  Merge(state.known[this_one], *known);
}

void LearnAll() {
  if (!Watching()) return;
  RaceState& state = TheRaceState();
  std::lock_guard lock(state.mutex);
  Knowledge& own = state.known[this_one];
  for (const auto& [who, known] : state.known) {
    if (who != this_one) Merge(own, known);
  }
}

void TellProgram() {
  if (!Watching()) return;
  RaceState& state = TheRaceState();
  std::lock_guard lock(state.mutex);
  if (this_one != kProgram) Merge(state.known[kProgram], state.known[this_one]);
}

void ProgramWaitedFor(int32_t stream) {
  if (!Watching()) return;
  RaceState& state = TheRaceState();
  std::lock_guard lock(state.mutex);
  if (this_one != stream) Merge(state.known[this_one], state.known[stream]);
}

void BeginTask(int32_t stream, uint64_t number,
               const std::shared_ptr<const Knowledge>& known) {
  if (!Watching()) return;
  this_one = stream;
  RaceState& state = TheRaceState();
  std::lock_guard lock(state.mutex);
  Knowledge& own = state.known[stream];
  if (known != nullptr) Merge(own, *known);
  own[stream] = number;
}

std::string NoteAccesses(std::string_view operation,
                         std::span<const Access> accesses) {
  if (!Watching()) return {};
  std::string race;
  RaceState& state = TheRaceState();
  std::unique_lock lock(state.mutex);
  Knowledge& own = state.known[this_one];
  if (this_one == kProgram) ++own[kProgram];
  for (const Access& access : accesses) {
    if (!IsKnown(access.view)) continue;
    Record now{this_one,    own[this_one], std::string(operation),
               access.name, access.view,   access.writes};
    for (const Record& before : state.records) {
      if (!race.empty() || !Races(before, now, own)) continue;
      race = Describe(before, now);
    }
    Keep(state, std::move(now));
  }
  return race;
}

void ForgetAccesses(const void* first, size_t bytes) {
  if (!Watching()) return;
  const ByteView gone = ViewOf(first, bytes);
  RaceState& state = TheRaceState();
  std::lock_guard lock(state.mutex);
  std::erase_if(state.records, [&](const Record& record) {
    return Overlap(record.view, gone);
  });
}

}  // namespace flashacl::acl
