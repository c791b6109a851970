// SPDX-License-Identifier: Apache-2.0
#include "acl/device_memory_fault.h"

#include <signal.h>

#include <cstddef>
#include <string>

#include "acl/call_site.h"
#include "acl/closed_memory.h"
#include "acl/quarantine.h"
#include "acl/say.h"
#include "base/once.h"
#include "base/str.h"

namespace flashacl::acl {
namespace {

struct sigaction before[2];

struct sigaction& Before(int signal) {
  return before[signal == SIGSEGV ? 0 : 1];
}

std::string OfFreed(const void* at, const FreedBlock& freed) {
  const auto offset = static_cast<const std::byte*>(at) - freed.block.base;
  return Str("use after free at {}: {} bytes into {}", at, offset,
             ToString(freed));
}

std::string OfLive(const void* at, const Block& block) {
  const auto offset = static_cast<const std::byte*>(at) - block.base;
  const auto size = static_cast<std::ptrdiff_t>(block.size);
  const std::string where =
      offset < 0      ? Str("{} bytes before", -offset)
      : offset < size ? Str("{} bytes into", offset)
                      : Str("{} bytes after the end of", offset - size);
  return Str(
      "the host touches device memory at {}: {} the block of {} bytes at {} "
      "that {} made; aclrtMemcpy copies from and to the host",
      at, where, Grouped(block.size), static_cast<const void*>(block.base),
      ToString(block.made));
}

// The process is lost: what is not allowed in a handler costs nothing more.
void Explain(int signal, siginfo_t* info, void*) {
  // Returning repeats the access, with the program's own handler, or none.
  sigaction(signal, &Before(signal), nullptr);
  const void* const at = info->si_addr;
  FreedBlock freed;
  Block block;
  if (FindFreed(at, &freed)) {
    Log(Level::kError, "memcheck", OfFreed(at, freed));
  } else if (FindClosed(at, &block)) {
    Log(Level::kError, "memcheck", OfLive(at, block));
  }
}

}  // namespace

void ExplainFaults() {
  static constinit Once installed;
  installed.Do([] {
    struct sigaction action = {};
    action.sa_sigaction = &Explain;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(SIGSEGV, &action, &Before(SIGSEGV));
    sigaction(SIGBUS, &action, &Before(SIGBUS));
  });
}

}  // namespace flashacl::acl
