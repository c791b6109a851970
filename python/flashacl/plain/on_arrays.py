# SPDX-License-Identifier: Apache-2.0
"""Attention on NumPy's arrays and on what speaks DLPack: results, without
gradients. The same names as in on_tensors.py."""

import sys

import numpy

from flashacl.plain import arrays, operators, repeated


def as_array(array):
    """Something to index and to compute with; a view."""
    if array is None or isinstance(array, numpy.ndarray):
        return array
    if hasattr(array, "__dlpack__") and not hasattr(array,
                                                    "__array_interface__"):
        return numpy.from_dlpack(array)
    return numpy.asarray(array)


broadcast_to, logical_not = numpy.broadcast_to, numpy.logical_not
contiguous = numpy.ascontiguousarray


def table(rows):
    """Numbers of pages as the operator takes them."""
    return numpy.array(rows, numpy.int32)


def seed_of(seed):
    """What dropout draws from: `seed`, or NumPy's global generator."""
    return int(numpy.random.randint(1 << 62)) if seed is None else int(seed)


def log_sum(most, total):
    """The logarithm of sums of exponentials; infinite where no key is seen."""
    top, total = most[..., 0], total[..., 0]
    none = total > 1e38
    return numpy.where(none, numpy.inf,
                       top + numpy.log(numpy.where(none, 1, total)))


class _Reader:
    """Memory of arguments, and what keeps it."""

    def __init__(self):
        self.kept = []

    def __call__(self, array, name):
        if array is None:
            return None
        memory, keep = arrays.memory_of(array, name)
        self.kept.append(keep)
        return memory


def statistics_shape(layout, shape):
    """Of the greatest scores and the sums that go with a query's shape."""
    if layout == "BSND":
        shape = (shape[0], shape[2], shape[1], shape[3])
    return (*shape[:-1], 8)


def _new(shape, dtype):
    result = arrays.new(shape, dtype)
    return result, arrays.memory_of(result, "out")[0]


def described(array):
    return array.shape, array.strides, array.dtype


def address(array):
    return array.__array_interface__["data"][0]


def memory(array, name):
    return arrays.memory_of(array, name)[0]


def new(like, shape, dtype=None):
    return numpy.empty(shape, dtype or like.dtype)


def statistics(q, layout):
    """(greatest score, sum of exponentials) of each row."""
    shape = statistics_shape(layout, q.shape)
    return new(q, shape, numpy.float32), new(q, shape, numpy.float32)


_KINDS = (numpy.ndarray, type(None))
_this = sys.modules[__name__]


PLAIN_TYPES = numpy.ndarray,  # of arrays that attend_again() may know


def attend_again(q, k, v, layout, scale, left, right):
    """What attend() would return of a call without options, or None."""
    if type(k) is type(v) is numpy.ndarray:
        return repeated.attend_again(_this, q, k, v, layout, scale, left, right)
    return None


def attend(q, k, v, mask, bias, slopes, sink, seed, ends_q, ends_k, layout,
           scale, left, right, dropout, lse):
    """(result, greatest scores, sums), or only the first without `lse`."""
    if dropout == 0.0 and all(
            type(x) in _KINDS for x in (q, k, v, mask, bias, slopes, sink)):
        return repeated.attend(_this, q, k, v, (mask, bias, slopes, sink),
                               arrays.ends(ends_q, ends_k),
                               (layout, scale, left, right), lse)
    read = _Reader()
    mq, mk, mv = read(q, "q"), read(k, "k"), read(v, "v")
    out, mout = _new((*mq.shape[:-1], mv.shape[-1]), mq.dtype)
    shape = statistics_shape(layout, mq.shape)
    (most, mmost), (total, mtotal) = (_new(shape, "float32") for _ in range(2))
    call = operators.Call(layout, mq.shape[-3 if layout == "BNSD" else -2],
                          scale, left, right, dropout, seed or 0,
                          arrays.integers(ends_q, "cu_seqlens_q"),
                          arrays.integers(ends_k, "cu_seqlens_k"))
    operators.forward(call, mq, mk, mv, read(mask, "mask"), read(bias, "bias"),
                      read(slopes, "alibi_slopes"), read(sink, "sink"), mout,
                      mmost, mtotal)
    return arrays.like(out, q), most, total


