// SPDX-License-Identifier: Apache-2.0
// flashacl help: topics, and the pages that are installed.
#include "tools/flashacl/help.h"

#include <cstdio>
#include <functional>
#include <iterator>
#include <memory>
#include <vector>

#include "base/nearest.h"
#include "base/str.h"
#include "flashacl_notation.h"
#include "tools/flashacl/command.h"
#include "tools/flashacl/wrap.h"

namespace flashacl::tool {
namespace {

// A name and what it says, beside each other or, on narrow terminals, below.
std::string Entry(const std::string& name, const std::string& description) {
  constexpr int kNarrow = 64;
  const int columns = TerminalColumns();
  const int beside = columns < kNarrow ? 6 : 30;
  std::string entry = Str("  {}", name);
  const bool below = static_cast<int>(entry.size()) + 1 > beside;
  const std::string margin(static_cast<size_t>(beside), ' ');
  if (below) {
    entry += "\n" + margin;
  } else {
    entry.resize(static_cast<size_t>(beside), ' ');
  }
  for (const char c : Wrap(description, columns - beside)) {
    entry += c;
    if (c == '\n') entry += margin;
  }
  return entry + "\n";
}

struct Topic {
  std::string_view name;
  std::string_view about;
  std::string (*text)(const CLI::App& tool);
};

// Code and tables keep their lines.
std::string Notation(const CLI::App& /*tool*/) {
  std::string text;
  std::string_view rest = kNotation;
  bool code = false;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size() - 1) + 1;
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end);
    const bool fence = line.starts_with("```");
    if (fence) code = !code;
    const bool keeps = code || fence || line.starts_with('|');
    text += keeps ? std::string(line) : Wrap(line, TerminalColumns());
  }
  return text;
}

constexpr Topic kTopics[] = {
    {"notation", "the words of a problem's line", Notation},
    {"man", "the manual page, for man(1)", ManPage},
    {"bash", "what completes commands in bash", BashCompletion},
    {"zsh", "in zsh", ZshCompletion},
    {"fish", "in fish", FishCompletion},
};

int Help(const CLI::App& tool, const std::string& topic) {
  if (topic.empty()) {
    fmt::print("{}", tool.help());
    return kSuccess;
  }
  std::vector<std::string_view> known;
  std::vector<std::string> commands;
  for (const CLI::App* command : tool.get_subcommands({})) {
    if (command->get_name() == topic) {
      fmt::print("{}", command->help("flashacl"));
      return kSuccess;
    }
    commands.push_back(command->get_name());
  }
  known.assign(commands.begin(), commands.end());
  for (const Topic& one : kTopics) {
    if (one.name == topic) {
      fmt::print("{}", one.text(tool));
      return kSuccess;
    }
    known.push_back(one.name);
  }
  return Mistake(Invalid("help: nothing about {}{}; there are {}", topic,
                         DidYouMean(topic, known), Join(known, ", ")));
}

}  // namespace

std::string NarrowFormatter::make_help(const CLI::App* app, std::string name,
                                       CLI::AppFormatMode mode) const {
  return Wrap(CLI::Formatter::make_help(app, std::move(name), mode),
              TerminalColumns(), /*hanging=*/2);
}

std::string NarrowFormatter::make_option(const CLI::Option* option,
                                         bool positional) const {
  return Entry(make_option_name(option, positional) + make_option_opts(option),
               make_option_desc(option));
}

std::string NarrowFormatter::make_subcommand(const CLI::App* command) const {
  return Entry(command->get_name(), command->get_description());
}

Command MakeHelp(CLI::App& tool) {
  std::string about = "About a command, or ";
  for (const Topic& topic : kTopics) {
    const bool last = &topic == std::end(kTopics) - 1;
    about += Str("{}: {}{}", topic.name, topic.about, last ? "" : "; ");
  }
  CLI::App* app = tool.add_subcommand(
      "help", "Commands, the notation of problems, the manual page");
  auto topic = std::make_shared<std::string>();
  app->add_option("topic", *topic, about)->type_name("TOPIC");
  return {app, [topic, &tool] { return Help(tool, *topic); }};
}

}  // namespace flashacl::tool
