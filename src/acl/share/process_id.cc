// SPDX-License-Identifier: Apache-2.0
#include "acl/share/process_id.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/fork.h"

namespace flashacl::acl {
namespace {

enum class Answer : uint8_t { kRuns, kEnded, kUnknown };

struct Facts {
  char state = 0;
  long threads = 0;
  uint64_t start = 0;
};

// The fields that follow the program's name, which may contain anything.
bool Parse(const char* text, Facts* facts) {
  const char* at = std::strrchr(text, ')');
  if (at == nullptr || at[1] != ' ') return false;
  facts->state = at[2];
  at += 3;
  for (int field = 4; field <= 22; ++field) {
    char* end = nullptr;
    const long long value = std::strtoll(at, &end, 10);
    if (end == at) return false;
    if (field == 20) facts->threads = static_cast<long>(value);
    if (field == 22) facts->start = static_cast<uint64_t>(value);
    at = end;
  }
  return true;
}

Answer Read(int32_t pid, Facts* facts) {
  // That of the first thread, which says the same of all: of the process, what
  // qemu-user shows a program is of its own making.
  char path[48];
  const int number = pid;
  std::snprintf(path, sizeof path, "/proc/%d/task/%d/stat", number, number);
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    if (kill(pid, 0) != 0 && errno == ESRCH) return Answer::kEnded;
    return Answer::kUnknown;
  }
  char text[1024];
  const ssize_t size = read(file, text, sizeof text - 1);
  const bool gone = size < 0 && errno == ESRCH;
  close(file);
  if (gone) return Answer::kEnded;
  if (size <= 0) return Answer::kUnknown;
  text[size] = '\0';
  return Parse(text, facts) ? Answer::kRuns : Answer::kUnknown;
}

ProcessId AskForThisProcess() {
  ProcessId self{.pid = static_cast<int32_t>(getpid())};
  Facts facts;
  if (Read(self.pid, &facts) == Answer::kRuns) self.start = facts.start;
  struct stat space {};
  if (stat("/proc/self/ns/pid", &space) == 0) {
    self.space = static_cast<uint32_t>(space.st_ino);
  }
  return self;
}

struct Self {
  const ProcessId id = AskForThisProcess();
};

}  // namespace

ProcessId ThisProcess() {
  static PerProcess<Self> self;
  return (*self).id;
}

bool IsAlive(const ProcessId& process) {
  if (process.space != ThisProcess().space) return true;
  Facts facts;
  const Answer answer = Read(process.pid, &facts);
  if (answer != Answer::kRuns) return answer == Answer::kUnknown;
  if (process.start != 0 && process.start != facts.start) return false;
  // A first thread that has ended does not end the others.
  const bool over = facts.state == 'Z' || facts.state == 'X';
  return !over || facts.threads > 1;
}

}  // namespace flashacl::acl
