# SPDX-License-Identifier: Apache-2.0
"""The library's attention on memory: which operator, and its arguments in C's
order. Results are memory that the caller has made."""

import dataclasses
import functools
import typing

from flashacl import calls
from flashacl.plain import dlpack

_UNLIMITED = 2147483647
_COMPRESSED = 2048  # rows and columns of the mask of modes 2, 3 and 4


@dataclasses.dataclass(frozen=True)
class Call:
    """What both directions of attention are told beside arrays."""

    layout: str  # BSND, BNSD, or TND with ends
    heads: int
    scale: float
    left: int = -1  # how many keys a row sees before and after the diagonal
    right: int = -1  # that ends at the last row and key; -1: all
    dropout: float = 0.0
    seed: int = 0
    ends_q: typing.Optional[list] = None  # where sequences end
    ends_k: typing.Optional[list] = None


@functools.lru_cache(None)
def _compressed_mask():
    """What says "by the mode": the upper triangle. Only strict mode reads it."""
    rows = b"".join(bytes(i + 1) + b"\1" * (_COMPRESSED - i - 1)
                    for i in range(_COMPRESSED))
    block = dlpack.Block((_COMPRESSED, _COMPRESSED), "bool")
    block.fill(rows)
    return block


def compressed_mask():
    return _compressed_mask().memory()


def _reach(tokens):
    return _UNLIMITED if tokens < 0 else tokens


def _band(call, mask, rows, keys):
    """(mask, sparse mode, tokens before, tokens after) of a call."""
    if mask is not None:
        # Mode 0 counts from the diagonal that begins at the first row and key.
        shift = keys - rows
        return (mask, 0,
                call.left - shift if call.left >= 0 else _UNLIMITED,
                call.right + shift if call.right >= 0 else _UNLIMITED)
    if call.left < 0 and call.right < 0:
        return None, 0, _UNLIMITED, _UNLIMITED
    mode = 3 if call.left < 0 and call.right == 0 else 4
    return compressed_mask(), mode, _reach(call.left), _reach(call.right)


def lengths(ends):
    return [b - a for a, b in zip([0, *ends], ends)]


def _bias(call, bias, slopes):
    """(tensor, type, where rows start) of what is added to scores."""
    if slopes is None:
        return bias, 1 if bias is None else 0, None
    if call.layout != "TND":
        return slopes, 2, None
    shifts = {k - q for q, k in zip(lengths(call.ends_q), lengths(call.ends_k))
              if q > 0}
    if len(shifts) > 1:
        raise ValueError(
            "alibi_slopes: sequences have different numbers of keys before "
            f"their first row, {sorted(shifts)}, expected one number for all")
    return slopes, 2, list(shifts)


def _scores(call, q, k):
    """How many scores there are, and the longest rows and keys."""
    if call.layout == "TND":
        pairs = list(zip(lengths(call.ends_q), lengths(call.ends_k)))
        return call.heads * sum(a * b for a, b in pairs), 0, 0
    axis = call.layout.index("S")
    rows, keys = q.shape[axis], k.shape[axis]
    return q.shape[0] * call.heads * rows * keys, rows, keys


