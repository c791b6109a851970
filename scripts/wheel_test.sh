#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# wheel_test.sh: installs the wheel that wheel.sh made into an empty Python
# environment, outside the sources and without set_env.sh, and uses it there: the
# tool, and attention of NumPy's arrays. What its files need must be what it is
# named after.
set -euo pipefail
cd "$(dirname "$0")/.."
wheel=$(ls "$PWD"/build/package/wheel/*.whl)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check "$wheel"

# The rule of packages, which is that of manylinux (PEP 600) and stricter.
name=$(basename "$wheel" .whl)
system=${name##*-}
if [ "$system" != "manylinux_2_34_$(uname -m)" ]; then
  echo "wheel: its name says $system" >&2
  exit 1
fi
inside=$("$work/venv/bin/python" -c 'import site; print(site.getsitepackages()[0])')
if ! grep -qx "Tag: py3-none-$system" "$inside"/flashacl-*.dist-info/WHEEL; then
  echo "wheel: its metadata has not the tag of its name, $system" >&2
  exit 1
fi
if [ -e "$inside/flashacl.libs" ]; then
  echo "wheel: auditwheel put libraries of this machine into it" >&2
  exit 1
fi
python3 scripts/portable.py "$inside/flashacl"
for notice in LICENSE THIRD_PARTY_NOTICES; do
  if [ -z "$(find "$inside"/flashacl-*.dist-info -name $notice -size +0)" ]; then
    echo "wheel: no $notice" >&2
    exit 1
  fi
done

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

# An exception in the library, of more numbers than a vector holds, which it
# answers.
assert not library.load().aclCreateIntArray(
    np.zeros(1, np.int64).ctypes.data, 1 << 60)
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
echo "wheel: ok, for $system"
