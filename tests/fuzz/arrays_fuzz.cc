// SPDX-License-Identifier: Apache-2.0
// Bytes to files of arrays: as they are for .npy, as an archive for .npz. What
// is read is written and read again; what is refused has a message.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>

#include "arrays/npy.h"
#include "arrays/npz.h"
#include "base/str.h"

namespace {

using flashacl::Array;
using flashacl::Result;

void Judge(const Result<Array>& array) {
  if (!array.ok()) {
    if (array.status().message().empty()) std::abort();
    return;
  }
  const Result<Array> again = flashacl::ParseNpy(flashacl::WriteNpy(*array));
  if (!again.ok() || again->dims != array->dims ||
      again->bytes != array->bytes || again->dtype != array->dtype) {
    std::abort();
  }
}

// Of every array of the archive.
void JudgeArchive(const std::string& path) {
  const auto names = flashacl::NamesInNpz(path);
  if (!names.ok()) {
    if (names.status().message().empty()) std::abort();
    return;
  }
  for (const std::string& name : *names) Judge(flashacl::ReadNpz(path, name));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const uint8_t> input(data, size);
  Judge(flashacl::ParseNpy(std::as_bytes(input)));
  static const int file = memfd_create("archive", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, 0) != 0 ||
      pwrite(file, data, size, 0) != static_cast<ssize_t>(size)) {
    return 0;
  }
  JudgeArchive(flashacl::Str("/proc/self/fd/{}", file));
  return 0;
}
