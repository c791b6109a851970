// SPDX-License-Identifier: Apache-2.0
// A file that is written from its start to its end, some memory at a time.
#pragma once

#include <string>
#include <string_view>

namespace flashacl::acl::profile {

class OutputFile {
 public:
  // Makes the file, or empties it.
  explicit OutputFile(const std::string& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  // What is to be written next goes here; Flush takes some of it away.
  std::string& text() { return text_; }
  void Flush();

  // Writes the rest. 0, or the errno of what failed first.
  int Close();

 private:
  void WriteAll();

  int file_ = -1;
  int error_ = 0;
  std::string text_;
};

}  // namespace flashacl::acl::profile
