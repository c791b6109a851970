#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# build.sh PRESET [TARGET]... [-Dcmake option]...: configures one preset, builds
# its targets, all of them if none is named, says beforehand which and how long
# that takes, and shows a log only when it fails.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1
shift

targets=()
options=()
for word in "$@"; do
  case $word in
    -*) options+=("$word") ;;
    *) targets+=("$word") ;;
  esac
done

# A compiler cache where one is installed: a configured folder keeps what it has.
if [ -z "${CMAKE_CXX_COMPILER_LAUNCHER:-}" ] && command -v ccache >/dev/null
then
  export CMAKE_CXX_COMPILER_LAUNCHER=ccache
fi
# What it has of one checkout serves others, wherever they are: paths count from
# the checkout, also those in debug information.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1

# Where the system's Highway is too old, setup.sh has put one there.
if [ -f build/highway/CMakeLists.txt ] &&
   [[ " ${options[*]} " != *" -DFLASHACL_HIGHWAY="* ]]; then
  options+=("-DFLASHACL_HIGHWAY=$PWD/build/highway")
fi

# A warning must not reach main, and must not stop a user.
[ -z "${CI:-}" ] || options+=(-DFLASHACL_WERROR=ON)

# Vector code for this machine alone is for who builds here first: a folder that
# has it for all sets would compile it again for nothing, and CI compiles all.
cache=build/$preset/CMakeCache.txt
native=-DFLASHACL_TARGETS=native
if [ -n "${CI:-}" ] || { [ -f "$cache" ] &&
     ! grep -qE '^FLASHACL_TARGETS:STRING=(native|SSE4|AVX2|AVX3)$' "$cache"; }
then
  for n in "${!options[@]}"; do
    [ "${options[n]}" != "$native" ] || unset "options[n]"
  done
fi

what=${targets[*]:-everything}
minutes=
case "$preset $what" in
  "release product")
    what="the library and the tool" minutes=4
    if [[ " ${options[*]} " == *" $native "* ]]; then
      what+=", for this processor" minutes=2.5
    fi
    ;;
  "release everything") what="library, tool and all tests" minutes=10 ;;
  "package product" | "package-aarch64 product")
    what="the libraries and the tool, to be packed" minutes=5
    ;;
  "aarch64 test_kernels") what="the kernels' tests" minutes=2 ;;
esac

mkdir -p "build/$preset"
log=build/$preset/configure.log
echo "configure and build: preset $preset, in build/$preset: $what" \
     "${minutes:+(from nothing, about $minutes minutes on two cores)}"
if ! cmake --preset "$preset" "${options[@]}" >"$log" 2>&1; then
  cat "$log" >&2
  exit 1
fi
cmake --build --preset "$preset" ${targets:+--target "${targets[@]}"}
