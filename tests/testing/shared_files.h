// SPDX-License-Identifier: Apache-2.0
// What lies in /dev/shm of this library's, and processes to share it with.
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <set>
#include <string>

#include "acl/share/shared_object.h"
#include "tests/testing/fork.h"

namespace flashacl::testing {

// The names of what a process shares just now.
inline std::set<std::string> SharedFiles(pid_t owner = getpid()) {
  std::set<std::string> names;
  DIR* const folder = opendir("/dev/shm");
  if (folder == nullptr) return names;
  while (const dirent* entry = readdir(folder)) {
    const std::string name = entry->d_name;
    if (!name.starts_with("flashacl-")) continue;
    const int file = open(("/dev/shm/" + name).c_str(), O_RDONLY | O_CLOEXEC);
    int32_t pid = 0;
    const bool known = pread(file, &pid, sizeof pid,
                             offsetof(acl::SharePage, owner)) == sizeof pid;
    close(file);
    if (known && pid == owner) names.insert(name);
  }
  closedir(folder);
  return names;
}

// Runs `body` in a forked child, which ends then and there, and waits for it.
// Whether nothing failed in it.
template <typename F>
bool Forked(F&& body) {
  const pid_t child = Fork();
  if (child == 0) {
    body();
    _exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// The same with one that is killed when it has run `body`. Its number.
template <typename F>
pid_t ForkedAndKilled(F&& body) {
  const pid_t child = Fork();
  if (child == 0) {
    body();
    kill(getpid(), SIGKILL);
  }
  waitpid(child, nullptr, 0);
  return child;
}

}  // namespace flashacl::testing