def _drop_mask(call, count):
    """Bits that keep scores; the same for the same seed."""
    if call.dropout == 0.0:
        return None, None
    block = dlpack.Block((-(-count // 128) * 16,), "uint8")
    # Of a seed that is, mostly, never seen again.
    calls.run_once("aclnnDropoutGenMask", [count], float(call.dropout),
                   call.seed, 0, block.memory())
    return block.memory(), block


def forward(call, q, k, v, mask, bias, slopes, sink, out, most, total,
            kept_as=None):
    """`most` and `total` are the greatest score and the sum of exponentials
    of each row, eight times: [B, N, S, 8], with TND [T, N, 8]. kept_as: as
    calls.run() takes it, of a call without dropout."""
    count, rows, keys = _scores(call, q, k)
    mask, mode, before, after = _band(call, mask, rows, keys)
    bias, kind, starts = _bias(call, bias, slopes)
    drop, _kept = _drop_mask(call, count)
    numbers = (call.scale, 1.0 - call.dropout, before, after, call.heads,
               call.layout.encode(), 0, mode, kind)
    results = (most, total, None, out)
    if call.layout == "TND":
        calls.run("aclnnFlashAttentionVarLenScoreV5", q, None, k, None, v,
                  bias, drop, None, mask, sink, None, call.ends_q, call.ends_k,
                  starts, None, *numbers, b"same_as_input", *results,
                  kept_as=kept_as)
    else:
        calls.run("aclnnFlashAttentionScoreV3", q, k, v, bias, drop, None,
                  mask, sink, None, starts, None, *numbers, *results,
                  kept_as=kept_as)


def backward(call, q, k, v, mask, bias, slopes, sink, out, most, total, dy,
             dq, dk, dv, dbias, dsink):
    """Gradients; dbias and dsink may be None."""
    count, rows, keys = _scores(call, q, k)
    mask, mode, before, after = _band(call, mask, rows, keys)
    bias, kind, starts = _bias(call, bias, slopes)
    drop, _kept = _drop_mask(call, count)
    numbers = (call.scale, 1.0 - call.dropout, before, after, call.heads,
               call.layout.encode(), 0, mode, kind)
    saved = (most, total, None, out, sink, None)
    if call.layout == "TND":
        calls.run("aclnnFlashAttentionUnpaddingScoreGradV5", q, None, k, None,
                  v, dy, bias, drop, None, mask, *saved, call.ends_q,
                  call.ends_k, starts, None, *numbers, b"same_as_input", dq,
                  None, dk, None, dv, dbias, dsink)
    else:
        calls.run("aclnnFlashAttentionScoreGradV3", q, k, v, dy, bias, drop,
                  None, mask, *saved, starts, None, *numbers, dq, dk, dv,
                  dbias, dsink)


def _heads_first(memory):
    """[B, S, N, D] as [B, N, S, D]."""
    def turned(axes):
        return (axes[0], axes[2], axes[1], axes[3])
    return memory._replace(shape=turned(memory.shape),
                           strides=turned(memory.strides))


def cached(q, keys, values, table, sink, keys_of, scale, left, right, heads,
           page, out, lse):
    """Attention of [B, S, N, D] to caches: one [B, S, N, D] each, a list of
    [1, S, N, D], or with a table pages of [pages, page, N * D]. `keys_of` is
    how many keys each sequence has."""
    rows, queries = q.shape[1], q.shape[2]
    layout, mask, mode = b"BSND", None, 0
    if left >= 0 or (right >= 0 and rows > 1):
        mask = compressed_mask()
        mode = 3 if left < 0 and right == 0 else 4
    if rows == 1 and mask is not None:
        layout = b"BNSD_BSND"  # single rows of BSND see every key
        q = _heads_first(q)
        if table is None:
            keys = [_heads_first(one) for one in keys]
            values = [_heads_first(one) for one in values]
    before, after = (_reach(left), _reach(right)) if mask is not None else \
        (_UNLIMITED, _UNLIMITED)
    calls.run(
        "aclnnFusedInferAttentionScoreV4", q, keys, values, None, mask, None,
        keys_of, *[None] * 7, table, *[None] * 13, sink, queries, scale, before,
        after, layout, heads, mode, 0, page, 0, lse is not None, 0, 0, 0, out,
        lse)


def topk(q, k, v, indices, q_rope, k_rope, sink, ends_q, ends_k, scale, block,
         causal, out, most, total):
    layout = b"BSND" if len(q.shape) == 4 else b"TND"
    calls.run(
        "aclnnSparseFlashAttentionV2", q, k, v, indices, None, ends_q, ends_k,
        q_rope, k_rope, sink, scale, block, layout, layout, 3 if causal else 0,
        _UNLIMITED, _UNLIMITED, 2, True, out, most, total)


def topk_backward(q, k, v, indices, q_rope, k_rope, ends_q, ends_k, scale,
                  block, causal, out, most, total, dy, dq, dk, dv, dq_rope,
                  dk_rope):
    layout = b"BSND" if len(q.shape) == 4 else b"TND"
    calls.run(
        "aclnnSparseFlashAttentionGrad", q, k, v, indices, dy, out, most, total,
        ends_q, ends_k, q_rope, k_rope, scale, block, layout,
        3 if causal else 0, _UNLIMITED, _UNLIMITED, True, dq, dk, dv, dq_rope,
        dk_rope)


def merge(lses, outs, out, lse):
    """Attention to parts of the keys as attention to all: [R] and [R, D]."""
    calls.run("aclnnAttentionUpdate", lses, outs, 1, out, lse)
