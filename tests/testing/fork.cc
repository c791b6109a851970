// SPDX-License-Identifier: Apache-2.0
// Waiting for threads to sleep.
#include "tests/testing/fork.h"

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

namespace flashacl::testing {
namespace {

// As /proc shows it, "12 (name) S ...".
bool Sleeps(const std::filesystem::path& task) {
  std::ifstream file(task / "stat");
  std::string line;
  std::getline(file, line);
  const size_t end = line.rfind(") ");
  return end == std::string::npos || line[end + 2] == 'S';
}

[[maybe_unused]] bool OthersSleep() {
  const std::string own = std::to_string(gettid());
  for (const auto& task :
       std::filesystem::directory_iterator("/proc/self/task")) {
    if (task.path().filename() != own && !Sleeps(task.path())) return false;
  }
  return true;
}

}  // namespace

pid_t Fork() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  using namespace std::chrono_literals;
  const auto end = std::chrono::steady_clock::now() + 100ms;
  // Twice: a thread that is about to go on may sleep for a moment.
  for (int quiet = 0; quiet < 2 && std::chrono::steady_clock::now() < end;) {
    quiet = OthersSleep() ? quiet + 1 : 0;
    std::this_thread::sleep_for(1ms);
  }
#endif
  return fork();
}

}  // namespace flashacl::testing
