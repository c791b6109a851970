// SPDX-License-Identifier: Apache-2.0
// Tensors as records have them: how they were described, and what lies in them
// at one moment.
#pragma once

#include <cstddef>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "acl/call_writer.h"
#include "acl/recording.h"
#include "acl/tensor.h"
#include "record/call.h"

namespace flashacl::acl {

// What a program said of a tensor; nothing is read.
record::Tensor DescriptionOf(const Tensor& tensor);

// Digest and statistics of the tensor's bytes at `first`, of which `fresh` gets
// those that are to be stored and are not yet. The digest is of what is stored,
// whoever writes there meanwhile; empty where nobody can read.
void LookInto(const std::shared_ptr<const Recording>& recording,
              const record::Tensor& tensor, const std::byte* first,
              std::optional<record::Contents>& contents,
              std::vector<NewBytes>& fresh);

// The n-th call of this process while calls are recorded.
int64_t NextCallNumber();

// UTC, as records have it.
std::string TimeText(const timespec& time);
std::string NowText();

}  // namespace flashacl::acl
