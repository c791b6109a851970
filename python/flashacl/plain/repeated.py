# SPDX-License-Identifier: Apache-2.0
"""Attention without dropout to arrays of which a call before had the like: it
is found by their shapes, strides and types, and run again at other addresses
before anything else is looked at."""

import math

from flashacl import calls
from flashacl.plain import operators

# The most rows of scores whose statistics a kept call may have: 64 bytes each.
_KEPT_ROWS = 512


def attend_again(on, q, k, v, layout, scale, left, right):
    """The result of a call of which attend() has had the like, without options,
    ends and statistics; else None. What is wrong with such a call, or would be
    with its arrays, was found then. scale: None is the usual one."""
    address, described = on.address, on.described
    kind_q, kind_v = described(q), described(v)
    shape, shape_v = kind_q[0], kind_v[0]
    if len(shape) != 4 or len(shape_v) != 4:
        return None
    channels = shape[3]
    told = (layout, float(channels ** -0.5 if scale is None else scale), left,
            right)
    if channels != shape_v[3]:
        shape = *shape[:-1], shape_v[3]
    result = on.new(q, shape)
    if calls.run_again((on.__name__, kind_q, described(k), kind_v, told, False),
                       (address(q), address(k), address(v), address(result))):
        return result
    return None


def attend(on, q, k, v, options, ends, told, lse):
    """(result, greatest score, sum of exponentials); without `lse` perhaps only
    the result: the statistics of a few rows then stay with the kept call. `on`
    is the module for such arrays; options: mask, bias, slopes and sink, each or
    None; ends: of sequences of rows and keys, two lists, or None; told: layout,
    scale, left, right."""
    kind_q, kind_v = on.described(q), on.described(v)
    rows = kind_q[0][:-1]
    lse = lse or math.prod(rows) > _KEPT_ROWS
    key = on.__name__, kind_q, on.described(k), kind_v, told, lse
    if ends is not None:
        key += tuple(map(tuple, ends))
    results = on.new(q, (*rows, kind_v[0][-1])),
    if lse:
        results += on.statistics(q, told[0])
    moving = q, k, v, *results
    mask, bias, slopes, sink = options
    if not (mask is bias is slopes is sink is None):
        key += tuple(x if x is None else on.described(x) for x in options)
        moving += tuple(x for x in options if x is not None)
    if not calls.run_again(key, tuple(map(on.address, moving))):
        _attend_first(on, key, (q, k, v), options, ends, told, results)
    return results


def _attend_first(on, key, qkv, options, ends, told, results):
    q, layout = qkv[0], told[0]
    statistics = results[1:] or on.statistics(q, layout)
    given = [on.memory(x, name) for x, name in zip(qkv, "qkv")]
    found = [x if x is None else on.memory(x, name) for x, name in
             zip(options, ("mask", "bias", "alibi_slopes", "sink"))]
    made = [on.memory(x, "out") for x in (results[0], *statistics)]
    moving = [*given, *made[:len(results)], *(m for m in found if m)]
    operators.forward(
        operators.Call(layout, q.shape[-3 if layout == "BNSD" else -2],
                       *told[1:], 0.0, 0, *(ends or (None, None))),
        *given, *found, *made,
        calls.KeptAs(key, moving, statistics))
