// SPDX-License-Identifier: Apache-2.0
// A recorded call of attention as what it asks for: a problem, and its tensors
// as they were, in host memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "plan/bindings.h"
#include "problem/attention_problem.h"
#include "record/directory.h"

namespace flashacl::replay {

// A result that the call wrote.
struct RecordedResult {
  Slot slot = Slot::kOut;
  const record::Tensor* tensor = nullptr;  // of the call
  std::string name;                        // "attentionOut"
  int64_t offset_bytes = 0;                // of the slot in the tensor's bytes
};

// Views of results and `memory` live as long as the call and this do.
struct RecordedAttention {
  AttentionProblem problem;  // with the lengths that the run had
  // Inputs as before the run, results as after it; other outputs have none.
  Bindings bindings;
  std::vector<RecordedResult> results;  // the output, or gradients
  std::vector<std::string> others;      // outputs besides: "softmaxMaxOut"
  std::vector<std::shared_ptr<const std::vector<std::byte>>> memory;
};

// Plans the call again, as replaying does, and takes the plan's problem: the
// operator says what its arguments mean. kInvalidArgument for a call that
// failed or never ran, and where bytes are missing or broken; kUnsupported for
// operators that are no attention.
Result<RecordedAttention> ReadAttention(const record::Reader& reader,
                                        const record::Call& call);

}  // namespace flashacl::replay
