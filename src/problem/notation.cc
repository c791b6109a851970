// SPDX-License-Identifier: Apache-2.0
// Writes notation: what is as usual is left out.
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
using Scales = Outline::Scales;

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

void WriteSizes(const Outline& outline, Line& line) {
  std::string heads = Str("h={}", outline.heads);
  if (outline.kv_heads != outline.heads) {
    heads += Str("/{}", outline.kv_heads);
  }
  line.Add(heads);
  std::string dims = Str("d={}", outline.qk_dim);
  if (outline.rope_dim > 0) dims += Str("+{}", outline.rope_dim);
  if (outline.v_dim != outline.qk_dim) dims += Str("/{}", outline.v_dim);
  line.Add(dims);
  line.Add("q=" + words::WriteLengths(outline.rows));
  line.Add("k=" + words::WriteLengths(outline.columns));
}

void WriteKeys(const Outline& outline, Line& line) {
  if (outline.source == Rows::kPaged) {
    line.Add(Str("paged:{}", outline.page_rows));
  } else if (outline.source == Rows::kList) {
    line.Add("list");
  }
  if (outline.selection == KvSource::Selection::kTopK) {
    std::string list = Str("topk:{}", outline.top_k);
    if (outline.gather_rows != 1) list += Str(":{}", outline.gather_rows);
    line.Add(list);
  }
  line.AddIf(outline.value_is_key, "shared");
  if (outline.keys.scales != Scales::kNone) {
    line.Add("int8:" + words::WriteEncoding(outline.keys));
  }
  if (outline.out.scales != Scales::kNone) {
    line.Add("out:int8:" + words::WriteEncoding(outline.out));
  } else if (outline.out_dtype != UsualFloat(outline.dtype)) {
    line.Add(Str("out:{}", Name(outline.out_dtype)));
  }
}

void WriteBias(const Outline& outline, Line& line) {
  const Score& score = outline.score;
  if (score.bias == Bias::kNone) return;
  const bool alibi = IsAlibi(score.bias);
  std::string text = alibi ? "alibi" : "bias";
  if (score.bias == Bias::kBeforeScale) text += ":before";
  if (score.bias == Bias::kAlibiSqrt) text += ":sqrt";
  if (outline.bias != UsualBiasAxes(score.bias)) {
    text += ":" + words::WriteAxes(outline.bias, alibi ? "" : "j");
  }
  if (outline.diagonal_rows > 0) {
    text += Str(":diagonal:{}", outline.diagonal_rows);
  }
  line.Add(text);
  if (score.query_start == 0 && score.key_start == 0) return;
  line.Add(Str("start:{}:{}{}", score.query_start, score.key_start,
               score.starts_only_first ? ":first" : ""));
}

void WriteScore(const Outline& outline, Line& line) {
  line.AddIf(!outline.rules.empty(), words::WriteRules(outline.rules));
  if (outline.mask) {
    const bool usual = *outline.mask == UsualMaskAxes();
    line.Add(usual ? "mask" : "mask:" + words::WriteAxes(*outline.mask, "j"));
  }
  WriteBias(outline, line);
  line.AddIf(outline.sink, "sink");
  if (outline.keep) {
    line.Add("keep:" + words::WriteFloat(outline.score.keep_probability));
  }
  if (outline.score.scale != UsualScale(outline.qk_dim)) {
    line.Add("scale:" + words::WriteFloat(outline.score.scale));
  }
}

void WriteRest(const Outline& outline, Line& line) {
  for (const auto& [device, name] : {std::pair{Device::kCounts, "counts"},
                                     std::pair{Device::kEnds, "ends"}}) {
    const bool queries = outline.query_lengths == device;
    const bool keys = outline.key_lengths == device;
    line.AddIf(queries || keys,
               Str("{}:{}{}", name, queries ? "q" : "", keys ? "k" : ""));
  }
  line.AddIf(outline.key_padding, "padding");
  const bool forward = outline.direction == Direction::kForward;
  line.AddIf(forward && outline.row_stats, "stats");
  const Outline::Gradients& wanted = outline.gradients;
  if (forward || wanted == Outline::Gradients()) return;
  const std::string letters =
      Str("{}{}{}{}{}", wanted.query ? "q" : "", wanted.key ? "k" : "",
          wanted.value && !outline.value_is_key ? "v" : "",
          wanted.bias ? "b" : "", wanted.sink && outline.sink ? "s" : "");
  line.Add("grad:" + (letters.empty() ? "none" : letters));
}

}  // namespace

std::string ToString(const AttentionProblem& problem) {
  const Outline outline = OutlineOf(problem);
  Line line;
  line.Add(outline.direction == Direction::kForward ? "fwd" : "bwd");
  line.Add(Name(outline.dtype));
  WriteSizes(outline, line);
  WriteKeys(outline, line);
  WriteScore(outline, line);
  WriteRest(outline, line);
  return line.Take();
}

}  // namespace flashacl
