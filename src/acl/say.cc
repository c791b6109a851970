// SPDX-License-Identifier: Apache-2.0
#include "acl/say.h"

#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>

#include "acl/environment.h"
#include "base/contain.h"
#include "base/str.h"

namespace flashacl::acl {
namespace {

constexpr std::string_view kLevels[] = {"DEBUG", "INFO", "WARNING", "ERROR"};

// One write per text, so that those of several threads do not mix.
void WriteTo(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text.remove_prefix(static_cast<size_t>(written));
  }
}

template <typename F>
void SayQuietly(F&& body) noexcept {
  (void)Contain(
      [&] {
        body();
        return 0;
      },
      [](bool /*no_memory*/) { return 0; });
}

}  // namespace

void Say(std::string_view text) noexcept {
  SayQuietly([&] { WriteTo(STDERR_FILENO, Str("FlashACL: {}\n", text)); });
}

bool IsHeard(Level level) {
  const Environment& environment = TheEnvironment();
  const int number = static_cast<int>(level);
  if (environment.log_to_stdout) return number >= environment.log_level;
  return environment.strict && level >= Level::kWarning;
}

void WriteLog(const std::string& lines) {
  WriteTo(TheEnvironment().log_to_stdout ? STDOUT_FILENO : STDERR_FILENO,
          lines);
}

void Log(Level level, std::string_view where, std::string_view text) noexcept {
  SayQuietly([&] {
    if (!IsHeard(level)) return;
    timeval now{};
    gettimeofday(&now, nullptr);
    WriteLog(Str(
        "[{}] FLASHACL({},{}):{} [{}]{} {}\n", kLevels[static_cast<int>(level)],
        getpid(), program_invocation_short_name,
        TimeText(now.tv_sec, now.tv_usec), where, syscall(SYS_gettid), text));
  });
}

std::string Grouped(size_t number) {
  std::string digits = std::to_string(number);
  for (size_t at = digits.size(); at > 3;) digits.insert(at -= 3, ",");
  return digits;
}

std::string TimeText(long seconds, long microseconds) {
  const time_t time = seconds;
  std::tm local{};
  localtime_r(&time, &local);
  return Str("{:04}-{:02}-{:02}-{:02}:{:02}:{:02}.{:03}.{:03}",
             local.tm_year + 1900, local.tm_mon + 1, local.tm_mday,
             local.tm_hour, local.tm_min, local.tm_sec, microseconds / 1000,
             microseconds % 1000);
}

}  // namespace flashacl::acl
