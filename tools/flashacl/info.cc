// SPDX-License-Identifier: Apache-2.0
// flashacl info: what this machine offers.
#include "backends.h"
#include "base/str.h"
#include "plan/implementation.h"
#include "tools/flashacl/amounts.h"
#include "tools/flashacl/command.h"

namespace flashacl::tool {
namespace {

void Print(const Backend& backend) {
  const DeviceInfo& device = backend.device;
  fmt::print("{:<18}{}\n", backend.name, device.name);
  fmt::print("  instructions    {}\n",
             device.instruction_sets.empty()
                 ? "only what every processor of its kind has"
                 : Str("{}", Join(device.instruction_sets, " ")));
  fmt::print("  vector target   {}\n", device.vector_target);
  fmt::print("  compiled for    {}\n", Join(device.compiled_targets, " "));
  fmt::print("  caches          L1 {}, L2 {}, L3 {}\n",
             Bytes(static_cast<double>(device.l1_bytes)),
             Bytes(static_cast<double>(device.l2_bytes)),
             Bytes(static_cast<double>(device.l3_bytes)));
  fmt::print("  threads         {}\n", WorkersOf(*backend.queue));
  const char* title = "implementations";
  for (const Implementation& implementation : backend.implementations) {
    fmt::print("  {:<15} {}\n", title, implementation.name);
    title = "";
  }
}

int Info() {
  fmt::print("{:<18}{}\n", "FlashACL", FLASHACL_VERSION);
  for (const Backend& backend : AllBackends()) Print(backend);
  return kSuccess;
}

}  // namespace

Command MakeInfo(CLI::App& tool) {
  CLI::App* app = tool.add_subcommand(
      "info",
      "Devices, instruction sets, caches, threads, and who can compute here, "
      "best first");
  return {app, Info};
}

}  // namespace flashacl::tool
