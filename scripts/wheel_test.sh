#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# wheel_test.sh: installs the wheel that wheel.sh made into an empty Python
# environment, outside the sources and without set_env.sh, and uses it there:
# the tool, attention of NumPy's arrays, and what is said when PyTorch is wanted.
set -euo pipefail
cd "$(dirname "$0")/.."
wheel=$(ls "$PWD"/build/package/wheel/*.whl)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check "$wheel"

cat >"$work/attention.py" <<'PYTHON'
import sys

import numpy as np

import flashacl
from flashacl import library

random = np.random.default_rng(1)
q = random.standard_normal((2, 6, 4, 32), dtype=np.float32)
k, v = (random.standard_normal((2, 9, 2, 32), dtype=np.float32)
        for _ in range(2))
out, lse = flashacl.attention(q, k, v, causal=True, return_lse=True)

wide = [np.repeat(x.astype(np.float64), 2, 2) for x in (k, v)]
scores = np.einsum("bsnd,btnd->bnst", q.astype(np.float64), wide[0])
scores *= 32 ** -0.5
scores[:, :, ~np.tril(np.ones((6, 9), bool), 3)] = -np.inf
sums = np.log(np.exp(scores).sum(-1))
expected = np.einsum("bnst,btnd->bsnd", np.exp(scores - sums[..., None]),
                     wide[1])
# Nine products of numbers about 1, in float32.
assert abs(out - expected).max() < 1e-5 and abs(lse - sums).max() < 1e-5
inside = library.load()._name
assert inside.startswith(sys.prefix), inside
assert "torch" not in sys.modules
print("attention of NumPy's arrays: right to", abs(out - expected).max())
PYTHON

# Nothing of the machine's FlashACL, or of the sources, helps.
run() {
  (cd "$work" && env -i PATH="$work/venv/bin:/usr/bin:/bin" HOME="$work" "$@")
}
run flashacl info
run python -m flashacl --version
run python attention.py
if run flashacl no-such-command >/dev/null 2>&1; then
  echo "wheel: the tool's exit status is lost" >&2
  exit 1
fi
echo "wheel: ok"
