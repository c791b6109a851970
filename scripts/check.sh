#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs every script that checks the sources without a build, then its tests.
set -uo pipefail
cd "$(dirname "$0")/.."
failed=0
for rule in layering mirror forbidden names format; do
  if python3 "scripts/$rule.py"; then
    echo "$rule: ok"
  else
    echo "$rule: FAILED" >&2
    failed=1
  fi
done
for test in tests/scripts/*_test.py; do
  python3 "$test" || failed=1
done
exit "$failed"
