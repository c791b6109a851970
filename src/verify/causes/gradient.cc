// SPDX-License-Identifier: Apache-2.0
// What only gradients get wrong.
#include "verify/causes/causes.h"

namespace flashacl {
namespace {

bool IsForward(const TensorSet& tensors) {
  return tensors.problem.direction == Direction::kForward;
}

Trial With(const TensorSet& tensors, std::string_view detail, Recipe recipe) {
  return {std::string(detail), tensors, recipe};
}

void ForgetDelta(const TensorSet& tensors, std::vector<Trial>& trials) {
  if (IsForward(tensors)) return;
  trials.push_back(With(tensors,
                        "p dp is not lessened by p times the row's dout.out",
                        {.without_delta = true}));
}

void ForgetGradScale(const TensorSet& tensors, std::vector<Trial>& trials) {
  if (IsForward(tensors)) return;
  trials.push_back(With(tensors, "dq and dk are not multiplied by the scale",
                        {.scale_once_less = true}));
}

void ForgetHeads(const TensorSet& tensors, std::vector<Trial>& trials) {
  if (IsForward(tensors) || tensors.problem.group() == 1) return;
  const int64_t group = tensors.problem.group();
  for (const int64_t head : {group - 1, int64_t{0}}) {
    trials.push_back(With(tensors,
                          head == 0 ? "dk and dv have the first query head of "
                                      "those that share a kv head"
                                    : "dk and dv have the last query head of "
                                      "those that share a kv head",
                          {.only_head_of_group = head}));
  }
}

void SwapGradients(const TensorSet& tensors, std::vector<Trial>& trials) {
  // One of them may be all that is checked.
  const AttentionProblem& problem = tensors.problem;
  if (IsForward(tensors) || problem.qk_dim != problem.v_dim ||
      !problem.has(Slot::kGradKey) || !problem.has(Slot::kGradValue)) {
    return;
  }
  Trial trial{"dk holds dv, and dv holds dk", tensors};
  TensorSet& set = trial.tensors;
  std::swap(set.problem[Slot::kGradKey], set.problem[Slot::kGradValue]);
  std::swap(set.bindings[Slot::kGradKey], set.bindings[Slot::kGradValue]);
  trials.push_back(std::move(trial));
}

// Rows' maxima and sums are right, and what backward computes is not.
template <size_t kPart>
void InBackwardOnly(const TensorSet& tensors, std::vector<Trial>& trials) {
  if (IsForward(tensors)) return;
  const std::vector<Cause> causes = kPart == 0 ? MaskCauses() : ScoreCauses();
  for (const Cause& cause : causes) {
    if (cause.name == "lengths for ends") continue;
    std::vector<Trial> own;
    cause.add(tensors, own);
    for (Trial& trial : own) {
      if (trial.nearer_is_enough || trial.recipe.single) continue;
      trial.recipe.stats = &tensors;
      trial.detail = std::string(cause.name) + ": " + trial.detail;
      trials.push_back(std::move(trial));
    }
  }
}

}  // namespace

std::vector<Cause> GradientCauses() {
  return {{"gradients lack dout.out", ForgetDelta},
          {"gradients lack the scale", ForgetGradScale},
          {"gradients lack heads of a group", ForgetHeads},
          {"dk and dv swapped", SwapGradients},
          {"mask mistaken in backward only", InBackwardOnly<0>},
          {"score mistaken in backward only", InBackwardOnly<1>}};
}

}  // namespace flashacl
