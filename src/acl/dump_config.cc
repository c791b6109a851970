// SPDX-License-Identifier: Apache-2.0
#include "acl/dump_config.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "acl/say.h"
#include "base/nearest.h"
#include "base/str.h"

namespace flashacl::acl {
namespace {

using Words = std::vector<std::string_view>;

struct DumpMember {
  enum Kind { kText, kOther, kList, kObjects };

  bool IsList() const { return kind == kList || kind == kObjects; }
  std::string Shown() const;

  std::string key;
  Kind kind;
  std::string text;  // of what is no list
};

// What "dump" holds, as a parser tells of it. A tree of values would need
// memory to be destroyed, and end the process where there is none.
struct DumpMembers {
  using Number = nlohmann::json;

  const DumpMember* Find(std::string_view key) const {
    const auto at = std::ranges::find(members, key, &DumpMember::key);
    return at == members.end() ? nullptr : &*at;
  }

  bool null() { return Value("null", "null"); }
  bool boolean(bool value) {
    return Value("boolean", value ? "true" : "false");
  }
  bool number_integer(Number::number_integer_t value) {
    return Value("number", std::to_string(value));
  }
  bool number_unsigned(Number::number_unsigned_t value) {
    return Value("number", std::to_string(value));
  }
  bool number_float(Number::number_float_t, const std::string& text) {
    return Value("number", text);
  }
  bool string(const std::string& text) {
    return Value("string", text, DumpMember::kText);
  }
  bool binary(const Number::binary_t&) { return false; }
  bool start_object(size_t) {
    if (depth == 0) in_object = true;
    if (depth == 1 && in_dump) other_type.clear();
    if (depth != 1) Value("object", "an object");
    ++depth;
    return true;
  }
  bool start_array(size_t) {
    Value("array", "", DumpMember::kObjects);
    ++depth;
    return true;
  }
  bool key(const std::string& name) {
    if (depth == 1) in_dump = name == "dump";
    if (depth == 2) last_key = name;
    return true;
  }
  bool end_object() { return --depth >= 0; }
  bool end_array() { return --depth >= 0; }
  bool parse_error(size_t, const std::string&,
                   const nlohmann::detail::exception&) {
    return false;
  }

  // Of the file, of "dump", of one of its members, or in a list there.
  bool Value(std::string_view type, const std::string& text,
             DumpMember::Kind kind = DumpMember::kOther) {
    if (!in_dump) return true;
    if (depth == 1) other_type = type;
    if (depth == 2) members.push_back({last_key, kind, text});
    if (depth == 3 && type != "object" && members.back().IsList()) {
      members.back().kind = DumpMember::kList;
    }
    return true;
  }

  bool in_object = false;
  std::string other_type;  // of "dump", where it is no object
  std::vector<DumpMember> members;

 private:
  int depth = 0;
  bool in_dump = false;
  std::string last_key;
};

std::string DumpMember::Shown() const {
  if (IsList()) return "a list";
  return kind == kText ? Str("\"{}\"", text) : text;
}

// A key whose value is one of some words, the first if it is missing.
struct Choice {
  std::string_view key;
  Words words;
};

const Choice kOpSwitch = {"dump_op_switch", {"off", "on"}};
const Choice kMode = {"dump_mode", {"output", "input", "all"}};
const Choice kData = {"dump_data", {"tensor", "stats"}};
const Choice kDebug = {"dump_debug", {"off", "on"}};
const Choice kLevel = {"dump_level", {"all", "op", "kernel"}};
const Choice kScene = {"dump_scene",
                       {"", "lite_exception", "aic_err_brief_dump",
                        "aic_err_norm_dump", "aic_err_detail_dump", "watcher"}};

constexpr std::string_view kKeys[] = {
    "dump_path",  "dump_op_switch", "dump_mode",       "dump_data",
    "dump_debug", "dump_scene",     "dump_list",       "dump_step",
    "dump_level", "dump_stats",     "dump_kernel_data"};

std::string Joined(std::span<const std::string_view> words) {
  std::string all;
  for (const std::string_view word : words) {
    if (word.empty()) continue;
    all += all.empty() ? "" : word == words.back() ? " or " : ", ";
    all += Str("\"{}\"", word);
  }
  return all;
}

Status Wrong(std::string_view key, std::string_view shown,
             std::string_view expected) {
  return Invalid("dump.{} is {}, expected {}", key, shown, expected);
}

std::string Quoted(std::string_view text) { return Str("\"{}\"", text); }

Result<std::string> TextOf(const DumpMembers& dump, std::string_view key) {
  const DumpMember* const member = dump.Find(key);
  if (member == nullptr) return std::string();
  if (member->kind != DumpMember::kText) {
    return Wrong(key, member->Shown(), "a text");
  }
  return member->text;
}

Result<std::string> ChoiceOf(const DumpMembers& dump, const Choice& choice) {
  const Result<std::string> text = TextOf(dump, choice.key);
  if (!text.ok()) return text.status();
  if (text->empty()) return std::string(choice.words.front());
  if (std::ranges::find(choice.words, *text) != choice.words.end()) return text;
  return Wrong(choice.key, Quoted(*text),
               Joined(choice.words) + DidYouMean(*text, choice.words));
}

bool IsNumber(std::string_view text) {
  return !text.empty() && text.size() < 10 &&
         text.find_first_not_of("0123456789") == std::string_view::npos;
}

// "0", "3-5", "0|5-10|20".
bool IsSteps(std::string_view text) {
  while (true) {
    const size_t bar = text.find('|');
    const std::string_view one = text.substr(0, bar);
    const size_t dash = one.find('-');
    if (!IsNumber(one.substr(0, dash))) return false;
    if (dash != std::string_view::npos && !IsNumber(one.substr(dash + 1))) {
      return false;
    }
    if (bar == std::string_view::npos) return true;
    text.remove_prefix(bar + 1);
  }
}

// What chooses among models and their iterations.
Status CheckModels(const DumpMembers& dump) {
  const Result<std::string> steps = TextOf(dump, "dump_step");
  if (!steps.ok()) return steps.status();
  if (!steps->empty() && !IsSteps(*steps)) {
    return Wrong("dump_step", Quoted(*steps), "numbers and ranges, as 0|3-5");
  }
  const DumpMember* const stats = dump.Find("dump_stats");
  if (stats != nullptr && !stats->IsList()) {
    return Wrong("dump_stats", stats->Shown(), "a list");
  }
  const DumpMember* const list = dump.Find("dump_list");
  if (list == nullptr || list->kind == DumpMember::kObjects) return {};
  return Wrong("dump_list", list->Shown(), "a list of objects");
}

// A key that nobody knows chooses nothing, which somebody may have missed.
void NameUnknownKeys(const DumpMembers& dump) {
  for (const DumpMember& member : dump.members) {
    const std::string& key = member.key;
    if (std::ranges::find(kKeys, key) != std::end(kKeys)) continue;
    Log(Level::kWarning, "FLASHACL",
        Str("dump.{} is no key of dumps, and ignored{}", key,
            DidYouMean(key, kKeys)));
  }
}

Status ReadPath(const DumpMembers& dump, bool needed,
                RecordingSetting& setting) {
  const Result<std::string> path = TextOf(dump, "dump_path");
  if (!path.ok()) return path.status();
  if (path->empty() && needed) {
    return Invalid("dump.dump_path is missing, expected a directory");
  }
  setting.directory = path->empty() ? "." : *path;
  return {};
}

// What the switches choose, in the order in which CANN lets them.
struct Chosen {
  std::string scene, debug, operators, mode, data;

