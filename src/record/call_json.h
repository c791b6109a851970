// SPDX-License-Identifier: Apache-2.0
// A call as a JSON document, which docs/records.md describes.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "record/call.h"

namespace flashacl::record {

std::string ToJson(const Call& call);

// What ToJson wrote; fails naming what is missing or of the wrong kind.
Result<Call> ParseCall(std::string_view json);

}  // namespace flashacl::record
