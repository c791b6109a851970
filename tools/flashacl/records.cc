// SPDX-License-Identifier: Apache-2.0
#include "tools/flashacl/records.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/str.h"

namespace flashacl::tool {
namespace {

bool IsDirectory(const std::string& path) {
  struct stat facts {};
  return stat(path.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode);
}

Result<Records> OpenAll(const std::string& directory) {
  Result<record::Reader> reader = record::Reader::Open(directory);
  if (!reader.ok()) return reader.status();
  std::vector<std::string> calls = reader->Calls();
  return Records{std::move(*reader), std::move(calls)};
}

}  // namespace

Result<Records> OpenRecords(const std::string& where) {
  const size_t slash = where.find_last_of('/');
  if (IsDirectory(where) || slash == std::string::npos) return OpenAll(where);
  std::string call = where.substr(slash + 1);
  if (call.ends_with(".json")) call.resize(call.size() - 5);
  call.insert(0, 8 - std::min<size_t>(call.size(), 8), '0');
  std::string directory = where.substr(0, slash);
  if (directory.ends_with("/calls")) directory.resize(directory.size() - 6);
  Result<Records> records = OpenAll(directory);
  if (!records.ok()) return records;
  if (std::ranges::count(records->calls, call) == 0) {
    return Invalid("{}: no such call; flashacl show {} has them all", where,
                   directory);
  }
  records->calls = {call};
  return records;
}

std::string TimeText(double microseconds) {
  if (microseconds <= 0) return "";
  if (microseconds < 1000) return Str("{:.0f} us", microseconds);
  if (microseconds < 1e6) return Str("{:.1f} ms", microseconds / 1e3);
  return Str("{:.1f} s", microseconds / 1e6);
}

}  // namespace flashacl::tool
