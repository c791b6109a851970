// SPDX-License-Identifier: Apache-2.0
#include "tools/flashacl/check_words.h"

#include <unistd.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/nearest.h"
#include "base/number.h"
#include "base/str.h"
#include "problem/notation.h"
#include "problem/notation_fields.h"
#include "tools/flashacl/array_file.h"
#include "verify/check/user_results.h"
#include "verify/check/user_tensors.h"

namespace flashacl::tool {
namespace {

struct Assignment {
  std::string name;
  std::string file;
};

constexpr std::string_view kDump = "dump";

// What msProbe calls the tensors of a call of attention: arguments and results
// by their places.
struct DumpedTensor {
  std::string_view file;
  std::string_view name;
  bool backward;
};

constexpr DumpedTensor kDumped[] = {
    {".forward.input.0", "q", false},    {".forward.input.1", "k", false},
    {".forward.input.2", "v", false},    {".forward.output.0", "out", false},
    {".backward.input.0", "dout", true}, {".backward.output.0", "dq", true},
    {".backward.output.1", "dk", true},  {".backward.output.2", "dv", true}};

// A word that begins a line may hold all of it.
std::vector<std::string> SplitLines(const std::vector<std::string>& words) {
  std::vector<std::string> split;
  for (const std::string& word : words) {
    if (!word.starts_with("fwd ") && !word.starts_with("bwd ")) {
      split.push_back(word);
      continue;
    }
    for (const std::string_view part : notation_fields::Split(word, ' ')) {
      if (!part.empty()) split.emplace_back(part);
    }
  }
  return split;
}

bool IsLengths(std::string_view text) {
  return notation_fields::ReadLengths(text).has_value();
}

// Lengths, one number per sequence, as the notation has them.
Result<std::string> LengthsFrom(std::string text, const Python& python) {
  constexpr std::string_view kEnds = ":ends";
  const bool ends = text.ends_with(kEnds);
  if (ends) text.resize(text.size() - kEnds.size());
  const Result<Array> array = ReadArrayFile(text, "lengths", python);
  if (!array.ok()) return array.status();
  const bool integers =
      array->dtype == DType::kI32 || array->dtype == DType::kI64;
  if (!integers || array->dims.size() != 1) {
    return Invalid(
        "{}: expected integers on one axis, a length of each "
        "sequence",
        text);
  }
  std::string lengths;
  int64_t before = 0;
  for (int64_t n = 0; n < array->elements(); ++n) {
    const int64_t number =
        ReadIndex(array->dtype, array->bytes.data() + n * array->element_bytes);
    const int64_t length = ends ? number - before : number;
    if (length < 0) {
      return Invalid("{}: sequence {} has {} rows", text, n, length);
    }
    lengths += Str("{}{}", n == 0 ? "" : ",", length);
    before = number;
  }
  return lengths;
}

class Reader {
 public:
  explicit Reader(const Python& python) : python_(python) {}

  Result<CheckQuestion> Read(const std::vector<std::string>& words) {
    for (const std::string& word : SplitLines(words)) {
      FLASHACL_RETURN_IF_ERROR(Take(word));
    }
    for (const Assignment& dump : dumps_) {
      const bool backward = !fields_.empty() && fields_[0] == "bwd";
      FLASHACL_RETURN_IF_ERROR(TakeDump(dump, backward));
    }
    AddWhatFilesSay();
    const std::string line = Join(fields_, " ");
    Result<AttentionProblem> problem = Parse(line);
    if (!problem.ok()) {
      return Invalid("\"{}\": {}", line, problem.status().message());
    }
    question_.problem = std::move(*problem);
    FLASHACL_RETURN_IF_ERROR(ReadFiles());
    if (question_.results.empty()) {
      return NullArgument(
          "no result to check: {}=FILE",
          Join(ResultNames(question_.problem.direction), "=FILE, "));
    }
    return std::move(question_);
  }

  Result<std::vector<NamedResults>> ReadResultsOf(
      Direction direction, const std::vector<std::string>& words) {
    question_.problem.direction = direction;
    for (const std::string& word : words) FLASHACL_RETURN_IF_ERROR(Take(word));
    for (const std::string& field : fields_) {
      return Invalid("{}: the record says what is asked; results are NAME=FILE",
                     field);
    }
    for (const Assignment& dump : dumps_) {
      FLASHACL_RETURN_IF_ERROR(
          TakeDump(dump, direction == Direction::kBackward));
    }
    FLASHACL_RETURN_IF_ERROR(ReadFiles());
    if (!question_.inputs.empty()) {
      return Invalid("{}: the record has its own tensors; results are {}",
                     question_.inputs[0].name,
                     Join(ResultNames(direction), ", "));
    }
    return std::move(question_.results);
  }

 private:
  Status ReadFiles() {
    for (const Assignment& one : files_) {
      FLASHACL_RETURN_IF_ERROR(ReadOne(one));
    }
    return {};
  }

  bool HasFile(std::string_view name) const {
    return std::ranges::count(files_, name, &Assignment::name) > 0;
  }

  // Of anybody: max=FILE, or gpu.max=FILE.
  bool HasResult(std::string_view name) const {
    return std::ranges::any_of(files_, [name](const Assignment& one) {
      return one.name == name || one.name.ends_with(Str(".{}", name));
    });
  }

  bool HasField(std::string_view start) const {
    return std::ranges::any_of(fields_, [start](const std::string& one) {
      return one.starts_with(start);
    });
  }

  // What a tensor says needs no word.
  void AddWhatFilesSay() {
    for (const std::string_view field : {"bias", "sink"}) {
      const bool said = HasField(field) || HasField("alibi");
      if (HasFile(field) && !said) fields_.emplace_back(field);
    }
    if (!HasField("fwd")) return;
    const bool stats = HasResult("max") || HasResult("sum");
    if (stats && !HasField("stats")) fields_.emplace_back("stats");
    if (HasResult("lse") && !HasField("lse")) fields_.emplace_back("lse");
  }

