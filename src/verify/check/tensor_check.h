// SPDX-License-Identifier: Apache-2.0
// Who is right: results that somebody brought against the fp64 answer to their
// own tensors, head by head, and why the wrong ones are wrong.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "verify/answer/judgement.h"
#include "verify/causes/causes.h"
#include "verify/check/user_tensors.h"

namespace flashacl {

struct CheckOptions {
  // Up to which all rows are checked, and as many as go into it where a problem
  // is larger; some seconds.
  double flops = 4e9;
  bool causes = true;
};

// Somebody's results.
struct Candidate {
  std::string name;
  TensorSet tensors;
};

struct CheckedResult {
  std::string name;
  Judgement judgement;
  int64_t wrong_zeros = 0;     // wrong rows that are all 0
  int64_t wrong_specials = 0;  // and with a NaN or an infinity where none is
  std::vector<Suspicion> suspicions;  // best first; none where it is right
};

struct TensorCheck {
  AttentionProblem problem;
  std::string layout;
  std::vector<std::string> notes;
  int64_t rows = 0;      // of queries in heads, that were checked
  int64_t all_rows = 0;  // that there are
  std::vector<CheckedResult> results;

  bool right() const;
};

// Computes the answer once for all candidates. kUnsupported as CheckAnswerable.
Result<TensorCheck> CheckTensors(const BoundInputs& inputs,
                                 const std::vector<Candidate>& candidates,
                                 const CheckOptions& options, Workers& workers);

// The whole report as lines for people.
std::string Describe(const TensorCheck& check);

}  // namespace flashacl
