// SPDX-License-Identifier: Apache-2.0
// A thread that looks at a clock, and a signal that makes a thread print its
// stack. Neither allocates while faults are injected.
#include "tests/faults/watchdog.h"

#include <dirent.h>
#include <execinfo.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace flashacl::testing {
namespace {

constexpr int kSeconds = 60;  // of a machine that does much else

char what_runs[256];
std::atomic<int64_t> runs{0};  // odd: something is watched

void PrintStack(int) {
  void* frames[64];
  const int count = backtrace(frames, 64);
  dprintf(2, "thread %ld:\n", static_cast<long>(syscall(SYS_gettid)));
  backtrace_symbols_fd(frames, count, 2);
}

void AskEachThread() {
  DIR* const tasks = opendir("/proc/self/task");
  while (const dirent* task = tasks == nullptr ? nullptr : readdir(tasks)) {
    const int id = std::atoi(task->d_name);
    if (id == 0) continue;
    syscall(SYS_tgkill, getpid(), id, SIGUSR2);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

void Watch() {
  int64_t last = 0;
  int seconds = 0;
  while (true) {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    const int64_t now = runs.load();
    seconds = now == last && now % 2 == 1 ? seconds + 1 : 0;
    last = now;
    if (seconds < kSeconds) continue;
    dprintf(2, "no end after %d s: %s\n", kSeconds, what_runs);
    // Threads of the library take no signals: a debugger sees them, if any.
    char command[128];
    std::snprintf(command, sizeof command,
                  "gdb -batch -ex 'thread apply all bt' -p %d >&2",
                  static_cast<int>(getpid()));
    if (std::system(command) != 0) AskEachThread();
    std::abort();
  }
}

void StartOnce() {
  static const bool started = [] {
    void* frame = nullptr;
    backtrace(&frame, 1);  // the first call allocates
    signal(SIGUSR2, PrintStack);
    std::thread(Watch).detach();
    return true;
  }();
  (void)started;
}

}  // namespace

Watched::Watched(const std::string& what) {
  StartOnce();
  std::strncpy(what_runs, what.c_str(), sizeof what_runs - 1);
  runs.fetch_add(1);
}

Watched::~Watched() { runs.fetch_add(1); }

}  // namespace flashacl::testing
