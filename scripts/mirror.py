# SPDX-License-Identifier: Apache-2.0
"""Fails if a source has no test: src/x/y.cc needs tests/x/y_test.cc."""

import pathlib
import sys

import tree


def check(root):
    """One sentence for each source without a test."""
    bad = []
    for path in tree.files(root, {".cc"}, {"src"}):
        inside = path.relative_to("src")
        test = pathlib.Path("tests") / inside.with_name(f"{path.stem}_test.cc")
        if not (root / test).is_file():
            bad.append(f"{path}: has no {test}")
    return bad


if __name__ == "__main__":
    sys.exit("\n".join(check(tree.parser(__doc__).parse_args().root)) or 0)
