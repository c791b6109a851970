// SPDX-License-Identifier: Apache-2.0
// The timeline of a whole process, in the file that FLASHACL_TRACE names.
#pragma once

#include <string>
#include <string_view>

namespace flashacl::acl::profile {

// Whether a path asks for a timeline: it ends in .json. Others ask for the
// lines of acl/trace.h.
bool IsTimelinePath(std::string_view path);

// Where this process writes what `path` asks for: "%p" becomes its number; a
// forked child, whose parent writes `path` itself, adds its number in any case.
std::string PathOfThisProcess(std::string_view path);

// Whether the environment asks for a timeline. If so, it is written at the exit
// of the process and at aclFinalize.
bool TraceIsAskedFor();

// Writes what came so far. A trace that cannot be written is no error.
void WriteTraceFile() noexcept;

}  // namespace flashacl::acl::profile
