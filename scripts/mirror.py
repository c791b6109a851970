# SPDX-License-Identifier: Apache-2.0
"""Fails if nothing tests a source: src/x/y.cc needs tests/x/y_test.cc, or a
test of tests/x or of a folder above that includes its header, x/y.h or one that
declares what several sources define: a test of its own is for a source of which
others do not show enough. Vector code without a header is called by another
source of its folder, and shown by that one's tests."""

import pathlib
import re
import sys

import tree

INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)
# Headers that declare what several sources define.
OF_SEVERAL = {"cpu/implementations.h", "verify/causes/causes.h",
              "verify/check/tensor_check.h"}


def header_of(root, path):
    """The header that declares what a source defines."""
    header = path.with_suffix(".h")
    if not (root / header).exists():
        for name in INCLUDE.findall((root / path).read_text()):
            if name in OF_SEVERAL:
                return name
    return header.relative_to("src").as_posix()


def check(root):
    """One sentence for each source without a test."""
    tests = [p for p in tree.files(root, {".cc"}, {"tests"})
             if p.stem.endswith("_test")]
    shown = {(p.parent.relative_to("tests"), name)
             for p in tests for name in INCLUDE.findall((root / p).read_text())}
    bad = []
    for path in tree.files(root, {".cc"}, {"src"}):
        inside = path.relative_to("src")
        test = pathlib.Path("tests") / inside.with_name(f"{path.stem}_test.cc")
        header = header_of(root, path)
        if test in tests or any((p, header) in shown for p in inside.parents):
            continue
        vectors = "HWY_TARGET_INCLUDE" in (root / path).read_text()
        if vectors and not (root / path).with_suffix(".h").exists() and any(
                p.parent == test.parent for p in tests):
            continue
        bad.append(f"{path}: has no {test}, and no test above has {header}")
    return bad


if __name__ == "__main__":
    sys.exit("\n".join(check(tree.parser(__doc__).parse_args().root)) or 0)
