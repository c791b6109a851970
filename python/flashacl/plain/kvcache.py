# SPDX-License-Identifier: Apache-2.0
"""Attention to a cache of keys and values, whole or in pages, under
flash-attn's name."""

from flashacl.plain import arrays
from flashacl.plain.attention import (_implementation, _refuse, _scale,
                                      _window)


def _lengths(cache_seqlens, batch, k_cache, paged):
    """Keys of each sequence that are there, as a list."""
    if cache_seqlens is None:
        if paged:
            raise ValueError("cache_seqlens: None, expected the keys of each "
                             "sequence, beside block_table")
        return [k_cache.shape[1]] * batch
    if isinstance(cache_seqlens, int):
        return [cache_seqlens] * batch
    lengths = arrays.integers(cache_seqlens, "cache_seqlens")
    if len(lengths) != batch:
        raise ValueError(f"cache_seqlens: {len(lengths)} numbers, expected one "
                         f"for each of {batch} sequences")
    return lengths


def _places(lengths, count, table, rows, page):
    """Where new keys go: (rows of the cache, places in them), lists of a list
    for each sequence."""
    first, second = [], []
    for b, length in enumerate(lengths):
        places = range(length, length + count)
        if table is None:
            first.append([rows[b]] * count)
            second.append(list(places))
        else:
            first.append([table[b][p // page] for p in places])
            second.append([p % page for p in places])
    return first, second


def _append(cache, new, places):
    """Writes into the cache that the caller has."""
    if arrays.is_tensor(cache):
        import torch
        cache[tuple(torch.tensor(p) for p in places)] = new
        return
    from flashacl.plain import on_arrays
    import numpy
    on_arrays.as_array(cache)[tuple(numpy.array(p) for p in places)] = \
        on_arrays.as_array(new)


def _check_room(lengths, count, k_cache, table):
    page = k_cache.shape[1]
    room = page if table is None else page * table.shape[1]
    for b, length in enumerate(lengths):
        if not 0 <= length <= room - count:
            raise ValueError(f"cache_seqlens: sequence {b} has {length} keys "
                             f"and {count} new ones, and its cache room for "
                             f"{room}")


def flash_attn_with_kvcache(q, k_cache, v_cache, k=None, v=None,
                            rotary_cos=None, rotary_sin=None,
                            cache_seqlens=None, cache_batch_idx=None,
                            cache_leftpad=None, block_table=None,
                            softmax_scale=None, causal=False,
                            window_size=(-1, -1), softcap=0.0,
                            rotary_interleaved=True, alibi_slopes=None,
                            num_splits=0, return_softmax_lse=False, *,
                            sink=None):
    """q (B, S, N, D) attends to the first cache_seqlens keys of each row of
    k_cache and v_cache (rows, T, Nk, D); with block_table, int32 (B, pages),
    of pages (pages, page, Nk, D). k and v, new keys (B, S', Nk, D), are first
    written into the cache after those. The causal diagonal ends at the last row
    and key. Types are float16 and bfloat16. There are no gradients. With
    return_softmax_lse: also logarithms of sums, (B, N, S)."""
    for given, name in ((rotary_cos is not None, "rotary_cos"),
                        (rotary_sin is not None, "rotary_sin"),
                        (cache_leftpad is not None, "cache_leftpad"),
                        (softcap, "softcap"),
                        (alibi_slopes is not None, "alibi_slopes")):
        _refuse(given, f"flash_attn_with_kvcache: {name}")
    if len(q.shape) != 4 or len(k_cache.shape) != 4:
        raise ValueError(f"q, k_cache: have {len(q.shape)} and "
                         f"{len(k_cache.shape)} axes, expected 4")
    batch = q.shape[0]
    lengths = _lengths(cache_seqlens, batch, k_cache, block_table is not None)
    rows = arrays.integers(cache_batch_idx, "cache_batch_idx")
    _check_room(lengths, 0 if k is None else k.shape[1], k_cache, block_table)
    if k is not None:
        table = None if block_table is None else block_table.tolist()
        places = _places(lengths, k.shape[1], table, rows or range(batch),
                         k_cache.shape[1])
        _append(k_cache, k, places)
        _append(v_cache, v, places)
        lengths = [length + k.shape[1] for length in lengths]
    on = _implementation(q)
    out, lse = on.cached(q, k_cache, v_cache, lengths, block_table, rows, sink,
                         _scale(softmax_scale, q),
                         *_window(causal, window_size))
    return (out, lse) if return_softmax_lse else out
