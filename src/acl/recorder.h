// SPDX-License-Identifier: Apache-2.0
// What takes a stream's submissions in place of its queue: the capture of a
// graph, the update of one, or one that is built by hand. Streams and events
// know this much of graphs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "acl/acl_base.h"

namespace flashacl::acl {

class Event;
class Recorder;
class Stream;

// Runs on a stream's thread, once for each time that it is submitted or, if a
// graph holds it, replayed. A code other than 0 becomes the stream's
// asynchronous error, with the message that Fail queued on that thread; the
// first one surfaces at the next synchronising call.
using Task = std::function<aclError()>;

enum class TaskKind : uint8_t {
  kDevice,    // not run after a failure if the stream stops on failure
  kOperator,  // the same: a launch, whose arguments a graph can replace
  kControl,   // others wait for it, as for events and callbacks: always runs
  kWait,      // the same, and it may wait for other streams or for the program
  kGraph,     // a replay, which asks for each of its tasks
};

// Whether a stream that stops on failure runs it none the less.
inline bool AlwaysRuns(TaskKind kind) {
  return kind != TaskKind::kDevice && kind != TaskKind::kOperator;
}

struct Submission {
  Task task;
  std::string_view function;  // it was submitted for; lives forever
  TaskKind kind = TaskKind::kDevice;
};

// A record of an event in a capture: `seen[branch]` is how many tasks of each
// captured stream come before it.
struct CapturedRecord {
  std::weak_ptr<Recorder> by;
  std::vector<int> seen;
};

// Of an event that no capture recorded.
struct ForeignUse {
  bool resets = false;  // else it waits,
  int64_t seconds = 0;  // at most so long; 0: as long as it takes
};

enum class RecorderKind : uint8_t {
  kCapture,
  kUpdate,  // the stream's launches update a graph that is captured already
  kBuild,   // the stream is bound to a graph that is built by hand
};

class Recorder {
 public:
  virtual ~Recorder() = default;

  virtual RecorderKind kind() const = 0;
  bool captures() const { return kind() == RecorderKind::kCapture; }

  // The handle of the stream that a capture began with, whose subscriber serves
  // its callbacks; null of others.
  virtual const void* origin() const = 0;

  // Takes `submission` and sets *error. False, and nothing has happened, if
  // the recorder has come to its end meanwhile.
  virtual bool Take(Stream& stream, Submission& submission,
                    aclError* error) = 0;

  // `event` is recorded on `stream`, which this recorder records.
  virtual aclError TakeRecord(Stream& stream, Event& event,
                              std::string_view function) = 0;

  // `stream`, which may be recorded or not, waits for what this recorder took.
  virtual aclError TakeWait(Stream& stream, const CapturedRecord& record,
                            std::string_view function) = 0;

  // `stream`, which this recorder records, waits for or resets an event that
  // no capture recorded.
  virtual aclError TakeForeign(Stream& stream, Event& event,
                               const ForeignUse& use,
                               std::string_view function) = 0;

  // `stream` is destroyed.
  virtual void Abandon(Stream& stream) = 0;
};

}  // namespace flashacl::acl
