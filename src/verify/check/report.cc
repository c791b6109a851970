// SPDX-License-Identifier: Apache-2.0
// What a check found, in lines.
#include <algorithm>
#include <map>

#include "base/str.h"
#include "problem/notation.h"
#include "verify/check/tensor_check.h"

namespace flashacl {
namespace {

constexpr size_t kShown = 5;  // worst rows and heads

bool OfKeys(Slot slot) {
  return slot == Slot::kGradKey || slot == Slot::kGradKeyRope ||
         slot == Slot::kGradValue;
}

// "0, 2-5": numbers that ascend.
std::string Ranges(const std::vector<int64_t>& numbers) {
  std::string text;
  for (size_t n = 0; n < numbers.size();) {
    size_t last = n;
    while (last + 1 < numbers.size() &&
           numbers[last + 1] == numbers[last] + 1) {
      ++last;
    }
    if (!text.empty()) text += ", ";
    text += last == n ? Str("{}", numbers[n])
                      : Str("{}-{}", numbers[n], numbers[last]);
    n = last + 1;
  }
  return text;
}

// "32-bit", as users know their numbers.
std::string_view TypeOf(const AttentionProblem& problem, Slot slot) {
  return Name(problem[slot].dtype);
}

struct WorstRow {
  const HeadJudgement* head;
  const RowJudgement* row;
};

std::vector<WorstRow> WorstRows(const Judgement& judgement) {
  std::vector<WorstRow> rows;
  for (const HeadJudgement& head : judgement.heads) {
    for (const RowJudgement& row : head.rows) {
      if (row.wrong()) rows.push_back({&head, &row});
    }
  }
  const size_t some = std::min(kShown, rows.size());
  std::ranges::partial_sort(rows, rows.begin() + static_cast<ptrdiff_t>(some),
                            [](const WorstRow& a, const WorstRow& b) {
                              return a.row->share > b.row->share;
                            });
  rows.resize(some);
  return rows;
}

std::string DescribeRows(const Judgement& judgement) {
  std::string text;
  for (const WorstRow& worst : WorstRows(judgement)) {
    const bool keys = OfKeys(worst.head->slot);
    text += Str(
        "    {} sequence {} {} {} {} {} channel {}: {:.6g} is not {:.6g}, "
        "{:.3g} "
        "times what is allowed\n",
        Name(worst.head->slot), worst.head->sequence, keys ? "kv head" : "head",
        worst.head->head, keys ? "key" : "row", worst.row->row,
        worst.row->channel, worst.row->got, worst.row->want, worst.row->share);
  }
  return text;
}

// A verdict per sequence, and in it per head.
std::string DescribeHeads(const Judgement& judgement) {
  std::map<std::pair<Slot, int64_t>, std::vector<const HeadJudgement*>> groups;
  for (const HeadJudgement& head : judgement.heads) {
    groups[{head.slot, head.sequence}].push_back(&head);
  }
  std::string text;
  std::map<std::pair<Slot, std::string>, std::vector<int64_t>> alike;
  for (const auto& [place, heads] : groups) {
    // Pieces of a head are several.
    std::map<int64_t, int64_t> wrong;
    for (const HeadJudgement* head : heads) {
      wrong[head->head] += head->wrong_rows;
    }
    std::vector<int64_t> right_heads;
    std::vector<int64_t> wrong_heads;
    for (const auto& [head, rows] : wrong) {
      (rows == 0 ? right_heads : wrong_heads).push_back(head);
    }
    std::string verdict;
    if (wrong_heads.empty()) {
      verdict = "right";
    } else if (right_heads.empty()) {
      verdict = "WRONG in every head";
    } else {
      verdict = Str("WRONG in heads {}; right in {}", Ranges(wrong_heads),
                    Ranges(right_heads));
    }
    alike[{place.first, verdict}].push_back(place.second);
  }
  for (const auto& [what, sequences] : alike) {
    text +=
        Str("    {} sequence{} {}: {}\n", Name(what.first),
            sequences.size() == 1 ? "" : "s", Ranges(sequences), what.second);
  }
  return text;
}

// The heads that are farthest off.
std::string DescribeWorstHeads(const Judgement& judgement) {
  std::vector<const HeadJudgement*> heads;
  for (const HeadJudgement& head : judgement.heads) {
    if (head.wrong_rows > 0) heads.push_back(&head);
  }
  std::ranges::stable_sort(heads,
                           [](const HeadJudgement* a, const HeadJudgement* b) {
                             return a->share > b->share;
                           });
  heads.resize(std::min(kShown, heads.size()));
  std::string text;
  for (const HeadJudgement* head : heads) {
    text += Str(
        "    {} sequence {} {} {}: {} of {} {} wrong, error {:.3g}, expected "
        "{:.3g}\n",
        Name(head->slot), head->sequence,
        OfKeys(head->slot) ? "kv head" : "head", head->head, head->wrong_rows,
        head->rows.size(), OfKeys(head->slot) ? "keys" : "rows", head->error,
        head->expected_error);
  }
  return text;
}

std::string DescribeCauses(const CheckedResult& result) {
  const std::vector<Suspicion>& all = result.suspicions;
  const std::string_view confidence = Confidence(all);
  const auto percent = [](const Suspicion& one) {
    return Str("{:.0f} %", 100 * one.explained);
  };
  if (confidence.empty()) {
    return all.empty() ? "  cause: none that is known explains it\n"
                       : Str("  cause: none that is known explains half of it; "
                             "nearest is {} ({}): {}\n",
                             all[0].cause, percent(all[0]), all[0].detail);
  }
  std::string text =
      Str("  cause, {}: {}\n    {}\n    explains {} of the wrong rows",
          confidence, all[0].cause, all[0].detail, percent(all[0]));
  if (all.size() > 1) {
    text += Str("; next is {}, {}", all[1].cause, percent(all[1]));
  }
  return text + "\n";
}

// How far off each of the results is, a line each.
std::string DescribeSizes(const AttentionProblem& problem,
                          const Judgement& judgement) {
  std::map<Slot, HeadJudgement> greatest;
  for (const HeadJudgement& head : judgement.heads) {
    HeadJudgement& most = greatest[head.slot];
    most.error = std::max(most.error, head.error);
    most.share = std::max(most.share, head.share);
    most.expected_error = std::max(most.expected_error, head.expected_error);
  }
  std::string text;
  for (const auto& [slot, most] : greatest) {
    const std::string whose =
        greatest.size() == 1 ? "" : Str("{}: ", Name(slot));
    text += Str(
        "  {}error {:.3g}, {:.3g} of what is allowed; a plain computation in "
        "{} has {:.3g}\n",
        whose, most.error, most.share, TypeOf(problem, slot),
        most.expected_error);
  }
  return text;
}

std::string DescribeResult(const TensorCheck& check,
                           const CheckedResult& result) {
  const Judgement& judgement = result.judgement;
  if (judgement.heads.empty()) return Str("{}: no result\n", result.name);
  const std::string_view type = TypeOf(check.problem, judgement.heads[0].slot);
  const std::string sizes = DescribeSizes(check.problem, judgement);
  if (judgement.right()) {
    return Str("{}: right: {} explains its error\n{}", result.name, type,
               sizes);
  }
  std::string text = Str("{}: WRONG in {} of {} rows\n{}", result.name,
                         judgement.wrong_rows, judgement.rows, sizes);
  if (result.wrong_zeros > 0) {
    text += Str("  {} of the wrong rows are all 0\n", result.wrong_zeros);
  }
  if (result.wrong_specials > 0) {
    text += Str("  {} of the wrong rows have a NaN or an infinity\n",
                result.wrong_specials);
  }
  text += DescribeCauses(result);
  text += "  verdicts\n" + DescribeHeads(judgement);
  text += "  worst heads\n" + DescribeWorstHeads(judgement);
  return text + "  worst rows\n" + DescribeRows(judgement);
}

}  // namespace

std::string Describe(const TensorCheck& check) {
  std::string text = Str("{}\n", ToString(check.problem));
  text += Str("  tensors are {}; {} of {} rows of heads checked\n",
              check.layout, check.rows, check.all_rows);
  for (const std::string& note : check.notes) {
    text += Str("  note: {}\n", note);
  }
  for (const CheckedResult& result : check.results) {
    text += DescribeResult(check, result);
  }
  return text;
}

}  // namespace flashacl
