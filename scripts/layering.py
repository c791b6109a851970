# SPDX-License-Identifier: Apache-2.0
"""Fails if a file includes a folder above its own, or, inside src/cpu and
src/verify, one beside it that is not shared. DEVELOPING.md shows the order; src/backends.cc
alone knows every backend."""

import re
import sys

import tree

BELOW_OPERATORS = {"base", "problem", "plan"}
# Vector code that computations beside attention share with the CPU backend:
# they compute on the host, whatever the backend.
HOST_VECTORS = {"cpu/dispatch.h", "cpu/element_format.h",
                "cpu/kv_rows.h", "cpu/pair_dots.h",
                "cpu/pair_format.h", "cpu/sizes.h", "cpu/streams.h",
                "cpu/targets.h", "cpu/tile/head_terms-inl.h",
                "cpu/tile/load-inl.h", "cpu/tile/matmul-inl.h",
                "cpu/tile/matrices-inl.h", "cpu/tile/matrix_products-inl.h",
                "cpu/tile/matrix_values-inl.h", "cpu/tile/pair-inl.h",
                "cpu/tile/pairs-inl.h", "cpu/tile/prefetch-inl.h",
                "cpu/tile/prefetch_queue-inl.h",
                "cpu/tile/store-inl.h", "cpu/tile/stream-inl.h",
                "cpu/tile/transpose-inl.h", "cpu/tile/vector-inl.h",
                "cpu/work_loop.h"}
HAVE_HOST_VECTORS = {"dropout", "indexer", "merge", "pages", "record", "roof"}
# Folders that nobody includes but themselves.
CLOSED = {"acl/single_op"}
# Inside src/cpu: the files at its top know no implementation, but for the table
# of them; implementations share tiles, not each other. Decode has the forward
# direction's parameters and operands, and so have backward and top-k lists;
# mixed batches are what both together make of them, and few heads over a list
# are tiles of decode.
CPU_MAY_INCLUDE = {
    "": set(),
    "tile": {""},
    "forward": {"", "tile"},
    "decode": {"", "tile", "forward"},
    "mixed": {"", "forward", "decode"},
    "backward": {"", "tile", "forward"},
    "topk": {"", "tile", "forward", "decode"},
}
CPU_TABLE = "src/cpu/cpu_backend.cc"
# Inside src/verify: what judges our own implementations on samples, and what
# judges anybody's tensors, which are answered, then suspected, then reported.
VERIFY_MAY_INCLUDE = {
    "": set(),
    "answer": set(),
    "causes": {"answer"},
    "check": {"answer", "causes", ""},
}
INSIDE = {"cpu": CPU_MAY_INCLUDE, "verify": VERIFY_MAY_INCLUDE}
MAY_INCLUDE = {
    "base": set(),
    "arrays": {"base"},
    "portable": set(),
    "problem": {"base"},
    "plan": {"base", "problem"},
    "reference": BELOW_OPERATORS,
    "verify": BELOW_OPERATORS | {"reference"},
    "check": BELOW_OPERATORS | {"verify"},
    "roof": {"base", "plan"},
    "cpu": BELOW_OPERATORS,
    "cuda": BELOW_OPERATORS,
    "elementwise": {"base", "plan"},
    "dropout": {"base", "plan", "elementwise"},
    "merge": {"base", "plan"},
    "pages": {"base", "plan"},
    "indexer": BELOW_OPERATORS,
    "record": {"base", "arrays"},
    "acl": BELOW_OPERATORS | {"backends.h", "record"},
    "ops": {"base", "problem", "acl", "elementwise", "dropout", "merge",
            "pages", "indexer"},
    "replay": {"base", "problem", "plan", "record", "acl"},
}
CALLERS = {"tools", "python"}
CALLERS_MAY_INCLUDE = BELOW_OPERATORS | {"arrays", "backends.h", "record",
                                         "replay", "roof", "verify"}
# Benchmarks time kernels, the runtime and the C API, too.
BENCH_MAY_INCLUDE = CALLERS_MAY_INCLUDE | {"acl", "bench", "cpu", "tools"}
# The public headers; only what implements them may know them.
PUBLIC = {"aclnn", "aclnnop", "hccl", "mstx", "securec.h"}
KNOW_PUBLIC = {"acl", "ops", "replay", "bench", "python"}


def folder_of(path):
    if path.parts[0] == "src":
        return path.parts[1]
    return path.parts[0]


def allowed(folder):
    if folder == "bench":
        return BENCH_MAY_INCLUDE
    if folder == "python":
        return set()  # PyTorch's headers, the adapter's, and the C API
    if folder in CALLERS:
        return CALLERS_MAY_INCLUDE | {"tools"}
    return MAY_INCLUDE[folder] | {folder}


def is_closed(path, name):
    """Whether an include reaches into a folder that is closed to its file."""
    other = name.rpartition("/")[0]
    return other in CLOSED and path.parent.as_posix() != f"src/{other}"


def inner_folder(path):
    """The folder of a path inside its folder of src; empty at the top."""
    parts = path.split("/")
    return parts[0] if len(parts) > 1 else ""


def wrong_inside(path, name, outer):
    """Why a file in src/<outer> may not include a header of it, or None."""
    if path.as_posix() == CPU_TABLE:
        return None
    own = inner_folder(path.relative_to(f"src/{outer}").as_posix())
    other = inner_folder(name.removeprefix(f"{outer}/"))
    may = INSIDE[outer].get(own, set()) | {own}
    if other in may:
        return None
    shown = ", ".join(sorted(f"{outer}/{one}".rstrip("/") for one in may))
    return f"{path}: may not include {name}; it sees only: {shown}"


def check(root):
    """One sentence for each include that points the wrong way."""
    bad = []
    for path in tree.files(root, tree.CODE, {"src", "bench", *CALLERS}):
        folder = folder_of(path)
        if folder not in MAY_INCLUDE and folder not in CALLERS | {"bench"}:
            continue
        text = (root / path).read_text()
        for name in re.findall(r'^#include "([^"]+)"', text, re.M):
            other = name.split("/")[0]
            if other in PUBLIC:
                wrong = folder not in KNOW_PUBLIC
            else:
                known = other in MAY_INCLUDE or other == "backends.h"
                shared = folder in HAVE_HOST_VECTORS and name in HOST_VECTORS
                wrong = (known and not shared
                         and other not in allowed(folder))
            if wrong:
                may = ", ".join(sorted(allowed(folder)))
                bad.append(f"{path}: may not include {name}; "
                           f"{folder} sees only: {may}")
            elif is_closed(path, name):
                bad.append(f"{path}: may not include {name}, which nobody does "
                           "outside its folder")
            elif (folder == other and folder in INSIDE
                  and path.parts[0] == "src"):
                sentence = wrong_inside(path, name, folder)
                bad += [sentence] if sentence else []
    return bad


if __name__ == "__main__":
    sys.exit("\n".join(check(tree.parser(__doc__).parse_args().root)) or 0)
