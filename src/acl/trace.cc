// SPDX-License-Identifier: Apache-2.0
// The trace file. Opened on first use and never closed, so that launches that
// end while the process does still have somewhere to write.
#include "acl/trace.h"

#include <chrono>
#include <cstdio>
#include <string>

#include "acl/environment.h"
#include "acl/error.h"
#include "acl/profile/trace_file.h"
#include "base/str.h"
#include "problem/notation.h"

namespace flashacl::acl {
namespace {

std::FILE* TraceFile() {
  const std::string& path = TheEnvironment().trace_path;
  static std::FILE* const file = path.empty() || profile::IsTimelinePath(path)
                                     ? nullptr
                                     : std::fopen(path.c_str(), "a");
  return file;
}

// `problem` makes its text here, where there may be no memory for it.
template <typename Problem>
void Append(std::string_view what, std::string_view operator_name,
            Problem problem, std::string_view implementation,
            double microseconds) noexcept {
  (void)Contain(
      [&]() -> int {
        const double now =
            std::chrono::duration<double>(
                std::chrono::system_clock::now().time_since_epoch())
                .count();
        const std::string line =
            Str("{:.6f} {} {} \"{}\" {} {:.1f} us\n", now, what, operator_name,
                problem(), implementation, microseconds);
        // One write, so that lines of several streams do not mix.
        std::fwrite(line.data(), 1, line.size(), TraceFile());
        std::fflush(TraceFile());
        return 0;
      },
      [](bool /*no_memory*/) { return 0; });
}

}  // namespace

bool Tracing() { return TraceFile() != nullptr; }

void Trace(std::string_view what, std::string_view operator_name,
           const Plan& plan, double microseconds) noexcept {
  const auto problem = [&] { return ToString(plan.problem()); };
  Append(what, operator_name, problem, plan.implementation->name, microseconds);
}

void Trace(std::string_view what, std::string_view operator_name,
           const Computation& computation, double microseconds) noexcept {
  const auto problem = [&] { return computation.Describe(); };
  Append(what, operator_name, problem, computation.name(), microseconds);
}

}  // namespace flashacl::acl
