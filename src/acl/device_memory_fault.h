// SPDX-License-Identifier: Apache-2.0
// Strict mode: who touches a freed block, or one that is closed to the host, is
// told which before the process ends by the signal.
#pragma once

namespace flashacl::acl {

// From now on SIGSEGV and SIGBUS are explained, if they are about such
// blocks, and then go the way they went before.
void ExplainFaults();

}  // namespace flashacl::acl
