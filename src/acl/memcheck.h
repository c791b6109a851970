// SPDX-License-Identifier: Apache-2.0
// Memcheck: whether the memory that a call was given holds what its arguments
// say. Operators never ask; phase two does, for all of them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "acl/executor.h"
#include "acl/memory.h"
#include "acl/racecheck.h"
#include "base/status.h"

namespace flashacl::acl {

// Keeps the blocks of the executor's tensors and of its workspace in `use`.
// kInvalidArgument, naming argument, range and block, if one of them is not
// inside of one block. Memory that the runtime has not handed out is as long as
// the caller says; strict mode refuses it, unless it is registered, and outputs
// that lie where other arguments do. Under the executor's lock.
Status UseMemory(const Executor& executor, const void* workspace,
                 BlockUse* use);

// "key[2]"; what comes after the tensors is the workspace.
std::string NameOf(const Executor& executor, size_t address);

// What a run touches, for race- and initcheck; nothing outside of strict mode.
// Under the executor's lock.
std::vector<Access> AccessesOf(const Executor& executor, const void* workspace);

// 0, or what strict mode says where bytes around blocks were written: 507015.
aclError FindDamage(std::string_view function);

}  // namespace flashacl::acl
