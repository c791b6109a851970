#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Two programs that know only the installed prefix and a file between them
# share a tensor: one makes it, the other changes it.
# labels: prefix
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
g++ -std=c++14 -Wall -Werror "$FLASHACL_SOURCE/tests/install/share.cc" \
  -I"$FLASHACL_PREFIX/include" -L"$FLASHACL_PREFIX/lib64" -lascendcl -o share
export LD_LIBRARY_PATH=$FLASHACL_PREFIX/lib64

# The importer waits for the file with the names; the exporter, which writes it
# once it knows the importer's process, ends last.
./share import names >imported &
importer=$!
timeout 60 ./share export names "$importer" >exported
wait "$importer"
diff - imported <<<'imported: 1 2 3 4'
diff - exported <<<'exported: 11 12 13 14'
left=$(ls /dev/shm | grep -F -f <(grep -o 'flashacl-[0-9a-f]*' names) || true)
[ -z "$left" ] || { echo "share: left: $left" >&2; exit 1; }
