#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The example of every operator's page compiles with the command that the
# folder's page gives, and prints what its page says, in strict mode too. Pages
# in other languages have the same examples (tests/scripts/pages_test.py).
# labels: prefix
set -euo pipefail
pages=$FLASHACL_SOURCE/docs/operators
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
. "$FLASHACL_PREFIX/set_env.sh"
command=$(grep '^g++ example.cpp' "$pages/README.md")
ln -s "$FLASHACL_SOURCE/docs" "$work/docs"
cd "$work"
failed=0

# block KIND PAGE: the first block of this kind.
block() {
  awk -v kind="\`\`\`$1" '$0 == kind {inside = 1; next}
    inside && $0 == "```" {exit} inside' "$2"
}

ran=0
for page in "$pages"/*.md; do
  name=$(basename "$page" .md)
  [ "$name" != README ] || continue
  ran=$((ran + 1))
  block cpp "$page" >example.cpp
  block text "$page" >want
  if ! [ -s example.cpp ] || ! [ -s want ] || ! eval "$command -Wall -Werror"; then
    echo "operators: $name: no example that compiles" >&2
    failed=1
    continue
  fi
  for strict in 0 1; do
    if ! FLASHACL_STRICT=$strict ./example >got || ! diff want got >&2; then
      echo "operators: $name: FLASHACL_STRICT=$strict: other answers" >&2
      failed=1
    fi
  done
done
[ "$ran" -ge 17 ] || { echo "operators: only $ran pages found" >&2; failed=1; }
exit "$failed"
