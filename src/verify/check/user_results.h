// SPDX-License-Identifier: Apache-2.0
// Results that somebody brought, as those of a problem: an output, what softmax
// leaves of rows, or gradients.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "verify/check/user_tensors.h"

namespace flashacl {

// The names of the results in a direction.
std::vector<std::string_view> ResultNames(Direction direction);

// Which of a direction's results a name of ResultNames is.
std::optional<Slot> ResultSlot(Direction direction, std::string_view name);

// The problem with results that are laid out as its inputs are.
AttentionProblem WithAnyResults(const AttentionProblem& problem);

// The inputs with somebody's results: `results` have names of ResultNames, and
// messages call them `whose`. Outputs and gradients have the inputs' layout,
// what softmax leaves of rows a shape of RowResultSpec. Numbers become the
// problem's data types.
Result<TensorSet> BindResults(const BoundInputs& inputs,
                              std::span<const UserTensor> results,
                              std::string_view whose);

}  // namespace flashacl
