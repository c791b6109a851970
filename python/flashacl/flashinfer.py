# SPDX-License-Identifier: Apache-2.0
"""FlashInfer's functions for one request, for merging and for decoding from
pages, on ordinary arrays: its shapes, the order of its arguments, and its
logarithms, which are to base 2. `import flashacl.flashinfer as flashinfer`."""

import math

from flashacl.plain import arrays
from flashacl.plain.attention import _implementation, attention
from flashacl.plain.attention import merge_states as _merge
from flashacl.plain.kvcache import flash_attn_with_kvcache

_LN2 = math.log(2.0)


def _check(name, kv_layout, pos_encoding_mode, logits_soft_cap, *absent):
    if kv_layout not in ("NHD", "HND"):
        raise ValueError(f"{name}: kv_layout {kv_layout}, expected NHD or HND")
    if pos_encoding_mode != "NONE":
        raise NotImplementedError(f"{name}: pos_encoding_mode "
                                  f"{pos_encoding_mode}: not supported")
    if logits_soft_cap:
        raise NotImplementedError(f"{name}: logits_soft_cap: not supported")
    if any(one is not None for one in absent):
        raise NotImplementedError(f"{name}: scales of tensors and of rope: not "
                                  "supported")


def _heads_last(array, kv_layout):
    """(keys, heads, channels)."""
    return array if kv_layout == "NHD" else array.swapaxes(0, 1)


def single_prefill_with_kv_cache(
        q, k, v, scale_q=None, scale_k=None, scale_v=None, o_dtype=None,
        custom_mask=None, packed_custom_mask=None, causal=False,
        kv_layout="NHD", pos_encoding_mode="NONE", use_fp16_qk_reduction=False,
        sm_scale=None, window_left=-1, logits_soft_cap=None, rope_scale=None,
        rope_theta=None, backend="auto", return_lse=False):
    """q (rows, N, D), k and v (keys, Nk, D), with "HND" (Nk, keys, D).
    custom_mask: bool (rows, keys) or all in one row, true where a key is seen;
    causal is not looked at beside it. Logarithms of sums are (rows, N)."""
    name = "single_prefill_with_kv_cache"
    _check(name, kv_layout, pos_encoding_mode, logits_soft_cap, scale_q,
           scale_k, scale_v, o_dtype, packed_custom_mask, rope_scale,
           rope_theta)
    k, v = (_heads_last(x, kv_layout) for x in (k, v))
    if custom_mask is not None:
        custom_mask = custom_mask.reshape(q.shape[0], k.shape[0])
    found = attention(
        q[None], k[None], v[None], causal=causal and custom_mask is None,
        mask=custom_mask, softmax_scale=sm_scale, window_size=(window_left, -1),
        return_lse=return_lse)
    return (found[0][0], found[1][0].T / _LN2) if return_lse else found[0]


def single_decode_with_kv_cache(
        q, k, v, kv_layout="NHD", pos_encoding_mode="NONE",
        use_tensor_cores=False, q_scale=None, k_scale=None, v_scale=None,
        window_left=-1, logits_soft_cap=None, sm_scale=None, rope_scale=None,
        rope_theta=None, return_lse=False):
    """q (N, D), k and v as above; logarithms of sums are (N)."""
    _check("single_decode_with_kv_cache", kv_layout, pos_encoding_mode,
           logits_soft_cap, q_scale, k_scale, v_scale, rope_scale, rope_theta)
    out = single_prefill_with_kv_cache(
        q[None], k, v, kv_layout=kv_layout, sm_scale=sm_scale,
        window_left=window_left, return_lse=return_lse)
    return (out[0][0], out[1][0]) if return_lse else out[0]


def merge_state(v_a, s_a, v_b, s_b):
    """Attention to two parts of the keys as attention to both: v (rows, N, D),
    s (rows, N). Returns (result, logarithms)."""
    out, lse = _merge([v_a, v_b], [s_a * _LN2, s_b * _LN2])
    return out, lse / _LN2


def merge_states(v, s):
    """The same of v (rows, parts, N, D) and s (rows, parts, N)."""
    parts = range(v.shape[1])
    on = _implementation(v)
    out, lse = _merge([on.contiguous(v[:, i]) for i in parts],
                      [on.contiguous(s[:, i]) * _LN2 for i in parts])
    return out, lse / _LN2


class BatchDecodeWithPagedKVCacheWrapper:
    """One row of each sequence against pages: plan() is told which, run()
    attends. The buffer of the constructor is not used."""

    def __init__(self, float_workspace_buffer=None, kv_layout="NHD",
                 use_cuda_graph=False, use_tensor_cores=False, **_):
        if kv_layout != "NHD":
            raise NotImplementedError("BatchDecodeWithPagedKVCacheWrapper: "
                                      f"kv_layout {kv_layout}: only NHD")

    def plan(self, indptr, indices, last_page_len, num_qo_heads, num_kv_heads,
             head_dim, page_size, pos_encoding_mode="NONE", window_left=-1,
             logits_soft_cap=None, q_data_type=None, kv_data_type=None,
             data_type=None, sm_scale=None, rope_scale=None, rope_theta=None,
             **_):
        """Sequence b has the pages indices[indptr[b]:indptr[b + 1]], of which
        the last holds last_page_len[b] keys."""
        _check("plan", "NHD", pos_encoding_mode, logits_soft_cap, rope_scale,
               rope_theta)
        starts = arrays.integers(indptr, "indptr")
        pages = arrays.integers(indices, "indices")
        last = arrays.integers(last_page_len, "last_page_len")
        self._tables = [pages[a:b] for a, b in zip(starts, starts[1:])]
        self._lengths = [max(len(t) - 1, 0) * page_size + n
                         for t, n in zip(self._tables, last)]
        self._window, self._scale = window_left, sm_scale

    def run(self, q, paged_kv_cache, *, return_lse=False):
        """q (B, N, D), pages (keys, values) of (pages, page, Nk, D) each, or
        both in one (pages, 2, page, Nk, D) whose halves lie apart."""
        if isinstance(paged_kv_cache, tuple):
            keys, values = paged_kv_cache
        else:
            keys, values = paged_kv_cache[:, 0], paged_kv_cache[:, 1]
        on = _implementation(q)
        width = max((len(t) for t in self._tables), default=0)
        table = on.table([t + [0] * (width - len(t)) for t in self._tables])
        out, lse = flash_attn_with_kvcache(
            q[:, None], keys, values, cache_seqlens=self._lengths,
            block_table=table, softmax_scale=self._scale,
            window_size=(self._window, -1), return_softmax_lse=True)
        return (out[:, 0], lse[..., 0] / _LN2) if return_lse else out[:, 0]

    begin_forward, forward = plan, run
