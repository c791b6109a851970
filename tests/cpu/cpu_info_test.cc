// SPDX-License-Identifier: Apache-2.0
// What the kernel's texts say, as device facts.
#include "cpu/cpu_info.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#if defined(__aarch64__) && defined(__linux__)
#include <sys/prctl.h>
#endif

// First of what is Highway's.
#include "base/str.h"
#include "cpu/dispatch.h"
#include "hwy/targets.h"

namespace flashacl::cpu {
namespace {

using Strings = std::vector<std::string>;

TEST(Cpu, ReadsX86) {
  const DeviceInfo device = ParseCpuInfo(
      "processor\t: 0\n"
      "model name\t: Example 9000 CPU @ 2.00GHz  \n"
      "flags\t\t: fpu sse4_2 fma avx avx2 avx512foo amx_tile\n"
      "\n"
      "processor\t: 1\n"
      "model name\t: another\n"
      "flags\t\t: avx512f\n");
  EXPECT_EQ(device.name, "Example 9000 CPU @ 2.00GHz");
  EXPECT_EQ(device.instruction_sets,
            (Strings{"sse4_2", "avx", "fma", "avx2", "amx_tile"}));
  EXPECT_EQ(device.l1_bytes, DeviceInfo{}.l1_bytes);
}

TEST(Cpu, ReadsArm) {
  const DeviceInfo device = ParseCpuInfo(
      "processor\t: 0\nFeatures\t: fp asimd sve bf16 i8mm\n"
      "CPU implementer\t: 0x41\n");
  EXPECT_EQ(device.name, "");
  EXPECT_EQ(device.instruction_sets, (Strings{"asimd", "bf16", "i8mm", "sve"}));
}

TEST(Cpu, SurvivesNonsense) {
  for (const char* text : {"", ":", "\n\n", "model name", "model name:", "x\0y",
                           "flags: \nmodel name:\t \n"}) {
    const DeviceInfo device = ParseCpuInfo(text);
    EXPECT_EQ(device.name, "");
    EXPECT_TRUE(device.instruction_sets.empty());
  }
}

// A folder like the kernel's, removed at the end.
class CacheFolder {
 public:
  CacheFolder() {
    std::string name =
        (std::filesystem::temp_directory_path() / "cachesXXXXXX").string();
    root_ = mkdtemp(name.data());
  }
  ~CacheFolder() { std::filesystem::remove_all(root_); }

  void Add(int index, const char* level, const char* type, const char* size) {
    const auto folder = root_ / ("index" + std::to_string(index));
    std::filesystem::create_directory(folder);
    std::ofstream(folder / "level") << level << "\n";
    std::ofstream(folder / "type") << type << "\n";
    std::ofstream(folder / "size") << size << "\n";
  }

  std::string path() const { return root_.string(); }

 private:
  std::filesystem::path root_;
};

TEST(Cpu, ReadsCachesThatHoldData) {
  CacheFolder folder;
  folder.Add(0, "1", "Data", "48K");
  folder.Add(1, "1", "Instruction", "64K");
  folder.Add(2, "2", "Unified", "2048K");
  folder.Add(3, "3", "Unified", "36M");
  DeviceInfo device;
  ReadCaches(folder.path(), device);
  EXPECT_EQ(device.l1_bytes, 48 << 10);
  EXPECT_EQ(device.l2_bytes, 2048 << 10);
  EXPECT_EQ(device.l3_bytes, 36 << 20);
}

TEST(Cpu, KeepsDefaultsWhereTheKernelIsSilent) {
  CacheFolder folder;
  folder.Add(0, "1", "Data", "a lot");
  folder.Add(1, "2", "Unified", "7Q");
  DeviceInfo device;
  ReadCaches(folder.path(), device);
  ReadCaches(folder.path() + "/absent", device);
  EXPECT_EQ(device.l1_bytes, DeviceInfo{}.l1_bytes);
  EXPECT_EQ(device.l2_bytes, DeviceInfo{}.l2_bytes);
  EXPECT_EQ(device.l3_bytes, DeviceInfo{}.l3_bytes);
}

TEST(Cpu, ThisOneHasANameAndCaches) {
  const DeviceInfo device = DescribeThisCpu();
  EXPECT_FALSE(device.name.empty());
  EXPECT_GT(device.l1_bytes, 0);
  EXPECT_GE(device.l2_bytes, device.l1_bytes);
}

#if defined(__x86_64__)
// Newer versions of Highway know more, for which kernels have no code of their
// own: what is AVX3's alone would be missing where they are run.
TEST(Cpu, VectorCodeIsForTargetsThatKernelsKnow) {
  EXPECT_EQ(HWY_TARGETS & ~(HWY_SSE4 | HWY_AVX2 | HWY_AVX3), 0);
}
#endif

TEST(Cpu, OneOfTheCompiledTargetsIsRun) {
  const DeviceInfo device = DescribeThisCpu();
  EXPECT_EQ(device.compiled_targets, CompiledTargets());
  EXPECT_EQ(std::ranges::count(CompiledTargets(), device.vector_target), 1);
  EXPECT_TRUE(CheckCompiledFor(hwy::SupportedTargets()).ok());
  const Status refused = CheckCompiledFor(0);
  EXPECT_EQ(refused.code(), Code::kUnsupported);
  EXPECT_NE(refused.message().find(Join(CompiledTargets(), ", ")),
            std::string::npos)
      << refused.message();
}

#if FLASHACL_SVE_TARGETS
// Code for SVE is for one width, and wrong on any other.
TEST(Cpu, CodeForSveIsRunWhereVectorsAreAsWide) {
  const int length = prctl(PR_SVE_GET_VL);
  const int bits = length < 0 ? 0 : (length & PR_SVE_VL_LEN_MASK) * 8;
  int64_t expected = HWY_NEON;
  if (bits == 128) expected = HWY_SVE2_128;
  if (bits == 256) expected = HWY_SVE_256;
  if (bits == 512) expected = HWY_SVE;
  if ((kCompiledTargets & expected) == 0) expected = HWY_NEON;
  ASSERT_TRUE(LimitVectorTarget("").ok());
  EXPECT_EQ(VectorTarget(), TargetName(expected)) << bits;
  EXPECT_EQ(BestTarget(), expected);
  // NEON's is of use to whoever compares the two.
  EXPECT_NE(TargetsHere() & HWY_NEON, 0);
}
#endif

TEST(Cpu, VectorTargetCanBeLimited) {
  const std::string best = VectorTarget();
  EXPECT_FALSE(best.empty());
  EXPECT_EQ(DescribeThisCpu().vector_target, best);
  const Status unknown = LimitVectorTarget("AVX9000");
  ASSERT_FALSE(unknown.ok());
  EXPECT_NE(unknown.message().find(best), std::string::npos)
      << unknown.message();
  EXPECT_EQ(VectorTarget(), best);
  // The last one listed is what every processor of its kind has.
  const std::string least =
      unknown.message().substr(unknown.message().rfind(' ') + 1);
  ASSERT_TRUE(LimitVectorTarget(least).ok());
  EXPECT_EQ(VectorTarget(), least);
  ASSERT_TRUE(LimitVectorTarget(best).ok());
  EXPECT_EQ(VectorTarget(), best);
  ASSERT_TRUE(LimitVectorTarget(least).ok());
  ASSERT_TRUE(LimitVectorTarget("").ok());
  EXPECT_EQ(VectorTarget(), best);
}

}  // namespace
}  // namespace flashacl::cpu
