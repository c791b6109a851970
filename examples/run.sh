#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh PREFIX: compiles the examples against an installed FlashACL the way any
# CANN program is compiled, runs them, and prints one table.
set -euo pipefail
if [ $# -ne 1 ] || [ ! -f "$1/set_env.sh" ]; then
  echo "usage: examples/run.sh PREFIX (an installed FlashACL)" >&2
  exit 2
fi
prefix=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# shellcheck disable=SC1091
source "$prefix/set_env.sh"

examples=(varlen_forward prefill decode varlen_backward sparse_backward
          serving_loop deepseek_sparse)
failed=0
rows="$work/rows"
echo "operator|problem|implementation|status|error|ms" > "$rows"
for name in "${examples[@]}"; do
  echo "examples: $name" >&2
  "${CXX:-g++}" -std=c++11 -O2 -Wall -Werror "$here/$name.cpp" -o "$work/$name" \
    "-I$ASCEND_HOME_PATH/include" "-L$ASCEND_HOME_PATH/lib64" \
    -lascendcl -lnnopbase -lopapi
  # The library's trace says what was asked, and who answered.
  trace="$work/$name.trace"
  output=$(FLASHACL_TRACE="$trace" "$work/$name") || failed=1
  # The last line is for the table, those before it are for the reader.
  line=$(tail -n 1 <<< "$output")
  head -n -1 <<< "$output" >&2
  operator=${line%% *}
  status=$(sed -n 's/.*status=\([^ ]*\).*/\1/p' <<< "$line")
  error=$(sed -n 's/.*error=\([^ ]*\).*/\1/p' <<< "$line")
  ms=$(sed -n 's/.*ms=\([^ ]*\).*/\1/p' <<< "$line")
  launch=$(grep " launch $operator " "$trace" 2> /dev/null | tail -n 1 || true)
  problem=$(sed -n 's/[^"]*"\([^"]*\)".*/\1/p' <<< "$launch")
  implementation=$(sed -n 's/.*" \([^ ]*\) .*/\1/p' <<< "$launch")
  echo "${operator:-$name}|$problem|$implementation|${status:-FAILED}|$error|$ms" \
    >> "$rows"
done

echo
awk -F'|' '
  NR == FNR { for (n = 1; n <= NF; ++n) if (length($n) > w[n]) w[n] = length($n); next }
  {
    line = ""
    for (n = 1; n <= NF; ++n) line = line sprintf(n < 5 ? "%-*s  " : "%*s  ", w[n], $n)
    sub(/ +$/, "", line); print line
  }' "$rows" "$rows"
exit "$failed"
