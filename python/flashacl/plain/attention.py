# SPDX-License-Identifier: Apache-2.0
"""Attention on ordinary arrays under the names that programs know from
flash-attn and FlashInfer, with the same arguments in the same order. Tensors of
PyTorch have gradients, other arrays have none."""

from flashacl.plain import arrays

# Imported where they are needed, one needs PyTorch and the other NumPy, and
# kept here: to ask for an imported module again takes half a microsecond.
_on_tensors = _on_arrays = None
# {type of q: who has computed for it}
_of_type = {}


def _implementation(q):
    """Who computes for such arrays."""
    global _on_tensors, _on_arrays
    if arrays.is_tensor(q):
        arrays.check_device(q, "q")
        if _on_tensors is None:
            from flashacl.plain import on_tensors
            _on_tensors = on_tensors
        return _on_tensors
    if _on_arrays is None:
        from flashacl.plain import on_arrays
        _on_arrays = on_arrays
    return _on_arrays


def _refuse(given, what):
    if given:
        raise NotImplementedError(f"{what}: not supported")


def _window(causal, window_size):
    """(left, right): how many keys a row sees beside the diagonal that ends at
    the last row and the last key; -1: all."""
    left, right = window_size
    return (-1 if left is None else left,
            0 if causal else (-1 if right is None else right))


def _scale(softmax_scale, q):
    return float(q.shape[-1] ** -0.5 if softmax_scale is None
                 else softmax_scale)


def _four_axes(array, shape, on):
    """A mask or a bias for all heads or rows of the scores' shape [B, N, S, T],
    where the operator has no shape for less."""
    array = on.as_array(array)
    while len(array.shape) < 4:
        array = array[None]
    batch, heads = array.shape[0], array.shape[1]
    return on.broadcast_to(array, (batch, heads, *shape[2:])), batch, heads


def _hidden(mask, shape, on):
    """What the operator hides, of what is seen."""
    mask, batch, heads = _four_axes(mask, shape, on)
    if heads > 1 or batch > 1:
        mask = on.broadcast_to(mask, (shape[0], heads, *shape[2:]))
    return on.logical_not(mask)


def _added(bias, shape, on):
    bias, batch, _ = _four_axes(bias, shape, on)
    return on.broadcast_to(bias, (batch, *shape[1:]))


def _scores_shape(q, k, layout):
    s = layout.index("S")
    return q.shape[0], q.shape[3 - s], q.shape[s], k.shape[s]


def attention(q, k, v, *, layout="BSND", causal=False, window_size=(-1, -1),
              softmax_scale=None, mask=None, bias=None, alibi_slopes=None,
              sink=None, dropout_p=0.0, seed=None, return_lse=False):
    """softmax(scale q k + bias) v over sequences of one length, of layout
    "BSND" (batch, sequence, heads, channels) or "BNSD"; heads of q may share
    those of k and v.

    mask: bool, true where a key is seen; bias: added to scaled scores, of q's
    type; both broadcast to (B, N, S, T). alibi_slopes: float32, (N) or (B, N).
    sink: float32, (N), the score of a key without a value. seed: of dropout; by
    default from PyTorch's, or NumPy's, generator. return_lse: also the
    logarithm of the sum of exponentials, float32 (B, N, S), +inf for rows that
    see no key, whose result is 0."""
    if layout not in ("BSND", "BNSD"):
        raise ValueError(f"layout: {layout}, expected BSND or BNSD")
    on = _of_type.get(type(q))
    if on is not None and mask is bias is alibi_slopes is sink is None and \
            not (dropout_p or return_lse):
        left, right = window_size
        out = on.attend_again(q, k, v, layout, softmax_scale,
                              -1 if left is None else left,
                              0 if causal else -1 if right is None else right)
        if out is not None:
            return out
    if len(q.shape) != 4 or len(k.shape) != 4:
        raise ValueError(f"q, k: have {len(q.shape)} and {len(k.shape)} axes, "
                         f"expected 4, {layout}")
    if bias is not None:
        _refuse(alibi_slopes is not None,
                "attention: bias beside alibi_slopes")
    on = _implementation(q)
    if type(q) in on.PLAIN_TYPES:
        _of_type[type(q)] = on
    if mask is not None:
        mask = _hidden(mask, _scores_shape(q, k, layout), on)
    if bias is not None:
        bias = _added(bias, _scores_shape(q, k, layout), on)
    out, *statistics = on.attend(
        q, k, v, mask, bias, alibi_slopes, sink,
        on.seed_of(seed) if dropout_p else None, None, None, layout,
        _scale(softmax_scale, q), *_window(causal, window_size),
        float(dropout_p), return_lse)
    return (out, on.log_sum(*statistics)) if return_lse else out


def _with_lse(out, lse, wanted):
    """What flash-attn returns: probabilities are never kept."""
    return (out, lse, None) if wanted else out


def flash_attn_func(q, k, v, dropout_p=0.0, softmax_scale=None, causal=False,
                    window_size=(-1, -1), softcap=0.0, alibi_slopes=None,
                    deterministic=False, return_attn_probs=False):
    """q (B, S, N, D), k and v (B, T, Nk, D). The causal diagonal ends at the
    last row and key. Results are the same for any number of threads, whatever
    `deterministic` says. With return_attn_probs: (result, logarithms of sums
    (B, N, S), None)."""
    _refuse(softcap, "flash_attn_func: softcap")
    if alibi_slopes is not None and q.shape[1] != k.shape[1]:
        return _by_packing(q, k, v, dropout_p, softmax_scale, causal,
                           window_size, alibi_slopes, return_attn_probs)
    out = attention(q, k, v, causal=causal, window_size=window_size,
                    softmax_scale=softmax_scale, alibi_slopes=alibi_slopes,
                    dropout_p=dropout_p, return_lse=return_attn_probs)
    return _with_lse(*out, True) if return_attn_probs else out