  void Apply(RecordingSetting& setting) const {
    if (!scene.empty() && scene != "watcher") {
      setting.only_failed = true;
      return;
    }
    setting.statistics_only = data == "stats";
    if (debug == "on") {
      setting.only_bad_numbers = true;
      return;
    }
    setting.operators = operators == "on";
    setting.inputs = mode != "output";
    setting.outputs = mode != "input";
  }
};

Result<RecordingSetting> Read(const DumpMembers& dump) {
  Chosen chosen;
  std::string level;
  const std::pair<const Choice&, std::string&> all[] = {
      {kScene, chosen.scene},        {kDebug, chosen.debug},
      {kOpSwitch, chosen.operators}, {kMode, chosen.mode},
      {kData, chosen.data},          {kLevel, level}};
  for (const auto& [choice, into] : all) {
    Result<std::string> text = ChoiceOf(dump, choice);
    if (!text.ok()) return text.status();
    into = *std::move(text);
  }
  FLASHACL_RETURN_IF_ERROR(CheckModels(dump));
  RecordingSetting setting;
  FLASHACL_RETURN_IF_ERROR(ReadPath(dump, chosen.scene.empty(), setting));
  chosen.Apply(setting);
  NameUnknownKeys(dump);
  return setting;
}

}  // namespace

Result<std::optional<RecordingSetting>> ParseDump(std::string_view text) {
  std::optional<RecordingSetting> none;
  // Of what has no dump, more is none of our business.
  if (text.find("\"dump\"") == std::string_view::npos) return none;
  DumpMembers dump;
  if (!nlohmann::json::sax_parse(text, &dump) || !dump.in_object) {
    return Invalid("it is not a JSON object");
  }
  if (!dump.other_type.empty()) {
    return Invalid("dump is {}, expected an object", dump.other_type);
  }
  if (dump.members.empty()) return none;
  Result<RecordingSetting> setting = Read(dump);
  if (!setting.ok()) return setting.status();
  return std::optional<RecordingSetting>(*std::move(setting));
}

Status CheckDumpDirectory(const std::string& path) {
  namespace fs = std::filesystem;
  struct stat facts {};
  std::string at = path;
  if (stat(at.c_str(), &facts) != 0 && errno == ENOENT) {
    // It is made when the first call is recorded, if only the last part of it
    // is missing.
    at = fs::absolute(path).lexically_normal().string();
    while (at.size() > 1 && at.ends_with('/')) at.pop_back();
    at = fs::path(at).parent_path().string();
  }
  errno = 0;
  if (stat(at.c_str(), &facts) == 0 && !S_ISDIR(facts.st_mode)) errno = ENOTDIR;
  if (errno == 0 && access(at.c_str(), W_OK | X_OK) == 0) return {};
  return Invalid("{}: {}, expected a directory that can be written", at,
                 std::strerror(errno));
}

}  // namespace flashacl::acl
