// SPDX-License-Identifier: Apache-2.0
// What is recorded now, if anything: what FLASHACL_RECORD asks for, as long as
// the process lives; else what the program asks for by CANN's dumps (dump.h),
// from then until it ends them.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "record/setting.h"

namespace flashacl::acl {

// What FLASHACL_RECORD says, and what it has no words for.
struct RecordingSetting : record::Setting {
  // Which contents, statistics included: before a run, and after it.
  bool inputs = true;
  bool outputs = true;
  // Whether operators are recorded; else what a program hands over itself.
  bool operators = true;
};

struct Recording {
  RecordingSetting setting;
  std::string asked;  // by whom, for messages: "FLASHACL_RECORD=calls"
  // There is no room left, or nothing can be written: it was said.
  mutable std::atomic<bool> over{false};

  Recording(RecordingSetting what, std::string by)
      : setting(std::move(what)), asked(std::move(by)) {}
};

// Whether anything is recorded: one load, but for the first question, which
// reads the environment.
bool RecordsCalls() noexcept;

// Null: nothing.
std::shared_ptr<const Recording> CurrentRecording();

// Whether work of `recording` is still to be recorded.
bool GoesOn(const Recording& recording);

// Whether the environment decides, so that the two below change nothing.
bool EnvironmentRecords();

// Instead of what the program asked for before.
void StartRecording(std::shared_ptr<const Recording> recording);

// Returns when all that has run is on the file system.
void EndRecording();

}  // namespace flashacl::acl
