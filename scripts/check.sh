#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs every script that checks the sources, then the scripts' tests. Nothing needs
# a build; where build/release is configured, sources that it compiles together and
# that changed are compiled alone, too.
set -uo pipefail
cd "$(dirname "$0")/.."
failed=0
for rule in layering mirror forbidden names format alone; do
  status=0
  python3 "scripts/$rule.py" || status=$?
  case $status in
    0) echo "$rule: ok" ;;
    77) echo "$rule: skipped" ;;
    *)
      echo "$rule: FAILED" >&2
      failed=1
      ;;
  esac
done
for test in tests/scripts/*_test.py; do
  python3 "$test" || failed=1
done
exit "$failed"
