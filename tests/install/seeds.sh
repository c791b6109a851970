#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The sample programs of the operators' documents, unchanged, build and run
# against the prefix in each documented way and print what they should; strict
# mode finds their mistakes and nothing else. Where the documents are not at
# hand, the examples stand in for them.
# labels: prefix;sanitized
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cxx=${CXX:-g++}
H=$FLASHACL_PREFIX
sanitize=${FLASHACL_SANITIZE:-}
failed=0
complain() {
  echo "seeds: $*" >&2
  failed=1
}

# A program without instrumentation needs the sanitizer before the library.
preload=
case $sanitize in
  *address*) preload=$(g++ -print-file-name=libasan.so) ;;
  *thread*) preload=$(g++ -print-file-name=libtsan.so) ;;
esac

# run PROGRAM [SETTING...]: with nothing but the library's path set.
run() {
  local program=$1
  shift
  env -i "LD_LIBRARY_PATH=$H/lib64" "LD_PRELOAD=$preload" \
    "ASAN_OPTIONS=detect_leaks=0" "TSAN_OPTIONS=${TSAN_OPTIONS:-}" \
    "UBSAN_OPTIONS=${UBSAN_OPTIONS:-}" "$@" "./$program"
}

# build SOURCE NAME: NAME.11.l and so on, one per standard and way to link.
standards=(11 17)
ways=(l path)
if [ -n "$sanitize" ]; then
  standards=(17)
  ways=(l)
fi
programs=()
build() {
  local standard way
  programs=()
  for standard in "${standards[@]}"; do
    "$cxx" "-std=c++$standard" -c "$1" "-I$H/include" -o "$2.$standard.o" \
      2>"$2.log" || { cat "$2.log" >&2; return 1; }
    for way in "${ways[@]}"; do
      local libraries=(-lascendcl -lnnopbase -lopapi)
      if [ "$way" = path ]; then
        libraries=("$H"/lib64/lib{ascendcl,nnopbase,opapi}.so)
      fi
      "$cxx" "$2.$standard.o" "-L$H/lib64" "${libraries[@]}" \
        -o "$2.$standard.$way"
      programs+=("$2.$standard.$way")
    done
  done
}

# listen PROGRAM NAME MODE MAY_FAIL [SETTING...]: what the library says.
listen() {
  local program=$1 name=$2 mode=$3 may_fail=$4 status=0
  shift 4
  run "$program" "$@" >/dev/null 2>"$name.$mode" || status=$?
  if [ "$status" != 0 ] && [ "$may_fail" = no ]; then
    complain "$name, $mode: exit status $status"
    cat "$name.$mode" >&2
  fi
  python3 "$here/seeds.py" findings "$name" "$mode" <"$name.$mode" || failed=1
}

# seed DOCUMENT: everything there is to know of one.
seed() {
  local name program
  name=$(basename "$1")
  name=${name%%_*}
  python3 "$here/seeds.py" extract "$1" >"$name.cpp"
  build "$name.cpp" "$name" || { complain "$name does not build"; return; }
  for program in "${programs[@]}"; do
    run "$program" >"$name.out" || complain "$program: exit status $?"
    python3 "$here/seeds.py" values "$name" <"$name.out" ||
      complain "$program printed something else"
    echo "seeds: $program: ok"
  done
  local listener="LD_PRELOAD=${preload:+$preload:}./listener.so"
  listen "$program" "$name" lenient no "$listener"
  local may_fail=no
  case $name in 001 | 003) may_fail=yes ;; esac
  listen "$program" "$name" strict "$may_fail" "$listener" FLASHACL_STRICT=1
}

seeds=$FLASHACL_SOURCE/../shared/seeds
if [ -d "$seeds" ]; then
  "$cxx" -shared -fPIC "$here/listener.cc" "-I$H/include" -o listener.so -ldl
  count=0
  for document in "$seeds"/[0-9]*.txt; do
    seed "$document"
    count=$((count + 1))
  done
  [ "$count" = 5 ] || complain "$count documents, expected 5"
else
  echo "seeds: no documents in $seeds: running the examples instead"
  for source in "$FLASHACL_SOURCE"/examples/*.cpp; do
    name=$(basename "$source" .cpp)
    build "$source" "$name" || { complain "$name does not build"; continue; }
    for program in "${programs[@]}"; do
      run "$program" || complain "$program: exit status $?"
    done
  done
fi
exit "$failed"
