// SPDX-License-Identifier: Apache-2.0
// Bytes to what a reader of records gets: a call, the header of a tensor's
// file, a filter. Each is refused with a message, or means what it means when
// it is written again.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "arrays/npy.h"
#include "record/call_json.h"
#include "record/setting.h"

namespace {

using namespace flashacl::record;

void Require(bool holds) {
  if (!holds) std::abort();
}

void ReadCall(std::string_view text) {
  const auto call = ParseCall(text);
  if (!call.ok()) return Require(!call.status().message().empty());
  const std::string written = ToJson(*call);
  const auto again = ParseCall(written);
  Require(again.ok() && ToJson(*again) == written);
  // A view that was taken for one lies in its bytes.
  ForTensors(*call, [](const std::string&, const Tensor& tensor) {
    if (tensor.bytes == 0) return;
    int64_t last = 0;
    for (size_t axis = 0; axis < tensor.shape.size(); ++axis) {
      last += (tensor.shape[axis] - 1) * tensor.strides[axis];
    }
    const int bits = FindElementType(tensor.type)->bits;
    Require(((last + 1) * bits + 7) / 8 <= tensor.bytes);
  });
}

void ReadHeader(std::string_view text) {
  const auto header = flashacl::ParseNpyHeader(text);
  if (!header.ok()) return Require(!header.status().message().empty());
  Require(header->offset <= text.size());
}

void ReadSetting(std::string_view text) {
  const auto setting = ParseSetting(text);
  if (!setting.ok()) return Require(!setting.status().message().empty());
  Require(setting->first >= 1 && setting->every >= 1);
  (void)setting->Wants("aclnnAdd", setting->first);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  ReadCall(text);
  ReadHeader(text);
  ReadSetting(text);
  return 0;
}
