// SPDX-License-Identifier: Apache-2.0
// Reads lines.
#include "tools/flashacl/workloads.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string_view>
#include <system_error>
#include <utility>

#include "problem/notation.h"

namespace flashacl::tool {
namespace fs = std::filesystem;

namespace {

std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r";
  const size_t first = text.find_first_not_of(kBlanks);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) + 1 - first);
}

Result<Workload> ParseWorkload(std::string_view line) {
  const size_t bar = line.find('|');
  Workload workload;
  if (bar != line.npos) {
    workload.title = Trimmed(line.substr(0, bar));
    line = line.substr(bar + 1);
  }
  Result<AttentionProblem> problem = Parse(Trimmed(line));
  if (!problem.ok()) return problem.status();
  workload.problem = std::move(*problem);
  return workload;
}

Status AddLines(std::istream& lines, const std::string& name,
                std::vector<Workload>& workloads) {
  const size_t before = workloads.size();
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    const std::string_view text = Trimmed(line);
    if (text.empty() || text.front() == '#') continue;
    Result<Workload> workload = ParseWorkload(text);
    if (!workload.ok()) {
      return Invalid("{}:{}: {}", name, number, workload.status().message());
    }
    workloads.push_back(std::move(*workload));
  }
  if (workloads.size() == before) return Invalid("{}: no problem in it", name);
  return {};
}

}  // namespace

Status AddWorkloads(const std::string& source,
                    std::vector<Workload>& workloads) {
  if (source == "-") return AddLines(std::cin, "stdin", workloads);
  // A line of notation has spaces in it, and a file has not its name.
  if (std::ifstream file(source); file.good()) {
    return AddLines(file, source, workloads);
  }
  Result<Workload> workload = ParseWorkload(source);
  if (!workload.ok()) {
    return Invalid("{} (and there is no such file)",
                   workload.status().message());
  }
  workloads.push_back(std::move(*workload));
  return {};
}

std::vector<std::string> JoinLines(const std::vector<std::string>& words) {
  std::vector<std::string> lines;
  bool open = false;
  for (const std::string& word : words) {
    const bool begins = word == "fwd" || word == "bwd";
    if (open && !begins && word != "-") {
      lines.back() += " " + word;
    } else {
      lines.push_back(word);
      open = begins;
    }
  }
  return lines;
}

std::optional<fs::path> SharedPath(const std::string& name) {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  for (const char* folder : {"../share/flashacl", "../../bench"}) {
    fs::path path = program.parent_path() / folder / name;
    if (fs::exists(path, error)) return path;
  }
  return std::nullopt;
}

Result<std::vector<std::string>> OwnWorkloadFiles() {
  std::vector<std::string> files;
  std::error_code error;
  if (const std::optional<fs::path> folder = SharedPath("workloads")) {
    for (const auto& entry : fs::directory_iterator(*folder, error)) {
      if (entry.path().extension() == ".txt") files.push_back(entry.path());
    }
  }
  if (files.empty()) {
    return Invalid(
        "no workloads beside this program; name a problem or a file");
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace flashacl::tool
