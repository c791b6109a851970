// SPDX-License-Identifier: Apache-2.0
// The trace file. Opened on first use and never closed, so that launches that
// end while the process does still have somewhere to write.
#include "acl/trace.h"

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>

#include "acl/environment.h"
#include "acl/error.h"
#include "acl/profile/trace_file.h"
#include "acl/say.h"
#include "base/once.h"
#include "base/str.h"
#include "problem/notation.h"

namespace flashacl::acl {
namespace {

std::FILE* Open() {
  const std::string& path = TheEnvironment().trace_path;
  if (path.empty() || profile::IsTimelinePath(path)) return nullptr;
  std::FILE* const file = std::fopen(path.c_str(), "a");
  if (file == nullptr) {
    Say(Str("FLASHACL_TRACE={} is ignored: {}", path, std::strerror(errno)));
  }
  return file;
}

std::FILE* TraceFile() {
  static constinit MadeOnce<std::FILE* const> file;
  return file.Get(&Open);
}

// "<seconds> <what> <operator> <rest>"; `rest` makes its text here, where there
// may be no memory for it.
template <typename Rest>
void Append(std::string_view what, std::string_view operator_name,
            Rest rest) noexcept {
  (void)Contain(
      [&]() -> int {
        const double now =
            std::chrono::duration<double>(
                std::chrono::system_clock::now().time_since_epoch())
                .count();
        const std::string line =
            Str("{:.6f} {} {} {}\n", now, what, operator_name, rest());
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
  Append(what, operator_name, [&] {
    return Str("\"{}\" {} {:.1f} us", ToString(plan.problem()),
               plan.implementation->name, microseconds);
  });
}

void Trace(std::string_view what, std::string_view operator_name,
           const Computation& computation, double microseconds) noexcept {
  Append(what, operator_name, [&] {
    return Str("\"{}\" {} {:.1f} us", computation.Describe(),
               computation.name(), microseconds);
  });
}

Status Traced(std::string_view what, std::string_view operator_name,
              Status status) noexcept {
  if (status.ok() || !Tracing()) return status;
  Append(what, operator_name,
         [&] { return Str("failed \"{}\"", status.message()); });
  return status;
}

}  // namespace flashacl::acl
