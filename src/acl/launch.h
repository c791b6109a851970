// SPDX-License-Identifier: Apache-2.0
// What phase two knows of an executor before it runs.
#pragma once

#include "acl/executor.h"
#include "base/status.h"
#include "plan/bindings.h"

namespace flashacl::acl {

// Where the slots of an attention's problem are, by the addresses that its
// arguments have now; under the executor's lock. kNullArgument if a tensor with
// elements has none.
Result<Bindings> BindingsOf(const Executor& executor);

}  // namespace flashacl::acl
