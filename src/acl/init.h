// SPDX-License-Identifier: Apache-2.0
// Between aclInit and aclFinalize, and what other parts of the runtime add to
// the latter.
#pragma once

#include <string>

namespace flashacl::acl {

// Whether there was an aclInit, and no aclFinalize since.
bool IsInitialised();

// Runs `finalizer` each time the last reference is finalized, newest first.
// Adding the same function twice has no effect.
void AddFinalizer(void (*finalizer)());

// Strict mode asks each reporter at aclFinalize what was not released; it
// appends text such as "3 device blocks (264208 bytes)", or nothing. The
// handles of handle.h are counted already.
void AddLeakReporter(void (*reporter)(std::string* text));

}  // namespace flashacl::acl
