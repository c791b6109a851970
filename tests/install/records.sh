#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What programs record is replayed with the same bits after it was copied
# elsewhere: the operators' sample programs, or the examples where the documents
# are not at hand. NumPy reads it, too, and it is right for what was asked.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
H=$FLASHACL_PREFIX
[ -x "$H/bin/flashacl" ] || exit 0
seeds=$FLASHACL_SOURCE/../shared/seeds
if [ -d "$seeds" ]; then
  for document in "$seeds"/[0-9]*.txt; do
    python3 "$here/seeds.py" extract "$document" >"$(basename "$document" .txt).cpp"
  done
else
  cp "$FLASHACL_SOURCE"/examples/*.{cpp,h} .
fi
for source in *.cpp; do
  name=${source%.cpp}
  "${CXX:-g++}" -std=c++17 "$source" "-I$H/include" "-L$H/lib64" -lascendcl \
    -lnnopbase -lopapi -o "$name" 2>log || { cat log; exit 1; }
  LD_LIBRARY_PATH=$H/lib64 FLASHACL_RECORD=$work/first "./$name" >/dev/null
  mv first elsewhere
  "$H/bin/flashacl" show elsewhere >shown
  "$H/bin/flashacl" replay elsewhere >replayed ||
    { echo "records: $name: other bits"; cat replayed; exit 1; }
  grep -q "^0000000" replayed || { echo "records: $name: no calls"; exit 1; }
  if grep -q "not run" replayed && ! grep -q " 0 not run" replayed; then
    echo "records: $name:"
    cat replayed
    exit 1
  fi
  if python3 -c "import numpy" 2>/dev/null; then
    python3 "$here/records.py" elsewhere
  fi
  # Attention is checked; a sample's only call may be nothing else.
  status=0
  "$H/bin/flashacl" check elsewhere >checked 2>&1 || status=$?
  [ $status != 1 ] || { echo "records: $name: WRONG"; cat checked; exit 1; }
  if [ -d "$seeds" ]; then
    [ $status = 0 ] || { echo "records: $name: not checked"; cat checked; exit 1; }
    grep -q "^recorded: right" checked
    call=$(ls elsewhere/calls | head -1)
    words=$(python3 "$here/record_output.py" "elsewhere/calls/$call" same.bin same)
    "$H/bin/flashacl" check "elsewhere/${call%.json}" "$words" >checked ||
      { echo "records: $name: the same bytes in a file"; cat checked; exit 1; }
    words=$(python3 "$here/record_output.py" "elsewhere/calls/$call" wrong.bin wrong)
    status=0
    "$H/bin/flashacl" check "elsewhere/${call%.json}" "$words" >checked || status=$?
    [ $status = 1 ] && grep -q "WRONG in 1 of" checked ||
      { echo "records: $name: a changed element"; cat checked; exit 1; }
  fi
  rm -r elsewhere
  echo "records: $name: ok"
done
