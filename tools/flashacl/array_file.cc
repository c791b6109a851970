// SPDX-License-Identifier: Apache-2.0
#include "tools/flashacl/array_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <utility>

#include "arrays/npy.h"
#include "arrays/npz.h"
#include "base/str.h"

namespace flashacl::tool {
namespace {

Status Named(const std::string& path, const Status& status) {
  return {status.code(), Str("{}: {}", path, status.message())};
}

class File {
 public:
  explicit File(int number) : number_(number) {}
  ~File() {
    if (number_ >= 0) close(number_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  int number() const { return number_; }

 private:
  int number_;
};

Status Failed(const std::string& path) {
  return RuntimeFailure("{}: {}", path, std::strerror(errno));
}

// All of an open file, from its start.
Result<std::vector<std::byte>> ReadAll(const std::string& path, int file) {
  struct stat facts {};
  if (fstat(file, &facts) != 0) return Failed(path);
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
    if (got < 0) return Failed(path);
    if (got == 0) return Invalid("{}: it becomes shorter", path);
    filled += static_cast<size_t>(got);
  }
  return bytes;
}

Result<std::vector<std::byte>> ReadFile(const std::string& path) {
  const File file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.number() < 0) return Failed(path);
  return ReadAll(path, file.number());
}

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
  if (!needed.ok()) return Named(raw.path, needed.status());
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
  return array.ok() ? array : Named(path, array.status());
}

Result<Array> ReadNpzFile(const std::string& text, std::string_view name) {
  const size_t end = text.rfind(".npz") + 4;
  const std::string path = text.substr(0, end);
  if (access(path.c_str(), R_OK) != 0) return Failed(path);
  std::string array(name);
  if (end < text.size()) {
    array = text.substr(end + 1);
  } else {
    const auto names = NamesInNpz(path);
    if (!names.ok()) return Named(path, names.status());
    if (names->size() == 1) array = names->front();
    if (std::ranges::count(*names, array) == 0) {
      return Invalid("{}: which array? {}:NAME, one of {}", path, path,
                     Join(*names, ", "));
    }
  }
  Result<Array> found = ReadNpz(path, array);
  return found.ok() ? found : Named(path, found.status());
}

// What Python writes into the file that is its standard output.
constexpr char kTorchToNpy[] = R"python(
import struct, sys
try:
    import torch
except ImportError:
    sys.exit("Python has no torch, which .pt files need; save X.npy instead")
t = torch.load(sys.argv[1], map_location="cpu", weights_only=True)
if not isinstance(t, torch.Tensor):
    sys.exit("it holds no tensor but a " + type(t).__name__)
t = t.detach().contiguous()
names = {torch.float32: "<f4", torch.float16: "<f2", torch.float64: "<f8",
         torch.bfloat16: "|V2", torch.bool: "|b1", torch.int8: "|i1",
         torch.uint8: "|u1", torch.int32: "<i4", torch.int64: "<i8"}
if t.dtype not in names:
    sys.exit("elements of " + str(t.dtype) + " are not read")
shape = "(" + "".join(str(n) + "," for n in t.shape) + ")"
header = ("{'descr': '" + names[t.dtype] + "', 'fortran_order': False, "
          "'shape': " + shape + "}\n").encode()
out = sys.stdout.buffer
out.write(b"\x93NUMPY\x02\x00" + struct.pack("<I", len(header)) + header)
if t.numel():
    out.write(bytes(t.reshape(-1).view(torch.uint8).untyped_storage())
              [:t.numel() * t.element_size()])
)python";

// Runs python3 with its outputs in files; its exit code.
int RunPython(const std::string& path, int out, int err) {
  const pid_t child = fork();
  if (child < 0) return -1;
  if (child == 0) {
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    execlp("python3", "python3", "-c", kTorchToNpy, path.c_str(), nullptr);
    _exit(127);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

Result<Array> ReadTorchFile(const std::string& path) {
  if (access(path.c_str(), R_OK) != 0) return Failed(path);
  const File out(memfd_create("out", MFD_CLOEXEC));
  const File err(memfd_create("err", MFD_CLOEXEC));
  const int code = RunPython(path, out.number(), err.number());
  if (code == 127) return RuntimeFailure("{}: no python3 to read it", path);
  if (code != 0) {
    const auto words = ReadAll(path, err.number());
    std::string text;
    if (words.ok()) {
      text.assign(reinterpret_cast<const char*>(words->data()), words->size());
    }
    while (text.ends_with('\n')) text.pop_back();
    // The last line says what happened.
    return Invalid("{}: {}", path, text.substr(text.rfind('\n') + 1));
  }
  const auto bytes = ReadAll(path, out.number());
  if (!bytes.ok()) return bytes.status();
  Result<Array> array = ParseNpy(*bytes);
  return array.ok() ? array : Named(path, array.status());
}

}  // namespace

Result<Array> ReadArrayFile(const std::string& text, std::string_view name) {
  if (const auto raw = ParseRaw(text)) return ReadRaw(*raw);
  if (text.ends_with(".npy")) return ReadNpyFile(text);
  if (text.ends_with(".npz") || text.find(".npz:") != std::string::npos) {
    return ReadNpzFile(text, name);
  }
  if (text.ends_with(".pt") || text.ends_with(".pth")) {
    return ReadTorchFile(text);
  }
  return Invalid("{}: expected {}", text, kFileHelp);
}

}  // namespace flashacl::tool
