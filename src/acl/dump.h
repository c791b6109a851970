// SPDX-License-Identifier: Apache-2.0
// CANN's dumps, which are records here: of the file of aclInit, of
// aclmdlSetDump and of aclopStartDumpArgs. One of them at a time; where
// FLASHACL_RECORD is set, it records, and they are checked alone.
#pragma once

#include <optional>
#include <string>

#include "acl/acl_base.h"
#include "acl/recording.h"

namespace flashacl::acl {

// What the file of aclInit asks for; the directory is checked already.
void StartDumpOfInit(const std::optional<RecordingSetting>& setting);

// All of them, at aclFinalize.
void EndDumps();

// The same of a file, into *text; 100003 if it cannot be read.
aclError ReadConfiguration(const char* function, const char* path,
                           std::string* text);

// 100009 where the file's dump settings are wrong, or their directory.
aclError ReadDump(const char* function, const char* path,
                  const std::string& text,
                  std::optional<RecordingSetting>* setting);

}  // namespace flashacl::acl
