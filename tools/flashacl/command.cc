// SPDX-License-Identifier: Apache-2.0
// What commands share.
#include "tools/flashacl/command.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "backends.h"
#include "base/nearest.h"
#include "base/str.h"
#include "plan/implementation.h"

namespace flashacl::tool {

int Mistake(const Status& status) {
  const std::string& message = status.message();
  const bool ends = message.ends_with('\n');
  fmt::print(stderr, "flashacl: {}{}", message, ends ? "" : "\n");
  return kMistake;
}

void AddThreads(CLI::App& app, int& threads) {
  app.add_option("--threads", threads, "How many; 0: as many as there are")
      ->envname("FLASHACL_NUM_THREADS")
      ->check(AtLeast(0))
      ->type_name("N")
      ->capture_default_str();
}

CLI::Validator AtLeast(int64_t least) {
  return CLI::Validator(
      [least](const std::string& text) {
        char* end = nullptr;
        const double value = std::strtod(text.c_str(), &end);
        const bool number = !text.empty() && *end == '\0';
        if (number && std::isfinite(value) &&
            value >= static_cast<double>(least)) {
          return std::string();
        }
        return Str("{} is not a number of at least {}", text, least);
      },
      "");
}

Status CheckImplementations(const std::vector<std::string>& names) {
  std::vector<std::string_view> known;
  for (const Backend& backend : AllBackends()) {
    for (const Implementation& one : backend.implementations) {
      known.push_back(one.name);
    }
  }
  for (const std::string& name : names) {
    if (name.empty() || std::ranges::count(known, name) > 0) continue;
    return Invalid("{}: no such implementation{}; there are {}", name,
                   DidYouMean(name, known), Join(known, ", "));
  }
  return {};
}

}  // namespace flashacl::tool
