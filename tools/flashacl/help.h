// SPDX-License-Identifier: Apache-2.0
// What people read to find out how the tool is called, all of it from the
// commands' own options.
#pragma once

#include <CLI/App.hpp>
#include <CLI/Formatter.hpp>
#include <string>

namespace flashacl::tool {

// --help as wide as the terminal.
class NarrowFormatter : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override;
  std::string make_option(const CLI::Option* option,
                          bool positional) const override;
  std::string make_subcommand(const CLI::App* command) const override;
};

// The manual page, for man(1).
std::string ManPage(const CLI::App& tool);

// Scripts that complete commands and options in these shells.
std::string BashCompletion(const CLI::App& tool);
std::string ZshCompletion(const CLI::App& tool);
std::string FishCompletion(const CLI::App& tool);

}  // namespace flashacl::tool
