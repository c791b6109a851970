// SPDX-License-Identifier: Apache-2.0
// What people get wrong, as a table: each cause makes the problem that a wrong
// program computed, and the result is compared with the answer to that.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "verify/answer/answer.h"
#include "verify/answer/judgement.h"

namespace flashacl {

// One way to be wrong.
struct Trial {
  std::string detail;  // "scale 1, not 0.125"
  TensorSet tensors;
  Recipe recipe = {};
  // Roundings differ between programs: the answer need not be met, but must be
  // much nearer than the true one.
  bool nearer_is_enough = false;
};

struct Cause {
  std::string_view name;  // "causal-left for causal"
  void (*add)(const TensorSet& tensors, std::vector<Trial>& trials);
};

// In the order in which they are named where several explain as much.
std::vector<Cause> AllCauses();

// What was tried, and how much of what is wrong it explains.
struct Suspicion {
  std::string cause;
  std::string detail;
  double explained = 0;  // share of the wrong rows, 0 to 1
};

// What the judged result was compared with.
struct Judged {
  const TensorSet& tensors;  // with the result
  std::span<const Part> exact;
  const Allowance& allowance;
  const Judgement& judgement;
};

// The best trial of each cause that explains something, best first. Takes some
// seconds at most.
std::vector<Suspicion> FindCauses(const Judged& judged, Workers& workers);

// "sure", "likely", "perhaps" or "" for how much the first explains and how
// much more than the second does.
std::string_view Confidence(std::span<const Suspicion> suspicions);

// For trials that move rows: what the forward direction left is in places of
// its own, and is computed for them instead.
void DropForwardResults(TensorSet& tensors);

// Parts of the table.
std::vector<Cause> MaskCauses();
std::vector<Cause> ScoreCauses();
std::vector<Cause> PlaceCauses();
std::vector<Cause> GradientCauses();

}  // namespace flashacl
