// SPDX-License-Identifier: Apache-2.0
#include "acl/profile/trace_file.h"

#include <unistd.h>

#include <cstdlib>
#include <mutex>
#include <utility>

#include "acl/environment.h"
#include "acl/init.h"
#include "acl/profile/timeline.h"
#include "acl/profile/trace_json.h"
#include "acl/say.h"
#include "base/contain.h"
#include "base/fork.h"
#include "base/once.h"
#include "base/str.h"

namespace flashacl::acl::profile {
namespace {

constexpr std::string_view kSuffix = ".json";
constexpr std::string_view kNumber = "%p";

// One writer at a time.
ProcessMutex& WriterMutex() {
  static constinit MadeOnce<ProcessMutex> mutex;
  return *mutex;
}

void WriteAtTheEnd() {
  WriterMutex();  // made now, as there is memory
  AddFinalizer([] { WriteTraceFile(); });
  static constinit Once registered;
  registered.Do([] { std::atexit([] { WriteTraceFile(); }); });
}

}  // namespace

bool IsTimelinePath(std::string_view path) { return path.ends_with(kSuffix); }

std::string PathOfThisProcess(std::string_view path) {
  const std::string number = Str("{}", getpid());
  std::string own(path);
  bool numbered = false;
  for (size_t at = own.find(kNumber); at != std::string::npos;
       at = own.find(kNumber, at + number.size())) {
    own.replace(at, kNumber.size(), number);
    numbered = true;
  }
  if (!numbered && ForkGeneration() > 0) {
    own.insert(own.size() - kSuffix.size(), "." + number);
  }
  return own;
}

bool TraceIsAskedFor() {
  if (!IsTimelinePath(TheEnvironment().trace_path)) return false;
  WriteAtTheEnd();
  return true;
}

void WriteTraceFile() noexcept {
  (void)Contain(
      [] {
        std::lock_guard lock(WriterMutex());
        const Recorded recorded = Snapshot(INT64_MIN);
        // A child that did nothing since its fork.
        if (recorded.chunks.empty()) return 0;
        const Status written = WriteTrace(
            recorded, PathOfThisProcess(TheEnvironment().trace_path));
        static bool told = false;  // under the mutex
        if (!written.ok() && !std::exchange(told, true)) {
          Say(Str("FLASHACL_TRACE: {}", written.message()));
        }
        return 0;
      },
      [](bool) { return 0; });
}

}  // namespace flashacl::acl::profile
