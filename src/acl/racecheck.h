// SPDX-License-Identifier: Apache-2.0
// Racecheck, in strict mode: two pieces of work that touch the same bytes, one
// of them writing, while nothing orders them. Work is ordered by what streams
// and the program know of each other: each counts its work, and an event, a
// synchronisation or a submission hands on what was counted so far (vector
// clocks). All threads of the program count as one.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "acl/byte_view.h"

namespace flashacl::acl {

// What one piece of work touches under one name.
struct Access {
  std::string name;
  ByteView view;
  bool reads = false;
  bool writes = false;
};

// How far each stream (by id) and the program (-1) is known to be.
using Knowledge = std::map<int32_t, uint64_t>;

// What the calling thread knows, for others to Learn; null outside of strict
// mode.
std::shared_ptr<const Knowledge> Known();

// The calling thread has waited for whom `known` came from, or for anybody.
void Learn(const std::shared_ptr<const Knowledge>& known);
void LearnAll();

// The program learns what the calling thread knows, or what a stream does.
void TellProgram();
void ProgramWaitedFor(int32_t stream);

// The calling thread goes on as a stream, with a task for which `known` was
// true when it was submitted.
void BeginTask(int32_t stream, uint64_t number,
               const std::shared_ptr<const Knowledge>& known);

// Notes what the calling thread does now to memory that the runtime knows.
// Returns what it races with: "" if with nothing.
std::string NoteAccesses(std::string_view operation,
                         std::span<const Access> accesses);

// The bytes are nobody's any more.
void ForgetAccesses(const void* first, size_t bytes);

}  // namespace flashacl::acl
