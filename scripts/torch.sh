#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# torch.sh COMMAND...: makes a Python environment outside the sources with
# PyTorch, Ascend's adapter and FlashACL's bridge, and runs the commands in it:
#   examples    runs examples/torch/*.py
#   test        runs the tests in tests/torch
#   quick       runs those that take a minute or two and start no processes
#   install     makes the environment, without the bridge
#   shell CMD   runs any command, as `shell python script.py`
# FLASHACL_TORCH names the version of torch; the environment lies in
# ${XDG_CACHE_HOME:-~/.cache}/flashacl and takes 7 GB.
set -euo pipefail
cd "$(dirname "$0")/.."
version=${FLASHACL_TORCH:-2.9.1}
prefix=$PWD/build/release/prefix
home=${XDG_CACHE_HOME:-$HOME/.cache}/flashacl/torch-$version
python=$home/bin/python

if [ ! -f "$prefix/set_env.sh" ]; then
  echo "torch: build FlashACL first: make run" >&2
  exit 1
fi

# Each line is installed once; a line that changes is installed again.
install() {
  local stamp="$home/installed-$1" how="${*:2}"
  if [ "$(cat "$stamp" 2> /dev/null)" != "$how" ]; then
    echo "torch: installing $how" >&2
    "$python" -m pip install --quiet --disable-pip-version-check "${@:2}"
    echo "$how" > "$stamp"
  fi
}

if [ ! -x "$python" ]; then
  echo "torch: making $home; this downloads 4 GB once" >&2
  python3 -m venv "$home"
fi
install torch "torch==$version" numpy pyyaml
# Its metadata asks for a CPU build of torch, which PyPI does not have.
install torch_npu --no-deps "torch_npu==$version"
install tools setuptools wheel ninja pytest expecttest
# Whose own NPU integration is tested.
[ "$*" = quick ] || [ "$*" = install ] ||
  install models "transformers==4.57.6"
[ "$*" != install ] || exit 0

# shellcheck disable=SC1091
source "$prefix/set_env.sh"
export PATH="$home/bin:$PATH"

# The extension is built in a copy, whose files keep their times, so that only
# what changed is compiled.
copy=$home/source
mkdir -p "$copy"
for file in $(cd python && git ls-files --cached --others --exclude-standard); do
  mkdir -p "$copy/$(dirname "$file")"
  cmp --silent "python/$file" "$copy/$file" || cp "python/$file" "$copy/$file"
done
state=$(cd "$copy" && find . -name '*.cc' -o -name '*.h' -o -name '*.py' \
        -o -name '*.toml' | grep -v '^./build' | sort | xargs sha256sum \
        | sha256sum; echo "$prefix")
if [ "$(cat "$home/installed-bridge" 2> /dev/null)" != "$state" ]; then
  echo "torch: building the bridge; this takes a few minutes" >&2
  log=$home/bridge.log
  if ! "$python" -m pip install --quiet --disable-pip-version-check \
       --no-build-isolation --no-deps --force-reinstall "$copy" \
       > "$log" 2>&1; then
    tail -n 40 "$log" >&2
    exit 1
  fi
  echo "$state" > "$home/installed-bridge"
fi

pytest=("$python" -m pytest -q -p no:cacheprovider
        -o "python_files=*_test.py")
for command in "$@"; do
  case $command in
    examples)
      for example in examples/torch/*.py; do
        echo "torch: $example" >&2
        "$python" "$example"
      done ;;
    test)
      "${pytest[@]}" tests/torch ;;
    quick)
      "${pytest[@]}" tests/torch/{arrays,attention,calls,companions,dispatch,flashinfer,kept_calls,plain,repeated}_test.py \
        tests/torch/same_bits_test.py \
        -k "not without_pytorch and not fork" ;;
    shell)
      exec "${@:2}" ;;
    *)
      echo "torch: unknown command $command" >&2
      exit 2 ;;
  esac
done
