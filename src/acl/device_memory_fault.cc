// SPDX-License-Identifier: Apache-2.0
#include "acl/device_memory_fault.h"

#include <signal.h>

#include "acl/call_site.h"
#include "acl/quarantine.h"
#include "acl/say.h"
#include "base/str.h"

namespace flashacl::acl {
namespace {

struct sigaction before[2];

struct sigaction& Before(int signal) {
  return before[signal == SIGSEGV ? 0 : 1];
}

// The process is lost: what is not allowed in a handler costs nothing more.
void Explain(int signal, siginfo_t* info, void*) {
  // Returning repeats the access, with the program's own handler, or none.
  sigaction(signal, &Before(signal), nullptr);
  FreedBlock freed;
  if (!FindFreed(info->si_addr, &freed)) return;
  const auto offset =
      static_cast<const std::byte*>(info->si_addr) - freed.block.base;
  Log(Level::kError, "memcheck",
      Str("use after free at {}: {} bytes into {}", info->si_addr, offset,
          ToString(freed)));
}

}  // namespace

void ExplainFaults() {
  static const bool installed = [] {
    struct sigaction action = {};
    action.sa_sigaction = &Explain;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(SIGSEGV, &action, &Before(SIGSEGV));
    sigaction(SIGBUS, &action, &Before(SIGBUS));
    return true;
  }();
  (void)installed;
}

}  // namespace flashacl::acl
