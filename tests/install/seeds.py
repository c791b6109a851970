#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sample programs out of operator documents, and what is known of their runs.

seeds.py extract DOCUMENT        prints the sample program, unchanged
seeds.py values NAME < STDOUT    are these the values it prints?
seeds.py findings NAME MODE < LISTENER
                                 is this what the library says of its mistakes?
"""
import re
import sys

NUMBER = re.compile(r"^(?:mean )?result\[(\d+)\] is: (\S+)$")


def program_of(document):
    """The C++ block with a main function."""
    blocks = re.findall(r"^ *```(?:c\+\+|cpp)\n(.*?)^ *```\s*?$", document,
                        re.DOTALL | re.MULTILINE)
    programs = [block for block in blocks if "int main(" in block]
    if len(programs) != 1:
        sys.exit(f"seeds: {len(programs)} programs in the document, not one")
    return programs[0]


def tensors_of(lines):
    """The printed tensors: each starts again at index 0."""
    tensors = []
    for line in lines:
        match = NUMBER.match(line)
        if not match:
            sys.exit(f"seeds: unexpected line: {line}")
        if int(match[1]) == 0:
            tensors.append([])
        if int(match[1]) != len(tensors[-1]):
            sys.exit(f"seeds: out of order: {line}")
        tensors[-1].append(match[2])
    return tensors


def expect_sizes(tensors, sizes):
    found = [len(tensor) for tensor in tensors]
    if found != sizes:
        sys.exit(f"seeds: tensors of {found} elements, expected {sizes}")


def expect_all(tensor, text):
    wrong = [value for value in tensor if value != text]
    if wrong:
        sys.exit(f"seeds: {len(wrong)} values are not {text}: {wrong[0]}")


def forward(tensors):
    # Halves of 2^-24 read as floats, which are too small to show; row max 4e-14
    # and row sum 256.
    expect_sizes(tensors, [32768, 2048, 2048])
    expect_all(tensors[0] + tensors[1], "0.000000")
    expect_all(tensors[2], "256.000000")


def inference(tensors):
    # The answer and the rest of its 128 bytes, both halves 0 and 1.875 in turn
    # read as doubles; behind them is nothing, which reads as zeros.
    expect_sizes(tensors, [32])
    expect_all(tensors[0][:16], "0.007813")
    expect_all(tensors[0][16:], "0.000000")


def backward(tensors):
    # dP is delta, so dq and dk are 0. dv does not fit into its type, and fills
    # the first half of what is read.
    expect_sizes(tensors, [32768] * 3 + [1])
    expect_all(tensors[0] + tensors[1] + tensors[2][16384:], "0.000000")
    sink = float(tensors[3][0])
    if abs(sink / -1.7603e12 - 1) > 1e-3:
        sys.exit(f"seeds: gradient of the sink is {sink}")


def sparse_backward(tensors):
    # The program prints 16-bit integers with %e: only how many is known. That
    # all are 0, the listener sees.
    expect_sizes(tensors, [8192, 1048576, 1048576, 1024, 131072])


VALUES = {
    "000": forward,
    "001": inference,
    "002": backward,
    "003": inference,
    "004": sparse_backward,
}

NULL_FREED = r"aclrtFree 100000 .*devPtr cannot be a NULL pointer\."
ALL_ZEROS = r"read (\d+) bytes, \1 of them 0"
PAST_DOUBLES = (r"aclrtMemcpy 107000 .*read of 256 bytes at offset 0 of a "
                r"128-byte allocation")


PLACE = r"[\w.]+\+0x[0-9a-f]+"


def left(what, *lines):
    """What a program does not release, and a line each for who made it."""
    return (r"aclFinalize 0 .*not released: " + re.escape(what) + r"\. *" +
            "".join(r" +" + line for line in lines))


def left_arrays(count):
    return left(f"{count} int arrays", *[rf"1 int array in {PLACE}"] * count)


def left_blocks(*sizes):
    return left(f"{len(sizes)} device blocks ({sum(sizes)} bytes)",
                *[rf"{size:,} bytes at 0x[0-9a-f]+: aclrtMalloc in {PLACE}"
                  for size in sizes])


# Per program and mode, each line of the listener.
FINDINGS = {
    ("000", "lenient"): [r"read 131072 .*"] + [r"read 8192 .*"] * 2,
    ("001", "lenient"): [r"read 256 .*"],
    ("002", "lenient"): [ALL_ZEROS, ALL_ZEROS, r"read 131072 .*", r"read 4 .*"],
    ("003", "lenient"): [r"read 256 .*"],
    ("004", "lenient"): [ALL_ZEROS] * 5 + [NULL_FREED] * 2,
    ("000", "strict"): [
        r"aclrtMemcpy 107000 .*read of 131072 bytes at offset 0 of a "
        r"65536-byte allocation"] + [r"read 8192 .*"] * 2 +
        [left_arrays(3)],
    # These two end at the first copy that fails.
    ("001", "strict"): [PAST_DOUBLES],
    ("003", "strict"): [PAST_DOUBLES],
    ("002", "strict"): [ALL_ZEROS, ALL_ZEROS, r"read 131072 .*", r"read 4 .*",
                        left_arrays(5)],
    ("004", "strict"): [ALL_ZEROS] * 5 + [NULL_FREED] * 2 +
        [left_blocks(262144, 2048, 8, 8)],
}


def check_findings(name, mode, lines):
    prefix = "listener: "
    found = [line[len(prefix):] for line in lines if line.startswith(prefix)]
    expected = FINDINGS[name, mode]
    for number in range(max(len(found), len(expected))):
        line = found[number] if number < len(found) else "silence"
        pattern = expected[number] if number < len(expected) else "no more"
        if not re.fullmatch(pattern + " *", line):
            sys.exit(f"seeds: {name}, {mode}: \"{line}\", expected {pattern}")


def main(arguments):
    if len(arguments) == 2 and arguments[0] == "extract":
        with open(arguments[1], encoding="utf-8") as document:
            sys.stdout.write(program_of(document.read()))
    elif len(arguments) == 2 and arguments[0] == "values":
        VALUES[arguments[1]](tensors_of(sys.stdin.read().splitlines()))
    elif len(arguments) == 3 and arguments[0] == "findings":
        check_findings(*arguments[1:], sys.stdin.read().splitlines())
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
