// SPDX-License-Identifier: Apache-2.0
// A thread that wakes up now and then.
#include "tools/flashacl/progress.h"

#include <unistd.h>

#include <cstdio>

#include "base/str.h"
#include "tools/flashacl/wrap.h"

namespace flashacl::tool {
namespace {

using std::chrono::seconds;

constexpr seconds kOnTerminal{1};
constexpr seconds kElsewhere{5};

}  // namespace

Progress::Progress()
    : terminal_(isatty(STDERR_FILENO) == 1),
      start_(std::chrono::steady_clock::now()),
      ticker_([this] { Tick(); }) {}

Progress::~Progress() {
  Clear();
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  stopping_.notify_one();
  ticker_.join();
}

void Progress::Say(std::string_view what) {
  const std::lock_guard lock(mutex_);
  what_ = what;
  start_ = std::chrono::steady_clock::now();
  if (terminal_) Draw();
}

void Progress::Draw() const {
  const auto taken = std::chrono::duration_cast<seconds>(
      std::chrono::steady_clock::now() - start_);
  std::string line = what_;
  if (!what_.empty() && taken >= kOnTerminal) {
    line = Str("{} s  {}", taken.count(), what_);
  }
  if (terminal_) {
    const size_t room = static_cast<size_t>(TerminalColumns() - 1);
    fmt::print(stderr, "\r\033[K{}", line.substr(0, room));
  } else {
    fmt::print(stderr, "{}\n", line);
  }
  std::fflush(stderr);
}

void Progress::Tick() {
  std::unique_lock lock(mutex_);
  const seconds pause = terminal_ ? kOnTerminal : kElsewhere;
  while (!stopping_.wait_for(lock, pause, [this] { return stopped_; })) {
    if (!what_.empty()) Draw();
  }
}

}  // namespace flashacl::tool
