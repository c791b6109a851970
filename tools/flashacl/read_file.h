// SPDX-License-Identifier: Apache-2.0
// Whole files in memory; messages begin with their names.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/status.h"

namespace flashacl::tool {

// A file that is open, or not: number() below 0.
class File {
 public:
  explicit File(int number) : number_(number) {}
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  int number() const { return number_; }

 private:
  int number_;
};

// kRuntime: what errno says of `path`.
Status FailedFile(const std::string& path);

// The status with the file's name before it.
Status NamedFile(const std::string& path, const Status& status);

// All of an open file, from its start. kInvalidArgument for what is no plain
// file, has more than kMaxArrayBytes, or becomes shorter.
Result<std::vector<std::byte>> ReadAll(const std::string& path, int file);
Result<std::vector<std::byte>> ReadFile(const std::string& path);

}  // namespace flashacl::tool
