// SPDX-License-Identifier: Apache-2.0
// Writes a timeline in the trace-event format, which Perfetto, Chrome and
// PyTorch's tools read: https://perfetto.dev/docs "trace event format".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "acl/profile/timeline.h"
#include "base/status.h"

namespace flashacl::acl::profile {

// Rows of streams are those of a process of their own, whose number is this
// much above the real one's: more than any process has.
inline constexpr int64_t kStreamsOfProcess = int64_t{1} << 22;

// The row of a stream there.
inline int64_t RowOfStream(int32_t stream) { return int64_t{stream} + 1; }

// Adds `text` to `out` as a JSON string. Bytes that are no UTF-8 become U+FFFD.
void AppendString(std::string_view text, std::string& out);

// kRuntime if the file cannot be made, or not be written to its end.
Status WriteTrace(const Recorded& recorded, const std::string& path);

}  // namespace flashacl::acl::profile
