// SPDX-License-Identifier: Apache-2.0
// The manual page and the shells' completions: walks over commands and options.
#include <string>
#include <string_view>
#include <vector>

#include "base/str.h"
#include "tools/flashacl/help.h"

namespace flashacl::tool {
namespace {

std::vector<const CLI::App*> CommandsOf(const CLI::App& tool) {
  return tool.get_subcommands([](const CLI::App*) { return true; });
}

// "--json", "--help": every name that begins with two dashes.
std::vector<std::string> OptionsOf(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      names.push_back("--" + name);
    }
  }
  return names;
}

// In roff a line must not begin with a dot, and a bare hyphen may become a
// dash.
std::string Roff(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    const bool begins = escaped.empty() || escaped.back() == '\n';
    if (begins && (c == '.' || c == '\'')) escaped += "\\&";
    if (c == '\\' || c == '-') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

// Between single quotes, for every shell here.
std::string Quoted(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'') {
      quoted += "'\\''";
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

std::string ManOptions(const CLI::App& command) {
  std::string text;
  for (const CLI::Option* option : command.get_options()) {
    const bool positional = option->get_positional();
    std::string type = option->get_type_name();
    if (option->get_type_size() == 0) type.clear();
    const std::string name = positional ? type : option->get_name(false, true);
    text += Str(".TP\n\\fB{}\\fR{}\n{}\n", Roff(name),
                positional || type.empty() ? "" : " " + Roff(type),
                Roff(option->get_description()));
  }
  return text;
}

}  // namespace

std::string ManPage(const CLI::App& tool) {
  std::string text =
      Str(".TH FLASHACL 1 \"\" \"FlashACL {}\" \"User Commands\"\n"
          ".SH NAME\nflashacl \\- look at attention problems, plans, masks and "
          "machines\n"
          ".SH SYNOPSIS\n\\fBflashacl\\fR \\fICOMMAND\\fR [\\fIOPTION\\fR]... "
          "[\\fILINE\\fR|\\fIFILE\\fR]...\n"
          ".SH DESCRIPTION\n{}\n.SH COMMANDS\n",
          FLASHACL_VERSION, Roff(tool.get_description()));
  for (const CLI::App* command : CommandsOf(tool)) {
    text += Str(".SS flashacl {}\n{}\n{}", Roff(command->get_name()),
                Roff(command->get_description()), ManOptions(*command));
  }
  return text + Str(".SH PROBLEMS\n.nf\n{}.fi\n", Roff(tool.get_footer()));
}

std::string BashCompletion(const CLI::App& tool) {
  std::string names;
  std::string cases;
  for (const CLI::App* command : CommandsOf(tool)) {
    names += Str("{}{}", names.empty() ? "" : " ", command->get_name());
    cases += Str("    {}) words={} ;;\n", command->get_name(),
                 Quoted(Join(OptionsOf(*command), " ")));
  }
  return Str(
      "# flashacl: completion for bash\n"
      "_flashacl() {{\n"
      "  local current=${{COMP_WORDS[COMP_CWORD]}} words={}\n"
      "  [ \"$COMP_CWORD\" -gt 1 ] && case ${{COMP_WORDS[1]}} in\n{}"
      "    *) words= ;;\n"
      "  esac\n"
      "  COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
      "  [ \"$COMP_CWORD\" -gt 1 ] && [[ $current != -* ]] &&\n"
      "    COMPREPLY+=($(compgen -f -- \"$current\"))\n"
      "  return 0\n"
      "}}\n"
      "complete -F _flashacl flashacl\n",
      Quoted(names + " --help --version"), cases);
}

std::string ZshCompletion(const CLI::App& tool) {
  std::string names;
  std::string cases;
  for (const CLI::App* command : CommandsOf(tool)) {
    names += Str(" {}", command->get_name());
    cases += Str("    {}) compadd -- {} ;;\n", command->get_name(),
                 Join(OptionsOf(*command), " "));
  }
  return Str(
      "#compdef flashacl\n"
      "_flashacl() {{\n"
      "  if (( CURRENT == 2 )); then\n"
      "    compadd --{} --help --version\n"
      "    return\n"
      "  fi\n"
      "  case $words[2] in\n{}"
      "  esac\n"
      "  _files\n"
      "}}\n"
      "_flashacl \"$@\"\n",
      names, cases);
}

std::string FishCompletion(const CLI::App& tool) {
  std::string text = "# flashacl: completion for fish\n";
  for (const CLI::App* command : CommandsOf(tool)) {
    text += Str("complete -c flashacl -n __fish_use_subcommand -a {} -d {}\n",
                command->get_name(), Quoted(command->get_description()));
    for (const CLI::Option* option : command->get_options()) {
      for (const std::string& name : option->get_lnames()) {
        text += Str(
            "complete -c flashacl -n '__fish_seen_subcommand_from {}' -l {} "
            "-d {}\n",
            command->get_name(), name, Quoted(option->get_description()));
      }
    }
  }
  return text;
}

}  // namespace flashacl::tool
