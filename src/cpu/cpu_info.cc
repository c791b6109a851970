// SPDX-License-Identifier: Apache-2.0
// Reads what Linux tells about processor 0, for all of them.
#include "cpu/cpu_info.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <sstream>

#include "base/str.h"
#include "base/thread.h"
#include "cpu/dispatch.h"
#include "hwy/highway.h"

namespace flashacl::cpu {
namespace {

constexpr std::array<std::string_view, 23> kInstructionSets = {
    "sse4_2",      "avx",         "f16c",     "fma",      "avx2",
    "avx512f",     "avx512bw",    "avx512vl", "avx_vnni", "avx512_vnni",
    "avx512_bf16", "avx512_fp16", "amx_tile", "amx_int8", "amx_bf16",
    "asimd",       "asimdhp",     "asimddp",  "asimdfhm", "bf16",
    "i8mm",        "sve",         "sve2"};

// What a message adds where vector code is for one target by choice.
#ifdef FLASHACL_ONE_TARGET
constexpr std::string_view kOneTarget =
    " this build is for one alone, -DFLASHACL_TARGETS=all builds all;";
#else
constexpr std::string_view kOneTarget;
#endif

// The text after "key : " of the first line with that key; empty if there is
// none.
std::string_view Field(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const size_t colon = line.find(':');
    if (colon == line.npos) continue;
    const std::string_view name = line.substr(0, colon);
    if (name.substr(0, name.find_last_not_of(" \t") + 1) != key) continue;
    const std::string_view value = line.substr(colon + 1);
    const size_t first = value.find_first_not_of(" \t");
    if (first == value.npos) return {};
    return value.substr(first, value.find_last_not_of(" \t\r") + 1 - first);
  }
  return {};
}

bool HasWord(std::string_view text, std::string_view word) {
  std::istringstream words{std::string(text)};
  return std::find(std::istream_iterator<std::string>(words), {}, word) !=
         std::istream_iterator<std::string>();
}

std::string FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// "32K" and "8M" as bytes; 0 for anything else.
int64_t ParseSize(const std::string& text) {
  std::istringstream stream(text);
  int64_t size = 0;
  char unit = ' ';
  if (!(stream >> size)) return 0;
  stream >> unit;
  if (unit == 'K') return size << 10;
  if (unit == 'M') return size << 20;
  return unit == ' ' ? size : 0;
}

void SetCache(int64_t level, int64_t bytes, DeviceInfo& device) {
  if (bytes <= 0) return;
  if (level == 1) device.l1_bytes = bytes;
  if (level == 2) device.l2_bytes = bytes;
  if (level == 3) device.l3_bytes = bytes;
}

// The names of targets, which are Highway's bits, best first.
std::vector<std::string> NamesOf(int64_t targets) {
  std::vector<std::string> names;
  for (; targets != 0; targets &= targets - 1) {  // low bits: better
    names.emplace_back(TargetName(targets & -targets));
  }
  return names;
}

std::string MachineName() {
  utsname machine;
  if (uname(&machine) != 0) return "unknown processor";
  return Str("{} processor", machine.machine);
}

}  // namespace

DeviceInfo ParseCpuInfo(std::string_view text) {
  DeviceInfo device;
  device.name = Field(text, "model name");
  const std::string_view x86 = Field(text, "flags");
  const std::string_view flags = x86.empty() ? Field(text, "Features") : x86;
  for (const std::string_view name : kInstructionSets) {
    if (HasWord(flags, name)) device.instruction_sets.emplace_back(name);
  }
  return device;
}

void ReadCaches(const std::string& directory, DeviceInfo& device) {
  for (int index = 0;; ++index) {
    const std::string cache = Str("{}/index{}/", directory, index);
    const std::string type = FirstLine(cache + "type");
    if (type.empty()) return;
    if (type == "Instruction") continue;
    SetCache(ParseSize(FirstLine(cache + "level")),
             ParseSize(FirstLine(cache + "size")), device);
  }
}

Status CheckCompiledFor(int64_t supported) {
  if ((supported & kCompiledTargets) != 0) return {};
  return Unsupported(
      "vector code is compiled for {}, which this processor does not have: "
      "compile FlashACL on this machine, or with -DFLASHACL_TARGETS=all",
      Join(NamesOf(kCompiledTargets), ", "));
}

// Highway has DisableTargets for this, but what that disables is dispatched to
// again once anybody asks which targets there are (1.0.3).
Status LimitVectorTarget(std::string_view name) {
  const int64_t all = DetectTargets();
  FLASHACL_RETURN_IF_ERROR(CheckCompiledFor(all));
#if HWY_ARCH_ARM_A64
  hwy::SetSupportedTargetsForTest(all);
#endif
  if (name.empty()) return {};
  const int64_t here = TargetsHere();
  for (int64_t rest = here; rest != 0; rest &= rest - 1) {
    const int64_t target = rest & -rest;
    if (TargetName(target) != name) continue;
    hwy::SetSupportedTargetsForTest(all & ~(target - 1));  // low bits: better
    return {};
  }
  return Invalid("vector target {}:{} expected one of {}", name, kOneTarget,
                 Join(NamesOf(here), ", "));
}

std::string VectorTarget() {
  const int64_t best = BestTarget();
  return best == 0 ? "none" : TargetName(best);
}

std::vector<std::string> CompiledTargets() { return NamesOf(kCompiledTargets); }

DeviceInfo DescribeThisCpu() {
  std::ifstream file("/proc/cpuinfo");
  DeviceInfo device =
      ParseCpuInfo(std::string(std::istreambuf_iterator<char>(file), {}));
  if (device.name.empty()) device.name = MachineName();
  device.vector_target = VectorTarget();
  device.compiled_targets = CompiledTargets();
  // The C library first, the kernel's own word last: virtual machines and ARM
  // often answer 0 to sysconf.
  SetCache(1, sysconf(_SC_LEVEL1_DCACHE_SIZE), device);
  SetCache(2, sysconf(_SC_LEVEL2_CACHE_SIZE), device);
  SetCache(3, sysconf(_SC_LEVEL3_CACHE_SIZE), device);
  ReadCaches("/sys/devices/system/cpu/cpu0/cache", device);
  device.workers = AvailableProcessors();
  return device;
}

}  // namespace flashacl::cpu
