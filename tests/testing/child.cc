// SPDX-License-Identifier: Apache-2.0
#include "tests/testing/child.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <vector>

extern char** environ;

namespace flashacl::testing {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kPatience{180};

std::vector<std::string> Environment(
    const std::map<std::string, std::string>& added) {
  std::vector<std::string> all;
  for (char** at = environ; *at != nullptr; ++at) {
    const std::string entry = *at;
    if (added.count(entry.substr(0, entry.find('='))) == 0) {
      all.push_back(entry);
    }
  }
  for (const auto& [name, value] : added) all.push_back(name + "=" + value);
  return all;
}

// This program, by the emulator that FLASHACL_EMULATOR names where another
// processor's programs do not start by themselves.
std::vector<std::string> ThisProgram() {
  const char* const emulator = std::getenv("FLASHACL_EMULATOR");
  if (emulator == nullptr) return {"/proc/self/exe"};
  std::istringstream words(emulator);
  std::vector<std::string> command;
  for (std::string word; words >> word;) command.push_back(word);
  // The emulator's own would be itself.
  command.push_back(std::filesystem::read_symlink("/proc/self/exe"));
  return command;
}

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& s : strings) pointers.push_back(s.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Everything the child writes until it closes the pipe; false if that takes
// too long.
bool ReadAll(int pipe, std::string* output) {
  const Clock::time_point end = Clock::now() + kPatience;
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        end - Clock::now());
    pollfd ready{pipe, POLLIN, 0};
    if (left.count() <= 0 ||
        poll(&ready, 1, static_cast<int>(left.count())) <= 0) {
      return false;
    }
    char part[4096];
    const ssize_t n = read(pipe, part, sizeof(part));
    if (n <= 0) return true;
    output->append(part, static_cast<size_t>(n));
  }
}

}  // namespace

ChildResult RunChild(const std::string& test,
                     const std::map<std::string, std::string>& environment) {
  std::vector<std::string> arguments = ThisProgram();
  arguments.push_back("--gtest_also_run_disabled_tests");
  arguments.push_back("--gtest_filter=" + test);
  std::vector<std::string> variables = Environment(environment);
  const std::vector<char*> argv = Pointers(arguments);
  const std::vector<char*> envp = Pointers(variables);
  ChildResult result;
  int ends[2];
  if (pipe(ends) != 0) return result;
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
    execvpe(argv[0], argv.data(), envp.data());
    _exit(127);
  }
  close(ends[1]);
  result.timed_out = !ReadAll(ends[0], &result.output);
  close(ends[0]);
  if (result.timed_out) kill(child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  return result;
}

}  // namespace flashacl::testing
