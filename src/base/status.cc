// SPDX-License-Identifier: Apache-2.0
// Names of codes, and the message of a success.
#include "base/status.h"

#include "base/once.h"

namespace flashacl {

std::string_view Name(Code code) {
  switch (code) {
    case Code::kOk:
      return "ok";
    case Code::kNullArgument:
      return "null argument";
    case Code::kInvalidArgument:
      return "invalid argument";
    case Code::kContradiction:
      return "contradiction";
    case Code::kUnsupported:
      return "unsupported";
    case Code::kOutOfMemory:
      return "out of memory";
    case Code::kRuntime:
      return "runtime failure";
    case Code::kInternal:
      return "internal error";
  }
  return "unknown";
}

const std::string& Status::message() const {
  // Never destroyed: a status may be read while the process exits.
  static constinit MadeOnce<const std::string> none;
  return ok() ? *none : error_->message;
}

}  // namespace flashacl
