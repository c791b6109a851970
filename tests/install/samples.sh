#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Programs of one subject each, as CANN's samples are, compile and run against
# the installed prefix alone.
# labels: prefix
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
# shellcheck disable=SC1091
. "$FLASHACL_PREFIX/set_env.sh"

build() {
  "${CXX:-g++}" -std=c++11 -O1 -Wall -Werror \
    "$FLASHACL_SOURCE/tests/install/samples/$1.cc" -o "$1" \
    "-I$ASCEND_HOME_PATH/include" "-L$ASCEND_HOME_PATH/lib64" \
    -lascendcl -lnnopbase -lopapi -pthread
}

# Its name, then what it prints.
expect() {
  build "$1"
  timeout 60 "./$1" >got
  diff - got <<<"$2"
}

expect streams 'copied 1, recorded 1, took time 1, devices 1'
expect callbacks 'callback host function callback again'
expect notify '5 of 5 in order'
expect impossible 'refused'
expect example_error '0.5 1 nan 0 nan 0 nan 0 '
expect graph '11 112 123 '
expect labels 'round 5 result 35
round 6 result 42'
expect switch_stream '1: 5 to 6
2: 10 to 110'

build profile
mkdir traces
timeout 60 ./profile traces
python3 - traces/*.json <<'CHECK'
import json, sys
events = json.load(open(sys.argv[1]))["traceEvents"]
names = {event.get("name") for event in events}
missing = {"a mark", "aclrtMemsetAsync", "aclrtSynchronizeStream"} - names
sys.exit(f"samples: the profile lacks {missing}" if missing else 0)
CHECK
