// SPDX-License-Identifier: Apache-2.0
// What a person reads: lines on standard error, and CANN's log on standard
// output. The one place that writes there.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace flashacl::acl {

// "FlashACL: <text>", on standard error. A line that cannot be written is no
// error.
void Say(std::string_view text) noexcept;

// As CANN numbers them.
enum class Level : int { kDebug, kInfo, kWarning, kError };

// Whether lines of a level are read by anybody: the environment asks for CANN's
// log, or strict mode tells of warnings and errors.
bool IsHeard(Level level);

// Writes whole lines where the environment wants the log.
void WriteLog(const std::string& lines);

// One line in the form of CANN's log: "[ERROR] FLASHACL(<process>,<program>):
// <time> [<where>]<thread> <text>". `text` may have several lines.
void Log(Level level, std::string_view where, std::string_view text) noexcept;

// "8,192", for sizes that people compare.
std::string Grouped(size_t number);

// The local time, as logs and messages have it: YYYY-MM-DD-HH:MM:SS.mmm.uuu.
std::string TimeText(long seconds, long microseconds);

}  // namespace flashacl::acl
