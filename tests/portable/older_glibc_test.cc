// SPDX-License-Identifier: Apache-2.0
// This program is linked as packages are: its exceptions are found by the code
// under test (tests/CMakeLists.txt). What that answers is what glibc answers.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <link.h>
#include <sys/auxv.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

#if __GLIBC_PREREQ(2, 35)
using Finder = int (*)(void*, dl_find_object*);

// glibc's own; the name alone means the one of this program.
Finder OfGlibc() {
  return reinterpret_cast<Finder>(dlsym(RTLD_NEXT, "_dl_find_object"));
}

int here = 0;

// The program, its libraries, one that is opened later, the kernel's; and
// addresses that no object has.
std::vector<void*> Addresses() {
  std::vector<void*> result = {reinterpret_cast<void*>(&OfGlibc), &here};
  for (const char* name : {"malloc", "cos", "_dl_find_object"}) {
    result.push_back(dlsym(RTLD_NEXT, name));
  }
  link_map* opened = nullptr;
  void* library = dlopen("libresolv.so.2", RTLD_NOW);
  if (library != nullptr &&
      dlinfo(library, RTLD_DI_LINKMAP, static_cast<void*>(&opened)) == 0) {
    result.push_back(opened->l_ld);
  }
  result.push_back(reinterpret_cast<void*>(getauxval(AT_SYSINFO_EHDR)));
  result.push_back(nullptr);
  result.push_back(reinterpret_cast<void*>(~uintptr_t{0}));
  return result;
}

TEST(OlderGlibc, FindsWhatGlibcFinds) {
  const Finder glibc = OfGlibc();
  ASSERT_NE(glibc, nullptr);
  ASSERT_NE(glibc, static_cast<Finder>(_dl_find_object));
  int on_stack = 0, objects = 0;
  std::vector<void*> addresses = Addresses();
  addresses.push_back(&on_stack);
  for (void* address : addresses) {
    dl_find_object expected = {}, found = {};
    const int status = glibc(address, &expected);
    EXPECT_EQ(_dl_find_object(address, &found), status) << address;
    if (status != 0) continue;
    EXPECT_EQ(found.dlfo_eh_frame, expected.dlfo_eh_frame) << address;
    ++objects;
  }
  EXPECT_GE(objects, 6) << "two in the program, three libraries, one opened";
}

TEST(OlderGlibc, SaysWhereTheObjectLies) {
  dl_find_object found = {};
  ASSERT_EQ(_dl_find_object(&here, &found), 0);
  EXPECT_LE(found.dlfo_map_start, static_cast<void*>(&here));
  EXPECT_LE(found.dlfo_map_start, reinterpret_cast<void*>(&OfGlibc));
  EXPECT_GT(found.dlfo_map_end, static_cast<void*>(&here));
  EXPECT_GT(found.dlfo_map_end, reinterpret_cast<void*>(&OfGlibc));
}

#endif

// A frame with something to destroy, `depth` times.
void ThrowFrom(int depth, int& destroyed) {
  struct Counts {
    int& count;
    ~Counts() { ++count; }
  } counts{destroyed};
  if (depth == 0) throw std::runtime_error("thrown");
  ThrowFrom(depth - 1, destroyed);
}

TEST(OlderGlibc, ExceptionsUnwind) {
  const auto unwind = [](int& destroyed) {
    for (int i = 0; i < 100; ++i) {
      try {
        ThrowFrom(9, destroyed);
      } catch (const std::exception& e) {
        EXPECT_EQ(e.what(), std::string("thrown"));
      }
    }
  };
  int mine = 0, others = 0;
  std::thread other(unwind, std::ref(others));
  unwind(mine);
  other.join();
  EXPECT_EQ(mine, 1000);
  EXPECT_EQ(others, 1000);
}

TEST(OlderGlibc, HypotIsTheFirstOne) {
  volatile double three = 3, tiny = 3e-308, huge = 3e307;
  EXPECT_EQ(std::hypot(three, 4.0), 5.0);
  EXPECT_DOUBLE_EQ(std::hypot(tiny, 4e-308), 5e-308);
  EXPECT_DOUBLE_EQ(std::hypot(huge, 4e307), 5e307);
  EXPECT_EQ(std::hypot(three, HUGE_VAL), HUGE_VAL);
}

}  // namespace
