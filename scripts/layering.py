# SPDX-License-Identifier: Apache-2.0
"""Fails if a file includes a folder above its own. DEVELOPING.md shows the
order; src/backends.cc alone knows every backend."""

import re
import sys

import tree

BELOW_OPERATORS = {"base", "problem", "plan"}
MAY_INCLUDE = {
    "base": set(),
    "problem": {"base"},
    "plan": {"base", "problem"},
    "reference": BELOW_OPERATORS,
    "cpu": BELOW_OPERATORS,
    "cuda": BELOW_OPERATORS,
    "acl": BELOW_OPERATORS | {"backends.h"},
    "ops": {"base", "problem", "acl"},
}
CALLERS = {"tools", "python"}
CALLERS_MAY_INCLUDE = BELOW_OPERATORS | {"backends.h"}
# The public headers; only what implements them may know them.
PUBLIC = {"aclnn", "aclnnop", "securec.h"}
KNOW_PUBLIC = {"acl", "ops"}


def folder_of(path):
    if path.parts[0] == "src":
        return path.parts[1]
    return path.parts[0]


def allowed(folder):
    if folder in CALLERS:
        return CALLERS_MAY_INCLUDE | {"tools"}
    return MAY_INCLUDE[folder] | {folder}


def check(root):
    """One sentence for each include that points the wrong way."""
    bad = []
    for path in tree.files(root, tree.CODE, {"src", *CALLERS}):
        folder = folder_of(path)
        if folder not in MAY_INCLUDE and folder not in CALLERS:
            continue
        text = (root / path).read_text()
        for name in re.findall(r'^#include "([^"]+)"', text, re.M):
            other = name.split("/")[0]
            if other in PUBLIC:
                wrong = folder not in KNOW_PUBLIC
            else:
                known = other in MAY_INCLUDE or other == "backends.h"
                wrong = known and other not in allowed(folder)
            if wrong:
                may = ", ".join(sorted(allowed(folder)))
                bad.append(f"{path}: may not include {name}; "
                           f"{folder} sees only: {may}")
    return bad


if __name__ == "__main__":
    sys.exit("\n".join(check(tree.parser(__doc__).parse_args().root)) or 0)
