// SPDX-License-Identifier: Apache-2.0
#include "acl/meaning.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <set>

#include "acl/finding.h"
#include "base/fork.h"
#include "base/number.h"
#include "base/once.h"
#include "base/str.h"
#include "plan/sequences.h"

namespace flashacl::acl {
namespace {

using Advice = std::vector<std::string>;

// Lengths of packed sequences are ends, one after the other.
void AdviseOnEnds(std::string_view what, int64_t rows,
                  const std::vector<Sequence>& sequences, Range Sequence::*side,
                  Advice& advice) {
  int64_t sum = 0;
  std::vector<int64_t> ends, as_ends;
  for (const Sequence& sequence : sequences) {
    ends.push_back((sequence.*side).last);
    as_ends.push_back(sum += ends.back());
  }
  if (ends.empty() || ends.back() >= rows) return;
  if (sum == rows) {
    advice.push_back(Str(
        "{} lengths {} are read as ends of sequences, and leave rows {} to "
        "{} to none; as ends they would be {}",
        what, Join(ends, ", "), ends.back(), rows - 1, Join(as_ends, ", ")));
    return;
  }
  advice.push_back(
      Str("{} rows {} to {} belong to no sequence: the last one "
          "ends at {}",
          what, ends.back(), rows - 1, ends.back()));
}

// Rows whose mask leaves no key, by the rules alone.
void AdviseOnUnseeing(const AttentionProblem& problem,
                      const std::vector<Sequence>& sequences, Advice& advice) {
  int64_t unseeing = 0;
  int64_t first_sequence = -1, first_row = -1;
  for (size_t b = 0; b < sequences.size(); ++b) {
    const int64_t rows = sequences[b].rows();
    const int64_t columns = sequences[b].columns();
    const Band band =
        problem.mask.BandOf(static_cast<int64_t>(b), rows, columns);
    for (int64_t i = 0; i < rows; ++i) {
      const auto seen = band.Row(i, columns);
      if (!seen[0].empty() || !seen[1].empty()) continue;
      if (unseeing++ > 0) continue;
      first_sequence = static_cast<int64_t>(b);
      first_row = i;
    }
  }
  if (unseeing == 0) return;
  advice.push_back(
      Str("{} row{} see no key and become 0, the first of them row {} of "
          "sequence {} ({} rows, {} keys)",
          unseeing, unseeing == 1 ? "" : "s", first_row, first_sequence,
          sequences[static_cast<size_t>(first_sequence)].rows(),
          sequences[static_cast<size_t>(first_sequence)].columns()));
}

// All that a scale of integers multiplies becomes 0.
void AdviseOnScale(const AttentionProblem& problem, const Bindings& bindings,
                   Slot slot, Advice& advice) {
  if (!problem.has(slot) || bindings[slot] == nullptr) return;
  const TensorSpec& spec = problem[slot];
  if (!IsFloat(spec.dtype)) return;
  if (ReadNumber(spec.dtype, bindings[slot]) != 0) return;
  advice.push_back(
      Str("{}: its first number is 0, which makes 0 of all that "
          "it scales",
          Name(slot)));
}

}  // namespace

Status CheckNumbers(const AttentionProblem& problem) {
  const float scale = problem.score.scale;
  if (std::isfinite(scale)) return {};
  return Invalid("scaleValue: {}, expected a finite number", scale);
}

Advice AdviceOn(const AttentionProblem& problem, const Bindings& bindings) {
  Advice advice;
  const std::vector<Sequence> sequences = ResolveSequences(problem, bindings);
  const TensorSpec& query = problem[Slot::kQuery];
  const TensorSpec& key = problem[Slot::kKey];
  if (query.strides[0] == 0 && problem.lengths.count() > 1) {
    AdviseOnEnds("query", query.dims[1], sequences, &Sequence::queries, advice);
  }
  const bool packed_keys = problem.kv.rows == KvSource::Rows::kStrided &&
                           key.present() && key.strides[0] == 0;
  if (packed_keys && problem.lengths.count() > 1) {
    AdviseOnEnds("key", key.dims[1], sequences, &Sequence::keys, advice);
  }
  if (!problem.has(Slot::kTopK)) {
    AdviseOnUnseeing(problem, sequences, advice);
  }
  for (const Slot slot :
       {Slot::kKeyScale, Slot::kValueScale, Slot::kKeyRowScale,
        Slot::kValueRowScale, Slot::kOutScale, Slot::kWeightScale}) {
    AdviseOnScale(problem, bindings, slot, advice);
  }
  return advice;
}

void AdviseOnce(std::string_view operator_name, const std::string& advice) {
  constexpr size_t kMost = 1000;
  struct Told {
    ProcessMutex mutex;
    std::set<std::string> texts;
  };
  static constinit MadeOnce<Told> all;
  Told& told = *all;
  {
    std::lock_guard lock(told.mutex);
    if (told.texts.size() >= kMost) return;
    if (!told.texts.insert(Str("{}{}", operator_name, advice)).second) return;
  }
  Advise(operator_name, advice);
}

}  // namespace flashacl::acl
