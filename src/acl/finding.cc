// SPDX-License-Identifier: Apache-2.0
#include "acl/finding.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "acl/environment.h"
#include "acl/say.h"
#include "base/once.h"
#include "base/str.h"

namespace flashacl::acl {
namespace {

std::atomic<int> findings{0};
std::atomic<void (*)()> last_look_at_exit{nullptr};

// Whoever registered a handler before this one is not called any more, so that
// only what is asked for this ends by it.
void Judge() {
  if (const auto look = last_look_at_exit.load(); look != nullptr) look();
  const int count = findings.load();
  if (count == 0 || !TheEnvironment().strict_exit) return;
  Say(Str("{} finding{} of strict mode; the process ends with code {}", count,
          count == 1 ? "" : "s", kExitCode));
  std::fflush(nullptr);
  _exit(kExitCode);
}

void Register() {
  static constinit Once registered;
  registered.Do([] { std::atexit(&Judge); });
}

}  // namespace

void CountFinding() noexcept {
  if (!TheEnvironment().strict) return;
  findings.fetch_add(1);
  if (TheEnvironment().strict_exit) Register();
}

Status Found(Status status) noexcept {
  if (!status.ok()) CountFinding();
  return status;
}

void Advise(std::string_view operator_name, std::string_view text) noexcept {
  Log(Level::kWarning, operator_name, text);
}

void JudgeAtExit(void (*last_look)()) {
  last_look_at_exit.store(last_look);
  Register();
}

}  // namespace flashacl::acl
