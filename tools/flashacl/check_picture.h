// SPDX-License-Identifier: Apache-2.0
// A picture of where a result is wrong.
#pragma once

#include <string>

#include "base/status.h"
#include "verify/check/tensor_check.h"

namespace flashacl::tool {

// Of the sequence with most wrong rows: on the left the error of each row and
// head as a share of what is allowed, on the right who sees whom, with the
// wrong rows marked. `tensors` are the result's.
Status DrawCheck(const TensorSet& tensors, const CheckedResult& result,
                 const std::string& path);

}  // namespace flashacl::tool
