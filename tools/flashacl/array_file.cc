// SPDX-License-Identifier: Apache-2.0
#include "tools/flashacl/array_file.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "arrays/npy.h"
#include "arrays/npz.h"
#include "base/str.h"
#include "tools/flashacl/read_file.h"

namespace flashacl::tool {
namespace {

// "2x64x128".
std::optional<std::vector<int64_t>> ParseShape(std::string_view text) {
  std::vector<int64_t> dims;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    int64_t dim = 0;
    const auto read = std::from_chars(at, end, dim);
    if (read.ec != std::errc()) return {};
    dims.push_back(dim);
    at = read.ptr;
    if (at == end) break;
    if (*at++ != 'x' || at == end) return {};
  }
  return dims;
}

// X:DTYPE:SHAPE
struct Raw {
  std::string path;
  DType dtype = DType::kNone;
  std::vector<int64_t> dims;
};

std::optional<Raw> ParseRaw(const std::string& text) {
  const size_t shape = text.rfind(':');
  if (shape == std::string::npos || shape == 0) return {};
  const size_t dtype = text.rfind(':', shape - 1);
  if (dtype == std::string::npos) return {};
  const DType type =
      ParseDType(std::string_view(text).substr(dtype + 1, shape - dtype - 1));
  auto dims = ParseShape(std::string_view(text).substr(shape + 1));
  if (type == DType::kNone || !dims) return {};
  return Raw{text.substr(0, dtype), type, std::move(*dims)};
}

Result<Array> ReadRaw(const Raw& raw) {
  Array array{raw.dtype, SizeOf(raw.dtype), raw.dims, {}};
  const Result<int64_t> needed = ArrayBytes(array.dims, array.element_bytes);
  if (!needed.ok()) return NamedFile(raw.path, needed.status());
  Result<std::vector<std::byte>> bytes = ReadFile(raw.path);
  if (!bytes.ok()) return bytes.status();
  if (static_cast<int64_t>(bytes->size()) != *needed) {
    return Invalid("{}: {} bytes, expected the {} of {} of ({})", raw.path,
                   bytes->size(), *needed, Name(raw.dtype),
                   Join(array.dims, ", "));
  }
  array.bytes = std::move(*bytes);
  return array;
}

Result<Array> ReadNpyFile(const std::string& path) {
  const Result<std::vector<std::byte>> bytes = ReadFile(path);
  if (!bytes.ok()) return bytes.status();
  Result<Array> array = ParseNpy(*bytes);
  return array.ok() ? array : NamedFile(path, array.status());
}

Result<Array> ReadNpzFile(const std::string& text, std::string_view name) {
  const size_t end = text.rfind(".npz") + 4;
  const std::string path = text.substr(0, end);
  if (access(path.c_str(), R_OK) != 0) return FailedFile(path);
  std::string array(name);
  if (end < text.size()) {
    array = text.substr(end + 1);
  } else {
    const auto names = NamesInNpz(path);
    if (!names.ok()) return NamedFile(path, names.status());
    if (names->size() == 1) array = names->front();
    if (std::ranges::count(*names, array) == 0) {
      return Invalid("{}: which array? {}:NAME, one of {}", path, path,
                     Join(*names, ", "));
    }
  }
  Result<Array> found = ReadNpz(path, array);
  return found.ok() ? found : NamedFile(path, found.status());
}

// X.pt, X.pth or one of these with :NAME after it.
struct TorchName {
  std::string path;
  std::string wanted;
};

std::optional<TorchName> ParseTorch(const std::string& text) {
  for (const std::string_view suffix : {".pt", ".pth"}) {
    if (text.ends_with(suffix)) return TorchName{text, ""};
    const size_t at = text.rfind(std::string(suffix) + ":");
    if (at == std::string::npos) continue;
    const size_t end = at + suffix.size();
    return TorchName{text.substr(0, end), text.substr(end + 1)};
  }
  return {};
}

}  // namespace

Result<Array> ReadArrayFile(const std::string& text, std::string_view name,
                            const Python& python) {
  if (const auto raw = ParseRaw(text)) return ReadRaw(*raw);
  if (text.ends_with(".npy")) return ReadNpyFile(text);
  if (text.ends_with(".npz") || text.find(".npz:") != std::string::npos) {
    return ReadNpzFile(text, name);
  }
  if (const auto torch = ParseTorch(text)) {
    return ReadTorchFile(torch->path, torch->wanted, name, python);
  }
  return Invalid("{}: expected {}", text, kFileHelp);
}

}  // namespace flashacl::tool