  Status Take(const std::string& word) {
    const size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    if (equals == std::string::npos || name == "h" || name == "d") {
      fields_.push_back(word);
      return {};
    }
    std::string value = word.substr(equals + 1);
    const bool lengths = name == "q" || name == "k";
    if (lengths && IsLengths(value)) {
      fields_.push_back(word);
      return {};
    }
    const bool at = value.starts_with('@');
    if (at) value.erase(0, 1);
    if (lengths && at) {
      const Result<std::string> text = LengthsFrom(value, python_);
      if (!text.ok()) return text.status();
      fields_.push_back(Str("{}={}", name, *text));
      return {};
    }
    if (name == "layout") {
      question_.layout = value;
      return {};
    }
    if (name == kDump || name.ends_with("." + std::string(kDump))) {
      dumps_.push_back({name, value});
      return {};
    }
    if (HasFile(name)) return Invalid("{}: given twice", name);
    files_.push_back({name, value});
    return {};
  }

  // msProbe's files of one call: CALL.forward.input.0.npy and its like. Those
  // of another program give results alone.
  Status TakeDump(const Assignment& dump, bool backward) {
    const bool own = dump.name == kDump;
    const std::string whose =
        own ? "" : dump.name.substr(0, dump.name.size() - kDump.size());
    for (const DumpedTensor& one : kDumped) {
      const bool result = one.file.find("output") != one.file.npos;
      const bool wanted = one.backward ? backward : !(result && backward);
      if (!wanted || (!result && !own)) continue;
      const std::string file = dump.file + std::string(one.file);
      const std::string name = whose + std::string(one.name);
      bool found = false;
      for (const std::string_view suffix : {".npy", ".pt"}) {
        const std::string path = file + std::string(suffix);
        if (found || access(path.c_str(), F_OK) != 0) continue;
        found = true;
        if (!HasFile(name)) files_.push_back({name, path});
      }
      if (found || HasFile(name)) continue;
      return Invalid("{}: neither {}.npy nor {}.pt is there, for {}", dump.name,
                     file, file, name);
    }
    return {};
  }

  Status ReadOne(const Assignment& one) {
    const Direction direction = question_.problem.direction;
    const std::vector<std::string_view> results = ResultNames(direction);
    const std::vector<std::string_view> inputs = InputNames();
    const auto is_in = [](const auto& names, std::string_view name) {
      return std::ranges::count(names, name) > 0;
    };
    const size_t dot = one.name.rfind('.');
    const bool dotted =
        dot != std::string::npos && is_in(results, one.name.substr(dot + 1));
    const bool backward = direction == Direction::kBackward;
    if (!is_in(inputs, one.name) && !is_in(results, one.name) && !dotted &&
        backward) {
      return Invalid(
          "{}: neither a tensor nor a result{}; tensors are {}; results are "
          "{}, of others NAME.{}",
          one.name, DidYouMean(one.name, inputs), Join(inputs, ", "),
          Join(results, ", "), results[0]);
    }
    const std::string role = is_in(inputs, one.name)    ? one.name
                             : is_in(results, one.name) ? one.name
                             : dotted ? one.name.substr(dot + 1)
                                      : std::string(results[0]);
    Result<Array> array = ReadArrayFile(one.file, role, python_);
    if (!array.ok()) {
      return {array.status().code(),
              Str("{}: {}", one.name, array.status().message())};
    }
    if (is_in(inputs, one.name)) {
      question_.inputs.push_back({role, std::move(*array)});
      return {};
    }
    // "" is the user.
    const std::string whose = dotted ? one.name.substr(0, dot)
                              : is_in(results, one.name) ? ""
                                                         : one.name;
    std::vector<NamedArray>& arrays = ResultsOf(whose).arrays;
    if (std::ranges::count(arrays, role, &NamedArray::name) > 0) {
      return Invalid("{}: {} has two results {}", one.name, whose, role);
    }
    arrays.push_back({role, std::move(*array)});
    TitleOf(one, role, whose);
    return {};
  }

  NamedResults& ResultsOf(const std::string& whose) {
    const auto found = std::ranges::find(owners_, whose);
    const auto at = static_cast<size_t>(found - owners_.begin());
    if (found == owners_.end()) {
      owners_.push_back(whose);
      question_.results.emplace_back();
    }
    return question_.results[at];
  }

  // As a report calls them: outputs by their files, "out=a.npy max=m.npy", and
  // gradients, which are several, by who has them.
  void TitleOf(const Assignment& one, const std::string& role,
               const std::string& whose) {
    std::string& title = ResultsOf(whose).name;
    if (question_.problem.direction == Direction::kBackward) {
      title = whose.empty() ? "gradients" : whose;
      return;
    }
    if (!title.empty()) title += ' ';
    title += Str("{}={}", role == "out" && !whose.empty() ? whose : one.name,
                 one.file);
  }

  const Python& python_;
  std::vector<std::string> fields_;
  std::vector<Assignment> files_;
  std::vector<Assignment> dumps_;
  std::vector<std::string> owners_;  // of the question's results
  CheckQuestion question_;
};

}  // namespace

Result<CheckQuestion> ReadQuestion(const std::vector<std::string>& words,
                                   const Python& python) {
  return Reader(python).Read(words);
}

Result<std::vector<NamedResults>> ReadResults(
    const std::vector<std::string>& words, Direction direction,
    const Python& python) {
  return Reader(python).ReadResultsOf(direction, words);
}

}  // namespace flashacl::tool
