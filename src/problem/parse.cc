// SPDX-License-Identifier: Apache-2.0
// Reads notation: a table of fields, each with its reader.
#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "base/nearest.h"
#include "base/str.h"
#include "problem/notation.h"
#include "problem/notation_fields.h"

namespace flashacl {
namespace {

using Bias = Score::Bias;
using Device = Lengths::Device;
using Rows = KvSource::Rows;
using Scales = ProblemSpec::Scales;
using notation_fields::ReadWhole;
using notation_fields::Split;

// What a line says while it is read: the scale's default depends on d.
struct Draft {
  ProblemSpec problem_spec;
  std::optional<float> scale;
  std::optional<DType> out;
};

struct Field {
  std::string_view name;
  std::string_view group;  // at most one field of a group may be given
  bool (*read)(std::string_view value, Draft& draft);
  std::string_view accepted;
};

bool ReadHeads(std::string_view value, Draft& draft) {
  const auto parts = Split(value, '/');
  const auto heads = ReadWhole(parts[0], 1);
  const auto kv_heads = ReadWhole(parts.back(), 1);
  if (!heads || !kv_heads || parts.size() > 2) return false;
  draft.problem_spec.heads = *heads;
  draft.problem_spec.kv_heads = *kv_heads;
  return true;
}

bool ReadDims(std::string_view value, Draft& draft) {
  const auto parts = Split(value, '/');
  const auto score = Split(parts[0], '+');
  if (parts.size() > 2 || score.size() > 2) return false;
  const auto qk = ReadWhole(score[0], 0);
  const auto rope = score.size() == 2 ? ReadWhole(score[1], 1) : 0;
  const auto v = parts.size() == 2 ? ReadWhole(parts[1], 0) : qk;
  if (!qk || !rope || !v) return false;
  draft.problem_spec.qk_dim = *qk;
  draft.problem_spec.rope_dim = *rope;
  draft.problem_spec.v_dim = *v;
  return true;
}

bool ReadRows(std::string_view value, Draft& draft) {
  auto lengths = notation_fields::ReadLengths(value);
  if (lengths) draft.problem_spec.rows = std::move(*lengths);
  return lengths.has_value();
}

bool ReadColumns(std::string_view value, Draft& draft) {
  auto lengths = notation_fields::ReadLengths(value);
  if (lengths) draft.problem_spec.columns = std::move(*lengths);
  return lengths.has_value();
}

bool ReadPrefix(std::string_view value, Draft& draft) {
  const auto columns = ReadWhole(value, 1);
  draft.problem_spec.prefix = columns.value_or(0);
  return columns.has_value();
}

bool ReadPaged(std::string_view value, Draft& draft) {
  const auto rows = ReadWhole(value, 1);
  draft.problem_spec.source = Rows::kPaged;
  draft.problem_spec.page_rows = rows.value_or(0);
  return rows.has_value();
}

bool ReadListed(std::string_view value, Draft& draft) {
  draft.problem_spec.source = Rows::kList;
  return value.empty();
}

bool ReadTopK(std::string_view value, Draft& draft) {
  const auto parts = Split(value, ':');
  const auto count = ReadWhole(parts[0], 0);
  const auto rows = parts.size() == 2 ? ReadWhole(parts[1], 1) : 1;
  if (!count || !rows || parts.size() > 2) return false;
  draft.problem_spec.selection = KvSource::Selection::kTopK;
  draft.problem_spec.top_k = *count;
  draft.problem_spec.gather_rows = *rows;
  return true;
}

bool ReadShared(std::string_view value, Draft& draft) {
  draft.problem_spec.value_is_key = true;
  return value.empty();
}

// Of keys, and of values that have another.
bool ReadEncodings(std::string_view value, Draft& draft) {
  const auto parts = Split(value, '/');
  if (parts.size() > 2) return false;
  const auto keys = notation_fields::ReadEncoding(parts[0]);
  const auto values = notation_fields::ReadEncoding(parts.back());
  if (!keys || !values) return false;
  // Rows of scales are counted in one way.
  const bool by_row =
      keys->scales > Scales::kChannel && values->scales > Scales::kChannel;
  const bool in_pages = keys->scales >= Scales::kPageRow;
  if (by_row && in_pages != (values->scales >= Scales::kPageRow)) return false;
  draft.problem_spec.keys = *keys;
  if (parts.size() == 2) draft.problem_spec.values = *values;
  return true;
}

bool ReadQuery(std::string_view value, Draft& draft) {
  draft.problem_spec.query_bytes = true;
  return value == "int8";
}

bool ReadInt4(std::string_view value, Draft& draft) {
  draft.problem_spec.int4 = true;
  return ReadEncodings(value, draft);
}

bool ReadBlocks(std::string_view value, Draft& draft) {
  const auto channels = ReadWhole(value, 1);
  draft.problem_spec.channel_block = channels.value_or(0);
  return channels.has_value();
}

bool ReadOut(std::string_view value, Draft& draft) {
  constexpr std::string_view kInt8 = "int8:";
  if (value.substr(0, kInt8.size()) == kInt8) {
    const auto encoding =
        notation_fields::ReadEncoding(value.substr(kInt8.size()));
    if (!encoding || encoding->scales > Scales::kChannel) return false;
    draft.problem_spec.out = *encoding;
    return true;
  }
  draft.out = ParseDType(value);
  return IsFloat(*draft.out);
}

bool ReadMask(std::string_view value, Draft& draft) {
  constexpr std::string_view kTail = "tail";
  if (value.substr(0, kTail.size()) == kTail) {
    draft.problem_spec.mask_tail = true;
    value.remove_prefix(kTail.size());
    if (value.size() == 1 || (!value.empty() && value[0] != ':')) return false;
    if (!value.empty()) value.remove_prefix(1);
  }
  draft.problem_spec.mask =
      value.empty() ? DefaultMaskAxes() : notation_fields::ReadAxes(value, "j");
  return draft.problem_spec.mask.has_value();
}

bool ReadBias(std::string_view value, Draft& draft) {
  ProblemSpec& problem_spec = draft.problem_spec;
  problem_spec.score.bias = Bias::kAfterScale;
  problem_spec.bias = DefaultBiasAxes(problem_spec.score.bias);
  if (value.empty()) return true;
  const auto parts = Split(value, ':');
  size_t at = 0;
  if (parts[at] == "before") {
    problem_spec.score.bias = Bias::kBeforeScale;
    ++at;
  }
  if (at < parts.size() && parts[at] != "diagonal") {
    const auto axes = notation_fields::ReadAxes(parts[at++], "j");
    if (!axes) return false;
    problem_spec.bias = *axes;
  }
  if (at == parts.size()) return true;
  if (parts.size() - at != 2 || parts[at] != "diagonal") return false;
  const auto rows = ReadWhole(parts[at + 1], 1);
  problem_spec.diagonal_rows = rows.value_or(0);
  return rows.has_value() && problem_spec.bias.row;
}

bool ReadAlibi(std::string_view value, Draft& draft) {
  ProblemSpec& problem_spec = draft.problem_spec;
  problem_spec.score.bias = Bias::kAlibi;
  problem_spec.bias = DefaultBiasAxes(problem_spec.score.bias);
  if (value.empty()) return true;
  const auto parts = Split(value, ':');
  size_t at = 0;
  if (parts[at] == "sqrt") {
    problem_spec.score.bias = Bias::kAlibiSqrt;
    ++at;
  }
  if (at == parts.size()) return true;
  const auto axes = notation_fields::ReadAxes(parts[at], "");
  if (!axes || parts[at].empty() || at + 1 != parts.size()) return false;
  problem_spec.bias = *axes;
  return true;
}

bool ReadStart(std::string_view value, Draft& draft) {
  const auto parts = Split(value, ':');
  if (parts.size() < 2 || parts.size() > 3) return false;
  const auto query = ReadWhole(parts[0], -Band::kOpen);
  const auto key = ReadWhole(parts[1], -Band::kOpen);
  const bool first = parts.size() == 3;
  if (!query || !key || (first && parts[2] != "first")) return false;
  draft.problem_spec.score.query_start = *query;
  draft.problem_spec.score.key_start = *key;
  draft.problem_spec.score.starts_only_first = first;
  return true;
}

bool ReadSink(std::string_view value, Draft& draft) {
  draft.problem_spec.sink = true;
  return value.empty();
}

bool ReadKeep(std::string_view value, Draft& draft) {
  const auto keep = notation_fields::ReadFloat(value);
  draft.problem_spec.keep = true;
  draft.problem_spec.score.keep_probability = keep.value_or(0.0f);
  return keep && *keep > 0.0f && *keep <= 1.0f;
}

bool ReadScale(std::string_view value, Draft& draft) {
  draft.scale = notation_fields::ReadFloat(value);
  return draft.scale.has_value();
}

bool ReadProbs(std::string_view value, Draft& draft) {
  const DType dtype = draft.problem_spec.dtype;
  draft.problem_spec.score.half_probs = true;
  return (dtype == DType::kBf16 || dtype == DType::kF16) &&
         value == Name(dtype);
}

bool ReadSides(std::string_view value, Device device, Draft& draft) {
  const bool queries = value == "q" || value == "qk";
  const bool keys = value == "k" || value == "qk";
  ProblemSpec& problem_spec = draft.problem_spec;
  // A side is of one kind.
  if (queries && problem_spec.query_lengths != Device::kNone) return false;
  if (keys && problem_spec.key_lengths != Device::kNone) return false;
  if (queries) problem_spec.query_lengths = device;
  if (keys) problem_spec.key_lengths = device;
  return queries || keys;
}

bool ReadCounts(std::string_view value, Draft& draft) {
  return ReadSides(value, Device::kCounts, draft);
}

bool ReadEnds(std::string_view value, Draft& draft) {
  return ReadSides(value, Device::kEnds, draft);
}

bool ReadPadding(std::string_view value, Draft& draft) {
  draft.problem_spec.query_padding = value == "q" || value == "qk";
  draft.problem_spec.key_padding = value != "q";
  return value.empty() || draft.problem_spec.query_padding;
}

bool ReadStats(std::string_view value, Draft& draft) {
  draft.problem_spec.row_stats = true;
  return value.empty();
}

bool ReadLse(std::string_view value, Draft& draft) {
  draft.problem_spec.lse = true;
  return value.empty();
}

bool ReadGradients(std::string_view value, Draft& draft) {
  if (draft.problem_spec.direction != Direction::kBackward) return false;
  const bool none = value == "none";
  if (!none && value.find_first_not_of("qkvbs") != std::string_view::npos) {
    return false;
  }
  const auto wants = [value, none](char letter) {
    return !none && value.find(letter) != std::string_view::npos;
  };
  draft.problem_spec.gradients = {.query = wants('q'),
                                  .key = wants('k'),
                                  .value = wants('v'),
                                  .bias = wants('b'),
                                  .sink = wants('s')};
  return true;
}

constexpr Field kFields[] = {
    {"h", "h", ReadHeads, "h=HEADS[/KV_HEADS]"},
    {"d", "d", ReadDims, "d=QK[+ROPE][/V]"},
    {"q", "q", ReadRows, "q=N, q=COUNTxN, or several joined by commas"},
    {"k", "k", ReadColumns, "k=N, k=COUNTxN, or several joined by commas"},
    {"prefix", "prefix", ReadPrefix, "prefix:COLUMNS"},
    {"paged", "where keys are", ReadPaged, "paged:ROWS"},
    {"list", "where keys are", ReadListed, "list"},
    {"topk", "topk", ReadTopK, "topk:N[:ROWS]"},
    {"shared", "shared", ReadShared, "shared"},
    {"int8", "int8", ReadEncodings,
     "int8:tensor, int8:channel, int8:row, int8:row-head, int8:page-row or "
     "int8:page-row-head, with +offset, and /ENCODING of other values"},
    {"query", "query", ReadQuery, "query:int8"},
    {"int4", "int8", ReadInt4,
     "int4:tensor, int4:channel, int4:row, int4:row-head, int4:page-row or "
     "int4:page-row-head, with +offset, and /ENCODING of other values"},
    {"blocks", "blocks", ReadBlocks, "blocks:CHANNELS"},
    {"out", "out", ReadOut,
     "out:f32, out:f16, out:bf16, out:int8:tensor or out:int8:channel, the "
     "last two with +offset"},
    {"mask", "mask", ReadMask,
     "mask[:tail][:AXES], axes of b h i j ending in j"},
    {"bias", "bias", ReadBias,
     "bias[:before][:AXES][:diagonal:ROWS], axes of b h i j ending in j"},
    {"alibi", "bias", ReadAlibi, "alibi[:sqrt][:AXES], axes b, h or bh"},
    {"start", "start", ReadStart, "start:QUERY:KEY[:first]"},
    {"sink", "sink", ReadSink, "sink"},
    {"keep", "keep", ReadKeep, "keep:P, more than 0 and at most 1"},
    {"scale", "scale", ReadScale, "scale:X"},
    {"probs", "probs", ReadProbs,
     "probs:bf16 or probs:f16, the dtype that stands first"},
    {"counts", "counts", ReadCounts,
     "counts:q, counts:k or counts:qk, of sides without ends"},
    {"ends", "ends", ReadEnds,
     "ends:q, ends:k or ends:qk, of sides without counts"},
    {"padding", "padding", ReadPadding, "padding, padding:q or padding:qk"},
    {"stats", "stats", ReadStats, "stats"},
    {"lse", "lse", ReadLse, "lse"},
    {"grad", "grad", ReadGradients, "in bwd grad:none, or letters of qkvbs"},
};

constexpr std::string_view kRuleNames[] = {"full", "causal", "causal-left",
                                           "window", "band"};
constexpr std::string_view kRulesAccepted =
    "full, causal[:PREFIX], causal-left[:PREFIX], window:LEFT:RIGHT[:PREFIX] "
    "or band:LOWER:UPPER[:PREFIX], or as many as sequences joined by commas";

struct Token {
  std::string_view text;
  size_t position;  // from 1
};

Status Expected(const Token& token, std::string_view accepted) {
  return Invalid("'{}' at character {}: expected {}", token.text,
                 token.position, accepted);
}

std::vector<Token> Tokens(std::string_view line) {
  constexpr std::string_view kSpaces = " \t\r\n";
  std::vector<Token> tokens;
  size_t first = line.find_first_not_of(kSpaces);
  while (first != std::string_view::npos) {
    const size_t last = line.find_first_of(kSpaces, first);
    tokens.push_back({line.substr(first, last - first), first + 1});
    first = line.find_first_not_of(kSpaces, std::min(last, line.size()));
  }
  return tokens;
}

bool IsRules(std::string_view text) {
  const std::string_view name = text.substr(0, text.find_first_of(":,"));
  if (name[0] >= '0' && name[0] <= '9') return true;
  return std::find(std::begin(kRuleNames), std::end(kRuleNames), name) !=
         std::end(kRuleNames);
}

// What a word that begins no field is told; `name` is what stands before its
// numbers.
std::string FieldNames(std::string_view name) {
  std::string names;
  std::vector<std::string_view> known(std::begin(kRuleNames),
                                      std::end(kRuleNames));
  for (const Field& field : kFields) {
    names += Str("{}, ", field.name);
    known.push_back(field.name);
  }
  return Str("{}or a mask rule{}", names, DidYouMean(name, known));
}

// Reads one field, and which group it was of.
Result<std::string_view> ReadField(const Token& token, Draft& draft) {
  const std::string_view text = token.text;
  if (IsRules(text)) {
    auto rules = notation_fields::ReadRules(text);
    if (!rules) return Expected(token, kRulesAccepted);
    draft.problem_spec.rules = std::move(*rules);
    return std::string_view("mask rules");
  }
  const size_t end = text.find_first_of("=:");
  const bool bare = end == std::string_view::npos;
  for (const Field& field : kFields) {
    if (text.substr(0, end) != field.name) continue;
    const bool letter = field.name.size() == 1;  // h=, d=, q=, k=
    const bool separated =
        bare ? !letter : end + 1 < text.size() && (text[end] == '=') == letter;
    const std::string_view value = bare ? "" : text.substr(end + 1);
    if (!separated || !field.read(value, draft)) {
      return Expected(token, field.accepted);
    }
    return field.group;
  }
  return Expected(token, FieldNames(text.substr(0, end)));
}

constexpr std::string_view kDTypes = "f32, f16, bf16 or i8";

Status ReadHead(const std::vector<Token>& tokens, Draft& draft) {
  if (tokens.empty()) return Invalid("empty line: expected fwd or bwd");
  const bool forward = tokens[0].text == "fwd";
  if (!forward && tokens[0].text != "bwd") {
    constexpr std::string_view kDirections[] = {"fwd", "bwd"};
    return Expected(tokens[0], Str("fwd or bwd{}",
                                   DidYouMean(tokens[0].text, kDirections)));
  }
  draft.problem_spec.direction =
      forward ? Direction::kForward : Direction::kBackward;
  if (tokens.size() < 2) return Invalid("line ends: expected {}", kDTypes);
  draft.problem_spec.dtype = ParseDType(tokens[1].text);
  if (!IsFloat(draft.problem_spec.dtype) &&
      draft.problem_spec.dtype != DType::kI8) {
    return Expected(tokens[1], kDTypes);
  }
  return {};
}

Status ReadFields(const std::vector<Token>& tokens, Draft& draft) {
  std::vector<std::string_view> given;
  for (size_t n = 2; n < tokens.size(); ++n) {
    const Result<std::string_view> group = ReadField(tokens[n], draft);
    if (!group.ok()) return group.status();
    if (std::find(given.begin(), given.end(), *group) != given.end()) {
      return Invalid("'{}' at character {}: {} is given twice", tokens[n].text,
                     tokens[n].position, *group);
    }
    given.push_back(*group);
  }
  for (std::string_view needed : {"h", "d", "q", "k"}) {
    if (std::find(given.begin(), given.end(), needed) == given.end()) {
      return Invalid("line ends: expected {}=", needed);
    }
  }
  return {};
}

Status Complete(Draft& draft) {
  ProblemSpec& problem_spec = draft.problem_spec;
  if (problem_spec.rows.size() != problem_spec.columns.size()) {
    return Contradiction("lengths: q names {} sequences, k names {}",
                         problem_spec.rows.size(), problem_spec.columns.size());
  }
  if (problem_spec.query_bytes && problem_spec.dtype == DType::kI8) {
    return Contradiction("query:int8: given in a line of i8");
  }
  const bool one = problem_spec.rules.size() <= 1;
  if (!one && problem_spec.rules.size() != problem_spec.rows.size()) {
    return Contradiction("mask: {} rules for {} sequences",
                         problem_spec.rules.size(), problem_spec.rows.size());
  }
  const Score& score = problem_spec.score;
  const bool starts = score.query_start != 0 || score.key_start != 0;
  if (starts && !IsAlibi(score.bias)) {
    return Contradiction("start: given without alibi");
  }
  if (problem_spec.int4 && problem_spec.channel_block % 8 != 0) {
    return Contradiction(
        "blocks: {} channels, expected whole words of 8 with int4",
        problem_spec.channel_block);
  }
  problem_spec.score.scale =
      draft.scale.value_or(DefaultScale(problem_spec.qk_dim));
  problem_spec.out_dtype = draft.out.value_or(DefaultFloat(problem_spec.dtype));
  return {};
}

}  // namespace

Result<AttentionProblem> Parse(std::string_view line) {
  const std::vector<Token> tokens = Tokens(line);
  Draft draft;
  FLASHACL_RETURN_IF_ERROR(ReadHead(tokens, draft));
  FLASHACL_RETURN_IF_ERROR(ReadFields(tokens, draft));
  FLASHACL_RETURN_IF_ERROR(Complete(draft));
  AttentionProblem problem = Build(draft.problem_spec);
  FLASHACL_RETURN_IF_ERROR(CheckProblem(problem));
  return problem;
}

}  // namespace flashacl
