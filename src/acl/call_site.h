// SPDX-License-Identifier: Apache-2.0
// Where a program called one of our functions: strict mode tells it of what was
// made there and not released, or freed there and used again.
#pragma once

#include <string>
#include <string_view>

namespace flashacl::acl {

struct CallSite {
  std::string_view function;   // of ours; lives forever
  const void* from = nullptr;  // an address in the program; null: not known
};

// The innermost caller on the stack that is not in this library. Costs some
// microseconds; outside of strict mode it has the function alone.
CallSite CallSiteOf(std::string_view function);

// "aclrtFree in train_step (trainer+0x1a2b)"; less where less is known.
std::string ToString(const CallSite& site);

}  // namespace flashacl::acl
