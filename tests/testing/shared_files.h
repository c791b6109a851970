// SPDX-License-Identifier: Apache-2.0
// What lies in /dev/shm of this library's, and processes to share it with.
#pragma once

#include <dirent.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>
#include <string>

namespace flashacl::testing {

// The names of everything that is shared just now.
inline std::set<std::string> SharedFiles() {
  std::set<std::string> names;
  DIR* const folder = opendir("/dev/shm");
  if (folder == nullptr) return names;
  while (const dirent* entry = readdir(folder)) {
    const std::string name = entry->d_name;
    if (name.starts_with("flashacl-")) names.insert(name);
  }
  closedir(folder);
  return names;
}

// Runs `body` in a forked child, which ends then and there, and waits for it.
// Whether nothing failed in it.
template <typename F>
bool Forked(F&& body) {
  const pid_t child = fork();
  if (child == 0) {
    body();
    _exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// The same with one that is killed when it has run `body`.
template <typename F>
void ForkedAndKilled(F&& body) {
  const pid_t child = fork();
  if (child == 0) {
    body();
    kill(getpid(), SIGKILL);
  }
  waitpid(child, nullptr, 0);
}

}  // namespace flashacl::testing
