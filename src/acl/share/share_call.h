// SPDX-License-Identifier: Apache-2.0
// What the functions that share things have in common: checks of names and
// processes, and what they say where sharing fails.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "acl/acl_base.h"
#include "acl/share/shared_object.h"

namespace flashacl::acl {

// Why SharedObject::Create or a file failed, from errno. 207000 where the
// system has no shared memory: callers take that for "not supported".
aclError FailToShare(std::string_view function);

// 507899, or what `code` is, and why an object cannot be opened. `value` is
// what the caller gave.
aclError FailToOpen(ShareOpening opening, std::string_view function,
                    std::string_view parameter, std::string value,
                    aclError code);

// 107000: aclFinalize has ended the sharing of what the caller gave, `value`.
aclError FailFinalized(std::string_view function, std::string_view parameter,
                       std::string value);

// Puts `count` processes on the white list of an object of this process.
aclError AllowProcesses(std::string_view function, SharedObject& object,
                        const int32_t* pids, size_t count);

// The caller's buffer for a name: 107000 if it has no room for 65 bytes.
aclError CheckNameBuffer(std::string_view function, size_t bytes);

// Writes a name into such a buffer.
void WriteName(uint64_t number, char* buffer);

// A name of a caller; 0 if it is none. Reads no further than names go.
uint64_t NumberOf(const char* name);

// What a message shows of a caller's name.
std::string Shown(const char* name);

}  // namespace flashacl::acl
