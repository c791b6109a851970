// SPDX-License-Identifier: Apache-2.0
#include "acl/call_contents.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <ctime>
#include <span>
#include <utility>

#include "acl/backend.h"
#include "acl/memory.h"
#include "acl/own_memory.h"
#include "base/fork.h"
#include "base/str.h"
#include "record/digest.h"
#include "record/directory.h"

namespace flashacl::acl {
namespace {

using record::ElementType;

// Device memory through its backend; memory of the program's own may not be
// there at all, which the system finds out.
bool ReadBytes(const std::byte* from, std::span<std::byte> to) {
  Block block;
  if (FindBlock(from, &block) &&
      static_cast<size_t>(from - block.base) + to.size() <= block.reserved) {
    DeviceMemory().Copy(to.data(), from, to.size());
    return true;
  }
  return ReadOwnMemory(from, to);
}

// Reads bytes in parts that stay in a cache; false if they are not all there.
template <typename F>
bool ForParts(const std::byte* first, size_t bytes, F&& body) {
  constexpr size_t kPart = size_t{64} << 10;
  std::vector<std::byte> part(std::min(bytes, kPart));
  for (size_t done = 0; done < bytes; done += part.size()) {
    part.resize(std::min(part.size(), bytes - done));
    if (!ReadBytes(first + done, part)) return false;
    body(std::span<const std::byte>(part));
  }
  return true;
}

record::Layout LayoutOf(const ElementType& type, const record::Tensor& tensor) {
  return {type.dtype, tensor.shape, tensor.strides};
}

struct Looked {
  record::Contents contents;
  std::optional<NewBytes> fresh;  // nobody has stored them yet
};

Looked LookAt(const std::shared_ptr<const Recording>& recording,
              const ElementType& type, const record::Tensor& tensor,
              const std::byte* first) {
  Looked looked;
  const bool keep = !recording->setting.statistics_only;
  const auto bytes = static_cast<size_t>(tensor.bytes);
  record::Digest digest = record::DigestFor(type);
  record::StatisticsSum sum(type.dtype);
  const bool dense = record::IsDense(LayoutOf(type, tensor));
  const bool read = ForParts(first, bytes, [&](auto part) {
    digest.Add(part);
    if (dense) sum.Add(part);
  });
  if (!read) return looked;
  looked.contents.digest = digest.Text();
  looked.contents.statistics = sum.Get();
  looked.contents.kept = keep;
  const bool known = !keep || IsWritten(recording, looked.contents.digest);
  if (known && dense) return looked;
  NewBytes fresh{&type, {}, std::vector<std::byte>(bytes)};
  if (!ReadBytes(first, fresh.bytes)) return Looked();
  looked.contents.statistics =
      record::StatisticsOf(fresh.bytes, LayoutOf(type, tensor));
  if (known) return looked;
  record::Digest copied = record::DigestFor(type);
  copied.Add(fresh.bytes);
  fresh.digest = looked.contents.digest = copied.Text();
  looked.fresh = std::move(fresh);
  return looked;
}

}  // namespace

record::Tensor DescriptionOf(const Tensor& tensor) {
  const auto first = [&](const std::array<int64_t, kMaxRank>& of) {
    return std::vector<int64_t>(of.begin(),
                                of.begin() + static_cast<int>(tensor.rank));
  };
  record::Tensor copy;
  const std::string_view type = TypeText(tensor.acl_dtype);
  copy.type = type.find(' ') == std::string_view::npos ? type : "";
  copy.type_number = static_cast<int32_t>(tensor.acl_dtype);
  copy.format = static_cast<int32_t>(tensor.format);
  copy.shape = first(tensor.dims);
  copy.strides = first(tensor.strides);
  copy.offset = tensor.offset;
  if (tensor.storage_dims != nullptr) copy.storage = *tensor.storage_dims;
  copy.has_data = tensor.data != nullptr;
  return copy;
}

void LookInto(const std::shared_ptr<const Recording>& recording,
              const record::Tensor& tensor, const std::byte* first,
              std::optional<record::Contents>& contents,
              std::vector<NewBytes>& fresh) {
  const ElementType* const type = record::FindElementType(tensor.type);
  if (type == nullptr) return;
  Looked looked = LookAt(recording, *type, tensor, first);
  contents = std::move(looked.contents);
  if (looked.fresh.has_value()) fresh.push_back(*std::move(looked.fresh));
}

int64_t NextCallNumber() {
  static constinit PerProcess<std::atomic<int64_t>> calls;
  return (*calls).fetch_add(1) + 1;
}

std::string TimeText(const timespec& time) {
  std::tm utc{};
  gmtime_r(&time.tv_sec, &utc);
  return Str("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z", utc.tm_year + 1900,
             utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec,
             time.tv_nsec / 1000);
}

std::string NowText() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return TimeText(now);
}

}  // namespace flashacl::acl
