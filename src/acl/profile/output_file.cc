// SPDX-License-Identifier: Apache-2.0
#include "acl/profile/output_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace flashacl::acl::profile {
namespace {

constexpr size_t kFlushBytes = size_t{1} << 16;

}  // namespace

OutputFile::OutputFile(const std::string& path)
    : file_(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)),
      error_(file_ < 0 ? errno : 0) {}

OutputFile::~OutputFile() { Close(); }

void OutputFile::Flush() {
  if (text_.size() >= kFlushBytes) WriteAll();
}

void OutputFile::WriteAll() {
  std::string_view rest = text_;
  while (!rest.empty() && error_ == 0) {
    const ssize_t written = write(file_, rest.data(), rest.size());
    if (written >= 0) {
      rest.remove_prefix(static_cast<size_t>(written));
    } else if (errno != EINTR) {
      error_ = errno;
    }
  }
  text_.clear();
}

int OutputFile::Close() {
  WriteAll();
  if (file_ < 0) return error_;
  // Linux gives the number back whatever close answers.
  if (close(std::exchange(file_, -1)) != 0 && error_ == 0 && errno != EINTR) {
    error_ = errno;
  }
  return error_;
}

}  // namespace flashacl::acl::profile
