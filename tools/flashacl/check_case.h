// SPDX-License-Identifier: Apache-2.0
// What one check judges: tensors with their problem, and somebody's results;
// from files and a line, or from a record.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "record/directory.h"
#include "tools/flashacl/check_words.h"
#include "verify/check/tensor_check.h"

namespace flashacl::tool {

struct CheckCase {
  BoundInputs inputs;
  std::vector<Candidate> candidates;
};

Result<CheckCase> CaseOf(const CheckQuestion& question);

// Whether a command's first word names a record, not a line: a path.
bool NamesRecord(const std::string& word);

// A recorded call with the results that it wrote, "recorded", and those that
// `words` name, whose files have the shape of the record's tensors. Errors as
// ReadAttention's and ReadResults'.
Result<CheckCase> CaseOf(const record::Reader& reader, const record::Call& call,
                         const std::vector<std::string>& words,
                         const Python& python);

}  // namespace flashacl::tool