def _by_packing(q, k, v, dropout_p, softmax_scale, causal, window_size,
                alibi_slopes, return_attn_probs):
    """Slopes over rows that begin after the first key: only the packed
    operator has them."""
    batch, rows, keys = q.shape[0], q.shape[1], k.shape[1]
    result = flash_attn_varlen_func(
        *(x.reshape(-1, *x.shape[2:]) for x in (q, k, v)),
        list(range(0, (batch + 1) * rows, rows)),
        list(range(0, (batch + 1) * keys, keys)), rows, keys, dropout_p,
        softmax_scale, causal, window_size, alibi_slopes=alibi_slopes,
        return_attn_probs=return_attn_probs)
    if not return_attn_probs:
        return result.reshape(*q.shape[:3], -1)
    out, lse, _ = result
    lse = lse.reshape(-1, batch, rows).swapaxes(0, 1)
    return out.reshape(*q.shape[:3], -1), lse, None


def flash_attn_qkvpacked_func(qkv, dropout_p=0.0, softmax_scale=None,
                              causal=False, window_size=(-1, -1), softcap=0.0,
                              alibi_slopes=None, deterministic=False,
                              return_attn_probs=False):
    """flash_attn_func of (B, S, 3, N, D), which is not copied."""
    return flash_attn_func(qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2], dropout_p,
                           softmax_scale, causal, window_size, softcap,
                           alibi_slopes, deterministic, return_attn_probs)


def flash_attn_kvpacked_func(q, kv, dropout_p=0.0, softmax_scale=None,
                             causal=False, window_size=(-1, -1), softcap=0.0,
                             alibi_slopes=None, deterministic=False,
                             return_attn_probs=False):
    """flash_attn_func of q and (B, T, 2, Nk, D), which is not copied."""
    return flash_attn_func(q, kv[:, :, 0], kv[:, :, 1], dropout_p,
                           softmax_scale, causal, window_size, softcap,
                           alibi_slopes, deterministic, return_attn_probs)


def _ends(cumulative, q, name):
    """Where sequences end, of flash-attn's list, which begins with 0."""
    on_tensor = arrays.is_tensor(cumulative)
    if not on_tensor and arrays.is_tensor(q):
        import torch
        cumulative, on_tensor = torch.tensor(cumulative), True
    if on_tensor:
        return cumulative[1:]
    return arrays.integers(cumulative, name)[1:]


def flash_attn_varlen_func(q, k, v, cu_seqlens_q, cu_seqlens_k,
                           max_seqlen_q=None, max_seqlen_k=None, dropout_p=0.0,
                           softmax_scale=None, causal=False,
                           window_size=(-1, -1), softcap=0.0, alibi_slopes=None,
                           deterministic=False, return_attn_probs=False,
                           block_table=None, *, sink=None, seed=None):
    """Sequences of different length, one after the other: q (Tq, N, D), k and
    v (Tk, Nk, D). Where they begin and the last ends: cu_seqlens, any integers.
    The longest lengths are not looked at. Logarithms of sums are (N, Tq)."""
    _refuse(softcap, "flash_attn_varlen_func: softcap")
    _refuse(block_table is not None, "flash_attn_varlen_func: block_table; "
            "flash_attn_with_kvcache takes pages")
    on = _implementation(q)
    out, *statistics = on.attend(
        q, k, v, None, None, alibi_slopes, sink,
        on.seed_of(seed) if dropout_p else None,
        _ends(cu_seqlens_q, q, "cu_seqlens_q"),
        _ends(cu_seqlens_k, q, "cu_seqlens_k"), "TND",
        _scale(softmax_scale, q), *_window(causal, window_size),
        float(dropout_p), return_attn_probs)
    if not return_attn_probs:
        return out
    return _with_lse(out, on.log_sum(*statistics).swapaxes(0, 1), True)


def merge_states(outs, lses):
    """Attention to parts of the keys, and the logarithms of their sums, as
    attention to all keys: outs of (.., D), lses of (..), natural logarithms.
    Returns (result, logarithm). Parts that saw no key, +inf or -inf, weigh
    nothing."""
    outs, lses = list(outs), list(lses)
    if not outs or len(outs) != len(lses):
        raise ValueError(f"outs, lses: {len(outs)} and {len(lses)} parts, "
                         "expected as many of both, and at least one")
    return _implementation(outs[0]).merge(outs, lses)


def topk_attention(q, k, v, indices, *, q_rope=None, k_rope=None, sink=None,
                   cu_seqlens_q=None, cu_seqlens_k=None, softmax_scale=None,
                   block_size=1, causal=False, return_lse=False):
    """Every row sees the keys that it lists, and no others: q (B, S, N, D), k
    and v (B, T, 1, D), indices int32 or int64 (B, S, 1, K), numbers of blocks
    of block_size keys, of which the first negative one ends the list. With
    cu_seqlens, int32, sequences one after the other: (Tq, N, D), (Tk, 1, D),
    (Tq, 1, K). q_rope and k_rope are further channels of scores. Types are
    float16 and bfloat16. Logarithms of sums are (B, S, N), or (Tq, N)."""
    on = _implementation(q)
    out, most, total = on.topk(
        q, k, v, indices, q_rope, k_rope, sink,
        None if cu_seqlens_q is None else cu_seqlens_q[1:],
        None if cu_seqlens_k is None else cu_seqlens_k[1:],
        _scale(softmax_scale, q), block_size, causal)
    if not return_lse:
        return out
    axis = 1 if len(q.shape) == 4 else 0
    lse = on.log_sum(most[..., None], total[..., None])
    return out, lse.squeeze(axis)
