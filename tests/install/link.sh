#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A stranger's program builds against the prefix in each documented way, and
# runs with nothing but LD_LIBRARY_PATH set; the prefix may have been moved.
# labels: prefix
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
H=$work/moved
cp -a "$FLASHACL_PREFIX" "$H"
cd "$work"

cat >main.cpp <<'SOURCE'
#include <dlfcn.h>

#include <cstdint>
#include <iostream>
#include <vector>

#include "acl/acl.h"
#include "aclnnop/aclnn_flash_attention_score.h"
#include "securec.h"

// The runtime starts, a tensor is made, the operator is there under every way
// of finding it, and all ways find the same one.
int main() {
  if (aclInit(nullptr) != ACL_SUCCESS) return 1;
  if (aclrtSetDevice(0) != ACL_SUCCESS) return 2;
  std::vector<int64_t> dims = {2, 3};
  aclTensor* tensor =
      aclCreateTensor(dims.data(), dims.size(), ACL_FLOAT16, nullptr, 0,
                      ACL_FORMAT_ND, dims.data(), dims.size(), nullptr);
  if (tensor == nullptr || aclDestroyTensor(tensor) != 0) return 3;
  int copy = 0;
  const int one = 1;
  if (memcpy_s(&copy, sizeof(copy), &one, sizeof(one)) != EOK || copy != 1) {
    return 4;
  }
  void* library = dlopen("libopapi.so", RTLD_LAZY);
  if (library == nullptr) return 5;
  const char* names[] = {"aclnnFlashAttentionVarLenScoreGetWorkspaceSize",
                         "aclnnFlashAttentionVarLenScore", "aclCreateTensor",
                         "aclDestroyTensor", "aclGetRecentErrMsg"};
  for (const char* name : names) {
    if (dlsym(library, name) == nullptr) return 6;
  }
  if (dlsym(library, "aclnnFlashAttentionVarLenScore") !=
      reinterpret_cast<void*>(&aclnnFlashAttentionVarLenScore)) {
    return 7;
  }
  aclrtResetDevice(0);
  aclFinalize();
  std::cout << "ran\n";
  return 0;
}
SOURCE

# check NAME PROGRAM: it runs with only LD_LIBRARY_PATH set.
check() {
  local got
  got=$(env -i LD_LIBRARY_PATH="$H/lib64" "$2") || {
    echo "link: $1: exit status $?" >&2
    exit 1
  }
  [ "$got" = ran ]
  echo "link: $1: ok"
}

g++ main.cpp -I"$H/include" -I"$H/include/aclnn" \
  -I"$H/x86_64-linux/include/aclnnop" -L"$H/opp/lib64" -L"$H/lib64" \
  -lopapi_math -lopapi_transformer -lascendcl -lnnopbase -lc_sec -ldl -o by_g++
check "g++, documented libraries" ./by_g++

g++ -std=c++11 main.cpp -I"$H/include" -L"$H/lib64" -lascendcl -lopapi -ldl \
  -o by_two
check "g++, libascendcl and libopapi" ./by_two

g++ main.cpp -I"$H/acllib/include" -L"$H/runtime/lib64/stub" -lacl_rt -ldl \
  -o by_stub
check "g++, libacl_rt from the stub folder" ./by_stub

# A program built where every name was a library of its own records them all.
mkdir stubs
# stub NAME FUNCTION...: a library to link against, not to run with.
stub() {
  local name=$1
  shift
  printf 'extern "C" void %s() {}\n' "$@" |
    g++ -shared -fPIC -x c++ - "-Wl,-soname,lib$name.so" \
      -o "stubs/lib$name.so"
}
stub ascendcl aclInit aclFinalize aclrtSetDevice aclrtResetDevice
stub nnopbase aclCreateTensor aclDestroyTensor
stub opapi aclnnFlashAttentionVarLenScore
stub c_sec memcpy_s
g++ main.cpp -I"$H/include" -Lstubs -lascendcl -lnnopbase -lopapi -lc_sec \
  -ldl -o by_names
[ "$(objdump -p by_names | grep -c -E 'NEEDED.*(ascendcl|nnopbase|opapi|c_sec)')" \
  = 4 ]
check "binary that needs four libraries" ./by_names

# And a program in C.
cat >main.c <<'SOURCE'
#include <stdio.h>

#include "acl/acl.h"
#include "aclnnop/aclnn_prompt_flash_attention_v3.h"

