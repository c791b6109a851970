// SPDX-License-Identifier: Apache-2.0
#include "tools/flashacl/read_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "arrays/array.h"
#include "base/str.h"

namespace flashacl::tool {

File::~File() {
  if (number_ >= 0) close(number_);
}

Status FailedFile(const std::string& path) {
  return RuntimeFailure("{}: {}", path, std::strerror(errno));
}

Status NamedFile(const std::string& path, const Status& status) {
  return {status.code(), Str("{}: {}", path, status.message())};
}

Result<std::vector<std::byte>> ReadAll(const std::string& path, int file) {
  struct stat facts {};
  if (fstat(file, &facts) != 0) return FailedFile(path);
  if (!S_ISREG(facts.st_mode)) {
    return Invalid("{}: not a file that can be read whole", path);
  }
  if (facts.st_size > kMaxArrayBytes) {
    return Invalid("{}: {} bytes, expected at most {}", path, facts.st_size,
                   kMaxArrayBytes);
  }
  std::vector<std::byte> bytes(static_cast<size_t>(facts.st_size));
  size_t filled = 0;
  while (filled < bytes.size()) {
    const ssize_t got =
        pread(file, bytes.data() + filled, bytes.size() - filled,
              static_cast<off_t>(filled));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FailedFile(path);
    if (got == 0) return Invalid("{}: it becomes shorter", path);
    filled += static_cast<size_t>(got);
  }
  return bytes;
}

Result<std::vector<std::byte>> ReadFile(const std::string& path) {
  const File file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.number() < 0) return FailedFile(path);
  return ReadAll(path, file.number());
}

}  // namespace flashacl::tool
