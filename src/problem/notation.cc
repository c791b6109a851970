// SPDX-License-Identifier: Apache-2.0
// Writes notation: defaults are left out.
#include "problem/notation.h"

#include <utility>

#include "base/str.h"
#include "problem/notation_fields.h"
#include "problem/problem_spec.h"

namespace flashacl {
namespace {

using Bias = Score::Bias;
using Device = Lengths::Device;
using Rows = KvSource::Rows;
using Scales = ProblemSpec::Scales;

// Appends fields, separated by spaces.
class Line {
 public:
  void Add(std::string_view field) {
    if (!text_.empty()) text_ += ' ';
    text_ += field;
  }
  void AddIf(bool condition, std::string_view field) {
    if (condition) Add(field);
  }
  std::string Take() { return std::move(text_); }

 private:
  std::string text_;
};

void WriteSizes(const ProblemSpec& problem_spec, Line& line) {
  std::string heads = Str("h={}", problem_spec.heads);
  if (problem_spec.kv_heads != problem_spec.heads) {
    heads += Str("/{}", problem_spec.kv_heads);
  }
  line.Add(heads);
  std::string dims = Str("d={}", problem_spec.qk_dim);
  if (problem_spec.rope_dim > 0) dims += Str("+{}", problem_spec.rope_dim);
  if (problem_spec.v_dim != problem_spec.qk_dim)
    dims += Str("/{}", problem_spec.v_dim);
  line.Add(dims);
  line.Add("q=" + notation_fields::WriteLengths(problem_spec.rows));
  line.Add("k=" + notation_fields::WriteLengths(problem_spec.columns));
  line.AddIf(problem_spec.prefix > 0, Str("prefix:{}", problem_spec.prefix));
}

void WriteKeys(const ProblemSpec& problem_spec, Line& line) {
  if (problem_spec.source == Rows::kPaged) {
    line.Add(Str("paged:{}", problem_spec.page_rows));
  } else if (problem_spec.source == Rows::kList) {
    line.Add("list");
  }
  if (problem_spec.selection == KvSource::Selection::kTopK) {
    std::string list = Str("topk:{}", problem_spec.top_k);
    if (problem_spec.gather_rows != 1)
      list += Str(":{}", problem_spec.gather_rows);
    line.Add(list);
  }
  line.AddIf(problem_spec.value_is_key, "shared");
  if (problem_spec.keys.scales != Scales::kNone) {
    std::string text = Str("{}:{}", problem_spec.int4 ? "int4" : "int8",
                           notation_fields::WriteEncoding(problem_spec.keys));
    if (problem_spec.values.scales != Scales::kNone) {
      text += "/" + notation_fields::WriteEncoding(problem_spec.values);
    }
    line.Add(text);
  }
  line.AddIf(problem_spec.query_bytes, "query:int8");
  if (problem_spec.channel_block != 0) {
    line.Add(Str("blocks:{}", problem_spec.channel_block));
  }
  if (problem_spec.out.scales != Scales::kNone) {
    line.Add("out:int8:" + notation_fields::WriteEncoding(problem_spec.out));
  } else if (problem_spec.out_dtype != DefaultFloat(problem_spec.dtype)) {
    line.Add(Str("out:{}", Name(problem_spec.out_dtype)));
  }
}

void WriteBias(const ProblemSpec& problem_spec, Line& line) {
  const Score& score = problem_spec.score;
  if (score.bias == Bias::kNone) return;
  const bool alibi = IsAlibi(score.bias);
  std::string text = alibi ? "alibi" : "bias";
  if (score.bias == Bias::kBeforeScale) text += ":before";
  if (score.bias == Bias::kAlibiSqrt) text += ":sqrt";
  if (problem_spec.bias != DefaultBiasAxes(score.bias)) {
    text +=
        ":" + notation_fields::WriteAxes(problem_spec.bias, alibi ? "" : "j");
  }
  if (problem_spec.diagonal_rows > 0) {
    text += Str(":diagonal:{}", problem_spec.diagonal_rows);
  }
  line.Add(text);
  if (score.query_start == 0 && score.key_start == 0) return;
  line.Add(Str("start:{}:{}{}", score.query_start, score.key_start,
               score.starts_only_first ? ":first" : ""));
}

void WriteScore(const ProblemSpec& problem_spec, Line& line) {
  line.AddIf(!problem_spec.rules.empty(),
             notation_fields::WriteRules(problem_spec.rules));
  if (problem_spec.mask) {
    const bool is_default = *problem_spec.mask == DefaultMaskAxes();
    std::string text = "mask";
    if (problem_spec.mask_tail) text += ":tail";
    if (!is_default) {
      text += ":" + notation_fields::WriteAxes(*problem_spec.mask, "j");
    }
    line.Add(text);
  }
  WriteBias(problem_spec, line);
  line.AddIf(problem_spec.sink, "sink");
  if (problem_spec.keep) {
    line.Add("keep:" +
             notation_fields::WriteFloat(problem_spec.score.keep_probability));
  }
  if (problem_spec.score.scale != DefaultScale(problem_spec.qk_dim)) {
    line.Add("scale:" + notation_fields::WriteFloat(problem_spec.score.scale));
  }
  if (problem_spec.score.half_probs) {
    line.Add("probs:" + std::string(Name(problem_spec.dtype)));
  }
}

void WriteRest(const ProblemSpec& problem_spec, Line& line) {
  for (const auto& [device, name] : {std::pair{Device::kCounts, "counts"},
                                     std::pair{Device::kEnds, "ends"}}) {
    const bool queries = problem_spec.query_lengths == device;
    const bool keys = problem_spec.key_lengths == device;
    line.AddIf(queries || keys,
               Str("{}:{}{}", name, queries ? "q" : "", keys ? "k" : ""));
  }
  const bool query_padding = problem_spec.query_padding;
  line.AddIf(problem_spec.key_padding && !query_padding, "padding");
  line.AddIf(query_padding,
             problem_spec.key_padding ? "padding:qk" : "padding:q");
  const bool forward = problem_spec.direction == Direction::kForward;
  line.AddIf(forward && problem_spec.row_stats, "stats");
  line.AddIf(problem_spec.lse, "lse");
  const ProblemSpec::Gradients& wanted = problem_spec.gradients;
  if (forward || wanted == ProblemSpec::Gradients()) return;
  const std::string letters =
      Str("{}{}{}{}{}", wanted.query ? "q" : "", wanted.key ? "k" : "",
          wanted.value && !problem_spec.value_is_key ? "v" : "",
          wanted.bias ? "b" : "", wanted.sink && problem_spec.sink ? "s" : "");
  line.Add("grad:" + (letters.empty() ? "none" : letters));
}

}  // namespace

std::string ToString(const AttentionProblem& problem) {
  const ProblemSpec problem_spec = SpecOf(problem);
  Line line;
  line.Add(problem_spec.direction == Direction::kForward ? "fwd" : "bwd");
  line.Add(Name(problem_spec.dtype));
  WriteSizes(problem_spec, line);
  WriteKeys(problem_spec, line);
  WriteScore(problem_spec, line);
  WriteRest(problem_spec, line);
  return line.Take();
}

}  // namespace flashacl
