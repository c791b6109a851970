# SPDX-License-Identifier: Apache-2.0
"""Attention and its gradient through the package's own calls, on memory of
ctypes, against softmax by Python's floats. Whole numbers as values make what
float32 rounds small beside what a wrong argument changes."""
import array
import gc
import math
import sys

from flashacl import library
from flashacl.plain import arrays, dlpack, operators

ROWS, KEYS, HEADS, KV_HEADS, DIM, SCALE = 3, 5, 4, 2, 16, 0.25


def block(*shape, of=None):
    """float32 in [B, S, N, D]: `of` each index, or zeros."""
    made = dlpack.Block(shape, "float32")
    if of is not None:
        made.fill(array.array("f", [
            of(s, n, d) for s in range(shape[1]) for n in range(shape[2])
            for d in range(shape[3])]).tobytes())
    return made


def floats(made):
    count = math.prod(made.shape)
    return array.array("f", bytes(made._bytes)[:4 * count])


def dot(a, b):
    return sum(x * y for x, y in zip(a, b))


def at(values, heads, s, n):
    start = (s * heads + n) * DIM
    return values[start:start + DIM]


def expected(q, k, v, dy):
    """(out, dq): row s sees keys up to s + KEYS - ROWS."""
    out, dq = [], []
    group = HEADS // KV_HEADS
    for s in range(ROWS):
        for n in range(HEADS):
            keys = [at(k, KV_HEADS, t, n // group)
                    for t in range(s + KEYS - ROWS + 1)]
            values = [at(v, KV_HEADS, t, n // group)
                      for t in range(len(keys))]
            scores = [SCALE * dot(at(q, HEADS, s, n), key) for key in keys]
            probs = [math.exp(x - max(scores)) for x in scores]
            probs = [p / sum(probs) for p in probs]
            out += [sum(p * value[d] for p, value in zip(probs, values))
                    for d in range(DIM)]
            dp = [dot(at(dy, HEADS, s, n), value) for value in values]
            mean = dot(probs, dp)
            ds = [p * (x - mean) for p, x in zip(probs, dp)]
            dq += [SCALE * sum(x * key[d] for x, key in zip(ds, keys))
                   for d in range(DIM)]
    return out, dq


def check(name, got, wanted):
    top = max(abs(x) for x in wanted)
    worst = max(abs(a - b) for a, b in zip(got, wanted))
    # Scores are sums of 16 products, and errors there those of exponentials.
    if not worst <= 64 * 2.0 ** -24 * top:
        sys.exit(f"{name}: differs by {worst} of {top}")


def attend():
    q = block(1, ROWS, HEADS, DIM, of=lambda s, n, d: (3 * s + n + d) % 5 - 2)
    k = block(1, KEYS, KV_HEADS, DIM, of=lambda s, n, d: (s * d + n) % 3 - 1)
    v = block(1, KEYS, KV_HEADS, DIM, of=lambda s, n, d: (5 * s + d) % 7 - n)
    dy = block(1, ROWS, HEADS, DIM, of=lambda s, n, d: (s + 2 * n + d) % 4 - 1)
    out, dq = block(*q.shape), block(*q.shape)
    dk, dv = block(*k.shape), block(*v.shape)
    most, total = (block(1, HEADS, ROWS, 8) for _ in range(2))
    call = operators.Call("BSND", HEADS, SCALE, right=0)
    inputs = [x.memory() for x in (q, k, v)]
    rest = [None] * 4
    saved = [x.memory() for x in (out, most, total)]
    operators.forward(call, *inputs, *rest, saved[0], *saved[1:])
    operators.backward(call, *inputs, *rest, *saved, dy.memory(),
                       *(x.memory() for x in (dq, dk, dv)), None, None)
    wanted = expected(*(floats(x) for x in (q, k, v, dy)))
    check("out", floats(out), wanted[0])
    check("dq", floats(dq), wanted[1])


def refuse():
    q = block(1, ROWS, 3, DIM).memory()
    k = block(1, KEYS, 2, DIM).memory()
    statistics = block(1, 3, ROWS, 8).memory()
    call = operators.Call("BSND", 3, SCALE)
    try:
        operators.forward(call, q, k, k, *[None] * 4, q, statistics,
                          statistics)
    except library.Error as error:
        if error.status != 561103 or "key: 2 heads" not in str(error):
            sys.exit(f"refused with {error.status}: {error}")
    else:
        sys.exit("3 heads on 2 were taken")


def hand_on():
    """DLPack there and back, where nobody consumes what was handed on."""
    made = block(2, 3, 1, 4, of=lambda s, n, d: s)

    class Foreign:
        __dlpack__, __dlpack_device__ = made.__dlpack__, \
            made.__dlpack_device__
    memory, keep = arrays.memory_of(Foreign(), "q")
    if memory != made.memory():
        sys.exit(f"DLPack: {memory}, expected {made.memory()}")
    del keep
    gc.collect()
    if dlpack._exported:
        sys.exit("DLPack: what nobody consumed is kept")


attend()
refuse()
hand_on()
print("python: ok,", library.load()._name)
