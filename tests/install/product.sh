#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What `make run` and `make install` build is what is installed, and no test; nor
# do they need what only tests do, which an empty machine does not have.
# labels: prefix
set -euo pipefail
cd "$FLASHACL_BUILD"
failed=0
complain() {
  echo "product: $*" >&2
  failed=1
}

for goal in run install; do
  commands=$(make --dry-run -C "$FLASHACL_SOURCE" "$goal")
  grep -q '^scripts/build.sh release product\b' <<<"$commands" ||
    complain "make $goal builds something else: $commands"
done

# What is tried out is for this processor alone; what is installed may go further.
commands=$(make --dry-run -C "$FLASHACL_SOURCE" run)
grep -q -- '-DFLASHACL_TARGETS=native' <<<"$commands" ||
  complain "make run compiles vector code for all processors"
commands=$(make --dry-run -C "$FLASHACL_SOURCE" install)
! grep -q -- '-DFLASHACL_TARGETS=' <<<"$commands" ||
  complain "make install compiles vector code for one processor"

[ -f build.ninja ] || { echo "product: not Ninja's build; skipped"; exit 0; }
built=$(ninja -t commands product)
! grep -E ' -o (tests|bench)/' <<<"$built" || complain "it compiles tests"
# Files that installing takes from the build folder, other than texts.
while read -r file; do
  case $file in *.cmake | *.info | *.pc | *.txt) continue ;; esac
  grep -qE -- " -o ${file#"$FLASHACL_BUILD"/}( |$)" <<<"$built" ||
    grep -qF -- "> $file" <<<"$built" ||
    complain "$file is installed, but not built"
done < <(grep -oE "FILES \"$FLASHACL_BUILD/[^\"]*" cmake_install.cmake |
         sed 's/^FILES "//')

build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
cd "$FLASHACL_SOURCE"
mapfile -t options < <(make --dry-run prefix | grep -oE -- '-D[A-Z_]+=[A-Z]+')
highway=$(sed -n 's/^FLASHACL_HIGHWAY:PATH=//p' "$FLASHACL_BUILD/CMakeCache.txt")
[ -z "$highway" ] || options+=("-DFLASHACL_HIGHWAY=$highway")
cmake --preset release -B "$build" "${options[@]}" \
      -DCMAKE_DISABLE_FIND_PACKAGE_GTest=ON \
      -DCMAKE_DISABLE_FIND_PACKAGE_benchmark=ON >"$build/log" 2>&1 ||
  complain "without the packages of tests: $(cat "$build/log")"
exit "$failed"
