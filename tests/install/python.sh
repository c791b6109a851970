#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What of the Python package needs nothing but Python: it finds the prefix's
# library and tool, and calls the C functions rightly. make wheel-test and make
# torch-test show the rest.
# labels: prefix
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r "$FLASHACL_SOURCE/python/flashacl" "$work"
cp "$here/python.py" "$work"
cd "$work"
run() {
  env -i PATH="$PATH" HOME="$work" PYTHONDONTWRITEBYTECODE=1 "$@"
}

home=ASCEND_HOME_PATH=$FLASHACL_PREFIX
run "$home" python3 python.py
run "$home" FLASHACL_STRICT=exit python3 python.py
if [ -x "$FLASHACL_PREFIX/bin/flashacl" ]; then
  run "$home" python3 -m flashacl --version | grep -q .
fi
# Without a prefix it says what to do.
if run python3 -m flashacl 2>said || ! grep -q set_env.sh said; then
  echo "python: without a tool it says:" >&2
  cat said >&2
  exit 1
fi
