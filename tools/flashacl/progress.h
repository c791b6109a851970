// SPDX-License-Identifier: Apache-2.0
// One line that says what takes so long, and for how many seconds.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

namespace flashacl::tool {

// On a terminal the line goes away again; elsewhere one is added to stderr
// every few seconds, so that short runs say nothing there and long ones do not
// look as if they hung.
class Progress {
 public:
  Progress();
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void Say(std::string_view what);

  // Before anything else is printed.
  void Clear() { Say(""); }

 private:
  void Draw() const;  // with mutex_ held
  void Tick();

  const bool terminal_;
  std::mutex mutex_;
  std::condition_variable stopping_;
  bool stopped_ = false;
  std::string what_;
  std::chrono::steady_clock::time_point start_;
  std::thread ticker_;
};

}  // namespace flashacl::tool
