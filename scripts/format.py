# SPDX-License-Identifier: Apache-2.0
"""Fails if clang-format would change a source; --update lets it. Exits 77, which
is a skipped test, where clang-format is of another version than the sources'."""

import re
import shutil
import subprocess
import sys

import tree

VERSION = 14  # of Debian 12 and Ubuntu 22.04
SKIPPED = 77


def main():
    parser = tree.parser(__doc__)
    parser.add_argument("--update", action="store_true",
                        help="rewrite the sources instead")
    options = parser.parse_args()
    if shutil.which("clang-format") is None:
        sys.exit("clang-format is missing: run scripts/setup.sh")
    says = subprocess.run(["clang-format", "--version"], capture_output=True,
                          text=True, check=True).stdout.strip()
    if not re.search(rf"\bversion {VERSION}\.", says):
        print(f"not checked: sources have the format of clang-format {VERSION}, "
              f"others write another one, and this is {says}", file=sys.stderr)
        sys.exit(SKIPPED)
    paths = [str(options.root / p)
             for p in tree.files(options.root, tree.CODE)]
    how = ["-i"] if options.update else ["--dry-run", "-Werror"]
    done = subprocess.run(["clang-format", "--style=file", *how, *paths],
                          capture_output=True, text=True)
    if done.returncode != 0:
        bad = sorted({line.split(":")[0] for line in done.stderr.split("\n")
                      if ": error: " in line})
        sys.exit("\n".join(["not formatted (make format mends them):", *bad])
                 if bad else done.stderr)


if __name__ == "__main__":
    main()
