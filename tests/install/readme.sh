#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The program on the front page compiles with the command printed there, prints
# what is printed there, and every link on the page leads somewhere.
# labels: prefix
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
readme=$FLASHACL_SOURCE/README.md

# block KIND: the first block of this kind.
block() {
  awk -v kind="\`\`\`$1" '$0 == kind {inside = 1; next}
    inside && $0 == "```" {exit} inside' "$readme"
}
block cpp >"$work/attend.cpp"
block text >"$work/want"
command=$(grep '^g++ attend.cpp' "$readme")
[ -s "$work/attend.cpp" ] && [ -s "$work/want" ] && [ -n "$command" ]

cd "$work"
. "$FLASHACL_PREFIX/set_env.sh"
eval "$command"
./attend >got
diff want got

failed=0
while read -r target; do
  case $target in http*) continue ;; esac
  if [ ! -e "$FLASHACL_SOURCE/$target" ]; then
    echo "readme: link to $target leads nowhere" >&2
    failed=1
  fi
done < <(grep -oE '\]\([^)#]+\)' "$readme" | tr -d '()]' )
exit "$failed"