int main(void) {
  const int64_t dims[] = {2, 3};
  aclTensor* tensor = aclCreateTensor(dims, 2, ACL_FLOAT16, NULL, 0,
                                      ACL_FORMAT_ND, dims, 2, NULL);
  if (tensor == NULL || aclDestroyTensor(tensor) != OK) return 1;
  if (aclnnPromptFlashAttentionV3(NULL, 0, NULL, NULL) == OK) return 2;
  puts("ran");
  return 0;
}
SOURCE
gcc -std=c11 -pedantic-errors -Wall -Werror main.c -I"$H/include" \
  -L"$H/lib64" -lopapi -lnnopbase -lascendcl -o by_gcc
check "gcc, C11" ./by_gcc

cat >CMakeLists.txt <<'LISTS'
cmake_minimum_required(VERSION 3.14)
project(stranger CXX)
add_compile_options(-std=c++11)
set(CMAKE_CXX_FLAGS_RELEASE "-fPIC -O2 -Wall")
set(H $ENV{ASCEND_HOME_PATH})
add_executable(by_path main.cpp)
target_include_directories(by_path PRIVATE
  ${H}/include ${H}/include/aclnn ${H}/include/aclnnop)
target_link_libraries(by_path PRIVATE ${H}/lib64/libascendcl.so
  ${H}/lib64/libnnopbase.so ${H}/lib64/libopapi_math.so
  ${H}/lib64/libopapi_transformer.so dl)
find_package(flashacl CONFIG REQUIRED)
add_executable(by_config main.cpp)
target_link_libraries(by_config PRIVATE flashacl::ascendcl
  flashacl::nnopbase flashacl::opapi dl)
list(APPEND CMAKE_MODULE_PATH ${H}/lib/cmake/flashacl)
find_package(AscendCL REQUIRED)
add_executable(by_module main.cpp)
target_link_libraries(by_module PRIVATE AscendCL::AscendCL dl)
LISTS
ASCEND_HOME_PATH=$H cmake -S . -B out -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_SKIP_RPATH=TRUE "-DCMAKE_PREFIX_PATH=$H" >log 2>&1 &&
  cmake --build out >>log 2>&1 || { cat log >&2; exit 1; }
check "CMake, full paths" out/by_path
check "CMake, find_package(flashacl)" out/by_config
check "CMake, find_package(AscendCL)" out/by_module

# The other ways to say where the prefix is; the last is that of set_env.sh.
mkdir finding
cat >finding/CMakeLists.txt <<'LISTS'
cmake_minimum_required(VERSION 3.14)
project(finding NONE)
find_package(flashacl REQUIRED)
if(NOT EXISTS "${flashacl_LIBRARY_DIRS}/libascendcl.so"
   OR NOT EXISTS "${flashacl_INCLUDE_DIRS}/acl/acl.h")
  message(FATAL_ERROR "found ${flashacl_DIR}, but not what it names")
endif()
LISTS
# finds NAME COMMAND...: a project that COMMAND configures finds the prefix.
finds() {
  local name=$1
  shift
  rm -rf found
  "$@" -S finding -B found >log 2>&1 || { cat log >&2; exit 1; }
  grep -q "^flashacl_DIR:.*=$H/" found/CMakeCache.txt ||
    { echo "link: $name: found another" >&2; exit 1; }
  echo "link: $name: ok"
}
finds "-Dflashacl_ROOT" cmake "-Dflashacl_ROOT=$H"
finds "flashacl_ROOT" env "flashacl_ROOT=$H" cmake
finds "PATH" env "PATH=$H/bin:$PATH" cmake

# Components are the targets' names; one that does not exist is not found.
sed 's/find_package(flashacl REQUIRED)/find_package(flashacl REQUIRED COMPONENTS opapi ascendcl)/' \
  -i finding/CMakeLists.txt
finds "COMPONENTS opapi ascendcl" cmake "-DCMAKE_PREFIX_PATH=$H"
sed 's/COMPONENTS opapi/COMPONENTS opapl/' -i finding/CMakeLists.txt
rm -rf found
if cmake -S finding -B found "-DCMAKE_PREFIX_PATH=$H" >log 2>&1 ||
    ! tr -s ' \n' ' ' <log | grep -qF "flashacl has no component opapl"; then
  echo "link: takes a component that does not exist" >&2
  cat log >&2
  exit 1
fi
echo "link: unknown component: ok"

# shellcheck disable=SC2046
g++ main.cpp \
  $(PKG_CONFIG_PATH=$H/lib/pkgconfig pkg-config --cflags --libs flashacl) \
  -ldl -o by_pkg_config
check "pkg-config" ./by_pkg_config