def cached(q, k_cache, v_cache, lengths, table, rows, sink, scale, left, right):
    """(result, logarithms of sums)."""
    read = _Reader()
    mq = read(q, "q")
    keys, values, heads, page = caches(
        read(k_cache, "k_cache"), read(v_cache, "v_cache"), table,
        arrays.integers(rows, "cache_batch_idx"))
    dv = v_cache.shape[-1]
    out, mout = _new((*mq.shape[:-1], dv), mq.dtype)
    lse, mlse = _new((mq.shape[0], mq.shape[2], mq.shape[1], 1), "float32")
    operators.cached(mq, keys, values, read(table, "block_table"),
                     read(sink, "sink"), arrays.integers(lengths,
                                                         "cache_seqlens"),
                     scale, left, right, heads, page, mout, mlse)
    return arrays.like(out, q), lse[..., 0]


def caches(keys, values, table, rows):
    """(keys, values, heads, rows of a page) as the operator takes them."""
    heads, page = keys.shape[2], keys.shape[1] if table is not None else 0
    if table is not None:
        return ([arrays.flattened(keys, "k_cache", 2)],
                [arrays.flattened(values, "v_cache", 2)], heads, page)
    if rows is None:
        return [keys], [values], heads, page
    return [one_row(keys, r) for r in rows], [one_row(values, r)
                                              for r in rows], heads, page


def one_row(memory, row):
    """Row `row` of a cache, as a batch of one."""
    from flashacl.library import BYTES
    if not 0 <= row < memory.shape[0]:
        raise ValueError(f"cache_batch_idx: {row}, expected 0 to "
                         f"{memory.shape[0] - 1}")
    return memory._replace(
        address=memory.address + row * memory.strides[0] * BYTES[memory.dtype],
        shape=(1, *memory.shape[1:]))


def topk(q, k, v, indices, q_rope, k_rope, sink, ends_q, ends_k, scale, block,
         causal):
    read = _Reader()
    mq, mv = read(q, "q"), read(v, "v")
    out, mout = _new((*mq.shape[:-1], mv.shape[-1]), mq.dtype)
    shape = topk_statistics_shape(mq.shape)
    (most, mmost), (total, mtotal) = (_new(shape, "float32") for _ in range(2))
    operators.topk(mq, read(k, "k"), mv, read(indices, "indices"),
                   read(q_rope, "q_rope"), read(k_rope, "k_rope"),
                   read(sink, "sink"), read(ends_q, "cu_seqlens_q"),
                   read(ends_k, "cu_seqlens_k"), scale, block, causal, mout,
                   mmost, mtotal)
    return arrays.like(out, q), most, total


def topk_statistics_shape(shape):
    if len(shape) == 4:
        return (shape[0], 1, shape[1], shape[2])
    return (1, *shape[:2])


def merge(outs, lses):
    read = _Reader()
    mouts = [read(out, "outs") for out in outs]
    rows = [arrays.flattened(m, "outs", 0) for m in mouts]
    width = mouts[0].shape[-1]
    shape = mouts[0].shape
    flat = [m._replace(shape=(m.shape[0] // max(width, 1), width),
                       strides=(width, 1)) for m in rows]
    mlses = [arrays.flattened(read(lse, "lses"), "lses", 0) for lse in lses]
    out, mout = _new(shape, mouts[0].dtype)
    lse, mlse = _new(shape[:-1], "float32")
    operators.merge(mlses, flat, mout._replace(shape=flat[0].shape,
                                               strides=flat[0].strides),
                    arrays.flattened(mlse, "lses", 0))
    return arrays.like(out, outs[0]), arrays.like(lse, lses[0])
