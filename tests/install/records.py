# SPDX-License-Identifier: Apache-2.0
"""records.py DIRECTORY: reads every tensor of a record with NumPy alone, and
compares its statistics with the record's."""
import json
import pathlib
import sys

import numpy as np


def tensors(parameters):
    for parameter in parameters:
        value = parameter["value"]
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, dict) and "shape" in one:
                yield parameter["name"], one


def numbers(directory, tensor, when):
    stored = np.load(directory / "tensors" / (tensor[when]["digest"] + ".npy"))
    view = np.lib.stride_tricks.as_strided(
        stored, tensor["shape"],
        [stride * stored.itemsize for stride in tensor["strides"]])
    if tensor["type"] == "BFLOAT16":
        view = (view.astype("<u4") << 16).view("<f4")
    return view.astype("f8")


def main(directory):
    count = 0
    for path in sorted((directory / "calls").glob("*.json")):
        for name, tensor in tensors(json.loads(path.read_text())["parameters"]):
            for when in ("before", "after"):
                if tensor.get(when, {}).get("count", 0) == 0:
                    continue
                facts = tensor[when]
                read = numbers(directory, tensor, when)
                finite = read[np.isfinite(read)]
                found = [read.size, int(np.isnan(read).sum()),
                         finite.min() if finite.size else 0,
                         finite.max() if finite.size else 0]
                said = [facts["count"], facts["nan"], facts["min"],
                        facts["max"]]
                if found != said:
                    sys.exit(f"{path}: {name}: {said}, NumPy finds {found}")
                count += 1
    if count == 0:
        sys.exit(f"{directory}: no tensors")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
