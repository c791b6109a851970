#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# wheel_test.sh: installs the wheel that wheel.sh made into an empty Python
# environment, outside the sources and without set_env.sh, and uses it there: the
# tool, and attention of NumPy's arrays. What the wheel is named after must be
# what its files need.
set -euo pipefail
cd "$(dirname "$0")/.."
wheel=$(ls "$PWD"/build/package/wheel/*.whl)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check "$wheel"

# By the rules of manylinux (PEP 600): glibc of the name's version or older, and
# no library but those that every system has, or that lie in the wheel.
name=$(basename "$wheel" .whl)
system=${name##*-}
if [[ ! $system =~ ^manylinux_2_([0-9]+)_$(uname -m)$ ]]; then
  echo "wheel: its name says $system, expected manylinux_2_N_$(uname -m)" >&2
  exit 1
fi
named=${BASH_REMATCH[1]}
inside=$("$work/venv/bin/python" -c 'import site; print(site.getsitepackages()[0])')
if ! grep -qx "Tag: py3-none-$system" "$inside"/flashacl-*.dist-info/WHEEL; then
  echo "wheel: its metadata has not the tag of its name, $system" >&2
  exit 1
fi
files=("$inside/flashacl/bin/flashacl" "$inside/flashacl/lib64/libascendcl.so")
if [ -d "$inside/flashacl.libs" ]; then
  files+=("$inside"/flashacl.libs/*)
fi
for file in "${files[@]}"; do
  newest=$(objdump -T "$file" | grep -oE 'GLIBC_2\.[0-9]+' | sort -uV | tail -n 1)
  if [ "${newest#GLIBC_2.}" -gt "$named" ]; then
    echo "wheel: $file needs $newest, and $system is older" >&2
    exit 1
  fi
  for needed in $(objdump -p "$file" | awk '$1 == "NEEDED" {print $2}'); do
    case $needed in
      libc.so.6 | libm.so.6 | libdl.so.2 | libpthread.so.0 | librt.so.1) ;;
      ld-linux*.so.* | libgcc_s.so.1 | libstdc++.so.6 | libz.so.1) ;;
      *) if [ ! -f "$inside/flashacl.libs/$needed" ]; then
           echo "wheel: $file needs $needed, which systems may lack" >&2
           exit 1
         fi ;;
    esac
  done
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
