# SPDX-License-Identifier: Apache-2.0
"""record_output.py CALL.json FILE WHAT: writes a recorded call's first output
of floats, dense, as `same`, or with its first element changed as `wrong`; prints
the result's name and FILE with its type and shape, as flashacl check takes
them."""
import json
import pathlib
import struct
import sys

TYPES = {"FLOAT": ("f32", 4), "FLOAT16": ("f16", 2), "BFLOAT16": ("bf16", 2)}


def main(call, file, what):
    call, file = pathlib.Path(call), pathlib.Path(file)
    for parameter in json.loads(call.read_text())["parameters"]:
        value = parameter["value"]
        if not isinstance(value, dict) or not value.get("output"):
            continue
        if "softmax" in parameter["name"] or value["type"] not in TYPES:
            continue
        name, size = TYPES[value["type"]]
        stored = call.parent.parent / "tensors"
        stored = (stored / (value["after"]["digest"] + ".npy")).read_bytes()
        header, = struct.unpack("<H", stored[8:10])
        data = bytearray(stored[10 + header:])
        count = 1
        for axis in reversed(range(len(value["shape"]))):
            if value["shape"][axis] > 1 and value["strides"][axis] != count:
                sys.exit(f"{call}: {parameter['name']} is no dense tensor")
            count *= value["shape"][axis]
        if what == "wrong":
            data[size - 1] ^= 0x40  # the highest bit of the exponent
        file.write_bytes(data[:count * size])
        shape = "x".join(map(str, value["shape"]))
        # As a check calls it: the first of the gradients is dq.
        forward = parameter["name"].startswith("attentionOut")
        print(f"{'out' if forward else 'dq'}={file}:{name}:{shape}")
        return
    sys.exit(f"{call}: no output of floats")


if __name__ == "__main__":
    main(*sys.argv[1:])
