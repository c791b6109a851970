// SPDX-License-Identifier: Apache-2.0
#include "record/directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <utility>

#include "arrays/npy.h"
#include "base/str.h"
#include "record/call_json.h"

namespace flashacl::record {
namespace {

constexpr int kDirectory = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
// A call of a thousand tensors has less.
constexpr int64_t kMaxCallBytes = int64_t{64} << 20;
constexpr std::string_view kJson = ".json";
constexpr std::string_view kNpy = ".npy";

std::string Why() { return std::strerror(errno); }

// A folder of the directory, and no link to another one.
Descriptor Folder(const Descriptor& in, const char* name) {
  return Descriptor(openat(in.number(), name, kDirectory | O_NOFOLLOW));
}

// Calls body(name) for each entry but the two that every directory has.
void ForEntries(const Descriptor& in,
                const std::function<void(const char*)>& body) {
  const int own = openat(in.number(), ".", kDirectory);
  DIR* const directory = own < 0 ? nullptr : fdopendir(own);
  if (directory == nullptr) {
    if (own >= 0) close(own);
    return;
  }
  while (const dirent* const entry = readdir(directory)) {
    if (entry->d_name[0] != '.') body(entry->d_name);
  }
  closedir(directory);
}

int64_t BytesIn(const Descriptor& in) {
  int64_t bytes = 0;
  ForEntries(in, [&](const char* name) {
    struct stat facts {};
    if (fstatat(in.number(), name, &facts, AT_SYMLINK_NOFOLLOW) == 0) {
      bytes += facts.st_size;
    }
  });
  return bytes;
}

bool WriteAll(int file, const void* data, size_t bytes) {
  const auto* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = write(file, at, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    at += written;
    bytes -= static_cast<size_t>(written);
  }
  return true;
}

// All of a file that has no more than `most` bytes.
Result<std::string> ReadFile(const Descriptor& in, const std::string& name,
                             int64_t most) {
  const Descriptor file(openat(in.number(), name.c_str(),
                               O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file.open()) return Invalid("{}: {}", name, Why());
  struct stat facts {};
  if (fstat(file.number(), &facts) != 0 || !S_ISREG(facts.st_mode)) {
    return Invalid("{}: no regular file", name);
  }
  if (facts.st_size > most) {
    return Invalid("{}: {} bytes, expected at most {}", name, facts.st_size,
                   most);
  }
  std::string text(static_cast<size_t>(facts.st_size), '\0');
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t got =
        read(file.number(), text.data() + done, text.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return Invalid("{}: {}", name, got < 0 ? Why() : "cut off");
    done += static_cast<size_t>(got);
  }
  return text;
}

int64_t CountOf(const ElementType& type, size_t bytes) {
  const size_t bits = static_cast<size_t>(std::max(type.bits, 8));
  return static_cast<int64_t>(bytes / (bits / 8));
}

}  // namespace

Descriptor::~Descriptor() {
  if (number_ >= 0) close(number_);
}

Descriptor::Descriptor(Descriptor&& other) noexcept
    : number_(std::exchange(other.number_, -1)) {}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(number_, other.number_);
  return *this;
}

Digest DigestFor(const ElementType& type) {
  Digest digest;
  digest.Add(std::as_bytes(std::span(type.npy)));
  return digest;
}

std::string CallName(int64_t number) { return Str("{:08}", number); }

bool IsCallName(std::string_view name) {
  return name.size() >= 8 && name.size() <= 18 &&
         name.find_first_not_of("0123456789") == std::string_view::npos;
}

Writer::Writer(Descriptor calls, Descriptor tensors, int64_t bytes_left)
    : calls_(std::move(calls)),
      tensors_(std::move(tensors)),
      bytes_left_(bytes_left) {}

Result<std::unique_ptr<Writer>> Writer::Open(const std::string& path,
                                             int64_t max_bytes) {
  constexpr mode_t kMode = 0777;
  (void)mkdir(path.c_str(), kMode);
  const Descriptor top(open(path.c_str(), kDirectory));
  if (!top.open()) return RuntimeFailure("{}: {}", path, Why());
  for (const char* const name : {"calls", "tensors"}) {
    (void)mkdirat(top.number(), name, kMode);
  }
  Descriptor calls = Folder(top, "calls");
  Descriptor tensors = Folder(top, "tensors");
  if (!calls.open() || !tensors.open()) {
    return RuntimeFailure("{}: {}", path, Why());
  }
  const int64_t used = BytesIn(calls) + BytesIn(tensors);
  return std::unique_ptr<Writer>(
      new Writer(std::move(calls), std::move(tensors), max_bytes - used));
}

bool Writer::Has(const std::string& digest) const {
  const std::string name = digest + std::string(kNpy);
  return faccessat(tensors_.number(), name.c_str(), F_OK, 0) == 0;
}

bool Writer::Reserve(size_t bytes) {
  full_ = static_cast<int64_t>(bytes) > bytes_left_;
  if (!full_) bytes_left_ -= static_cast<int64_t>(bytes);
  return !full_;
}

Status Writer::WriteFile(const Descriptor& in, const std::string& name,
                         std::string_view head,
                         std::span<const std::byte> rest) {
  (void)unlinkat(in.number(), name.c_str(), 0);
  const Descriptor file(openat(in.number(), name.c_str(),
                               O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (file.open() && WriteAll(file.number(), head.data(), head.size()) &&
      WriteAll(file.number(), rest.data(), rest.size())) {
    return {};
  }
  const std::string why = Why();
  (void)unlinkat(in.number(), name.c_str(), 0);
  return RuntimeFailure("{}: {}", name, why);
}

Status Writer::PutTensor(const ElementType& type, const std::string& digest,
                         std::span<const std::byte> bytes) {
  const std::string header =
      WriteNpyHeader(type.npy, {CountOf(type, bytes.size())});
  if (!Reserve(header.size() + bytes.size())) {
    return RuntimeFailure("the record is full");
  }
  const std::string unfinished = Str(".{}.{}", digest, getpid());
  const std::string name = digest + std::string(kNpy);
  FLASHACL_RETURN_IF_ERROR(WriteFile(tensors_, unfinished, header, bytes));
  if (renameat(tensors_.number(), unfinished.c_str(), tensors_.number(),
               name.c_str()) == 0) {
    return {};
  }
  return RuntimeFailure("{}: {}", name, Why());
}

Status Writer::PutCall(const Call& call) {
  const std::string json = ToJson(call);
  if (!Reserve(json.size())) return RuntimeFailure("the record is full");
  const std::string unfinished = Str(".{}", getpid());
  FLASHACL_RETURN_IF_ERROR(WriteFile(calls_, unfinished, json, {}));
  // Linking fails where another process took the number.
  int linked = -1;
  do {
    const std::string name = CallName(next_call_++) + std::string(kJson);
    linked = linkat(calls_.number(), unfinished.c_str(), calls_.number(),
                    name.c_str(), 0);
  } while (linked != 0 && errno == EEXIST);
  const std::string why = linked == 0 ? "" : Why();
  (void)unlinkat(calls_.number(), unfinished.c_str(), 0);
  return linked == 0 ? Status() : RuntimeFailure("calls: {}", why);
}

Reader::Reader(Descriptor calls, Descriptor tensors)
    : calls_(std::move(calls)), tensors_(std::move(tensors)) {}

Result<Reader> Reader::Open(const std::string& path) {
  const Descriptor top(open(path.c_str(), kDirectory));
  if (!top.open()) return Invalid("{}: {}", path, Why());
  Descriptor calls = Folder(top, "calls");
  if (!calls.open()) return Invalid("{}/calls: {}", path, Why());
  Descriptor tensors = Folder(top, "tensors");
  if (!tensors.open()) return Invalid("{}/tensors: {}", path, Why());
  return Reader(std::move(calls), std::move(tensors));
}

std::vector<std::string> Reader::Calls() const {
  std::vector<std::string> names;
  ForEntries(calls_, [&](const char* entry) {
    const std::string_view name(entry);
    if (!name.ends_with(kJson)) return;
    names.emplace_back(name.substr(0, name.size() - kJson.size()));
    if (!IsCallName(names.back())) names.pop_back();
  });
  std::ranges::sort(names, [](const std::string& a, const std::string& b) {
    return std::pair(a.size(), a) < std::pair(b.size(), b);
  });
  return names;
}

Result<Call> Reader::ReadCall(const std::string& name) const {
  if (!IsCallName(name)) return Invalid("{}: no number of a call", name);
  const std::string file = name + std::string(kJson);
  const Result<std::string> json = ReadFile(calls_, file, kMaxCallBytes);
  if (!json.ok()) return json.status();
  Result<Call> call = ParseCall(*json);
  if (!call.ok()) return Invalid("{}: {}", file, call.status().message());
  return call;
}

Result<std::vector<std::byte>> Reader::ReadTensor(
    const Tensor& tensor, const Contents& contents) const {
  const ElementType* const type = FindElementType(tensor.type);
  if (type == nullptr || !contents.kept || !IsDigest(contents.digest)) {
    return Invalid("the bytes of a tensor were not kept");
  }
  constexpr int64_t kMaxHeader = 1 << 17;
  const std::string file = contents.digest + std::string(kNpy);
  Result<std::string> text =
      ReadFile(tensors_, file, tensor.bytes + kMaxHeader);
  if (!text.ok()) return text.status();
  const Result<NpyHeader> header = ParseNpyHeader(*text);
  if (!header.ok()) {
    return Invalid("{}: {}", file, header.status().message());
  }
  const auto all = std::as_bytes(std::span(*text)).subspan(header->offset);
  const std::vector<int64_t> dims = {CountOf(*type, all.size())};
  if (header->descr != type->npy || header->dims != dims ||
      static_cast<int64_t>(all.size()) != tensor.bytes) {
    return Invalid("{}: ({}) of type {} in {} bytes, expected {} bytes of {}",
                   file, Join(header->dims, ", "), header->descr, all.size(),
                   tensor.bytes, type->npy);
  }
  Digest digest = DigestFor(*type);
  digest.Add(all);
  if (digest.Text() != contents.digest) {
    return Invalid("{}: it holds other bytes than its name says", file);
  }
  return std::vector<std::byte>(all.begin(), all.end());
}

}  // namespace flashacl::record
