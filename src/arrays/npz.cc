// SPDX-License-Identifier: Apache-2.0
// minizip knows the archive; what it says of sizes is a claim of the file's.
#include "arrays/npz.h"

#include <minizip/unzip.h>

#include <algorithm>
#include <array>
#include <limits>
#include <memory>

#include "arrays/npy.h"
#include "base/str.h"

namespace flashacl {
namespace {

constexpr std::string_view kSuffix = ".npy";
constexpr size_t kMaxNames = 65536;
// Deflate makes at most 1032 bytes of one.
constexpr uint64_t kMaxRatio = 1032;
constexpr uint64_t kSlack = 1024;

struct Close {
  void operator()(void* archive) const { unzClose(archive); }
};
using Archive = std::unique_ptr<void, Close>;

Result<Archive> Open(const std::string& path) {
  Archive archive(unzOpen64(path.c_str()));
  if (archive == nullptr) {
    return Invalid("npz: the file is no zip archive, or ends too early");
  }
  return archive;
}

struct Entry {
  std::string name;
  uint64_t packed = 0;
  uint64_t bytes = 0;
};

Result<Entry> Current(void* archive) {
  std::array<char, 512> name{};
  unz_file_info64 info{};
  if (unzGetCurrentFileInfo64(archive, &info, name.data(), name.size() - 1,
                              nullptr, 0, nullptr, 0) != UNZ_OK) {
    return Invalid("npz: the archive's list of files is broken");
  }
  return Entry{name.data(), info.compressed_size, info.uncompressed_size};
}

// Calls body(entry) for each file until it says true; whether it did.
template <typename Body>
Result<bool> Walk(void* archive, Body body) {
  int state = unzGoToFirstFile(archive);
  for (size_t n = 0; state == UNZ_OK && n < kMaxNames; ++n) {
    const Result<Entry> entry = Current(archive);
    if (!entry.ok()) return entry.status();
    if (body(*entry)) return true;
    state = unzGoToNextFile(archive);
  }
  if (state != UNZ_END_OF_LIST_OF_FILE) {
    return Invalid("npz: the archive's list of files is broken");
  }
  return false;
}

std::string_view WithoutSuffix(std::string_view name) {
  if (name.ends_with(kSuffix)) name.remove_suffix(kSuffix.size());
  return name;
}

Result<std::vector<std::byte>> ReadEntry(void* archive, const Entry& entry) {
  if (entry.bytes > static_cast<uint64_t>(kMaxArrayBytes) ||
      entry.bytes / kMaxRatio > entry.packed + kSlack) {
    return Invalid("npz: {}: {} bytes out of {}, which no zip archive holds",
                   entry.name, entry.bytes, entry.packed);
  }
  if (unzOpenCurrentFile(archive) != UNZ_OK) {
    return Invalid("npz: {}: packed in a way that is not read", entry.name);
  }
  std::vector<std::byte> bytes;
  constexpr size_t kStep = size_t{1} << 20;
  while (bytes.size() < entry.bytes) {
    const size_t start = bytes.size();
    const size_t step = std::min<size_t>(kStep, entry.bytes - start);
    bytes.resize(start + step);
    const int got = unzReadCurrentFile(archive, bytes.data() + start,
                                       static_cast<unsigned>(step));
    if (got <= 0) {
      unzCloseCurrentFile(archive);
      return Invalid("npz: {}: broken, or the file ends too early", entry.name);
    }
    bytes.resize(start + static_cast<size_t>(got));
  }
  if (unzCloseCurrentFile(archive) != UNZ_OK) {
    return Invalid("npz: {}: the checksum is not that of its bytes",
                   entry.name);
  }
  return bytes;
}

}  // namespace

Result<std::vector<std::string>> NamesInNpz(const std::string& path) {
  const Result<Archive> archive = Open(path);
  if (!archive.ok()) return archive.status();
  std::vector<std::string> names;
  const Result<bool> walked = Walk(archive->get(), [&](const Entry& entry) {
    names.emplace_back(WithoutSuffix(entry.name));
    return false;
  });
  if (!walked.ok()) return walked.status();
  return names;
}

Result<Array> ReadNpz(const std::string& path, std::string_view name) {
  const Result<Archive> archive = Open(path);
  if (!archive.ok()) return archive.status();
  Entry found;
  const Result<bool> walked = Walk(archive->get(), [&](const Entry& entry) {
    found = entry;
    return WithoutSuffix(entry.name) == WithoutSuffix(name);
  });
  if (!walked.ok()) return walked.status();
  if (!*walked) return Invalid("npz: no array {} in it", name);
  const Result<std::vector<std::byte>> bytes = ReadEntry(archive->get(), found);
  if (!bytes.ok()) return bytes.status();
  return ParseNpy(*bytes);
}

}  // namespace flashacl
