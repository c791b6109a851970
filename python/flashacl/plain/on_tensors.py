# SPDX-License-Identifier: Apache-2.0
"""Attention on PyTorch's CPU tensors: custom operators with derivatives and
with fake kernels, so that autograd, torch.compile and torch.export know them;
without these the implementation is called directly. The same names as in
on_arrays.py."""

import sys
from typing import List, Optional, Tuple

import torch

from flashacl import calls, threads
from flashacl.plain import arrays, dispatch, on_arrays, operators, repeated

threads.follow()
_this = sys.modules[__name__]
Tensor = torch.Tensor
address = Tensor.data_ptr
broadcast_to, logical_not = torch.broadcast_to, torch.logical_not
contiguous = Tensor.contiguous


def table(rows):
    """Numbers of pages as the operator takes them."""
    return torch.tensor(rows, dtype=torch.int32)


def as_array(tensor):
    return tensor


def seed_of(seed):
    """A tensor of one number: `seed`, or PyTorch's CPU generator's next."""
    if isinstance(seed, Tensor):
        return seed
    if seed is None:
        return torch.randint(1 << 62, (1,))
    return torch.tensor([int(seed)])


def log_sum(most, total):
    top, total = most.select(-1, 0), total.select(-1, 0)
    return total.log().add_(top).masked_fill_(total > 1e38, torch.inf)


def memory(tensor, name="tensor"):
    return None if tensor is None else arrays.memory_of(tensor, name)[0]


def _call(q, layout, scale, left, right, dropout, seed, ends_q, ends_k):
    return operators.Call(
        layout, q.shape[-3 if layout == "BNSD" else -2], scale, left, right,
        dropout, 0 if seed is None else int(seed),
        arrays.integers(ends_q, "cu_seqlens_q"),
        arrays.integers(ends_k, "cu_seqlens_k"))


# Schemas are read from annotations.
_Options = Optional[Tensor]


def new(q, shape, dtype=None):
    return q.new_empty(shape) if dtype is None else \
        q.new_empty(shape, dtype=dtype)


def statistics(q, layout):
    """(greatest score, sum of exponentials) of each row."""
    shape = on_arrays.statistics_shape(layout, q.shape)
    return new(q, shape, torch.float32), new(q, shape, torch.float32)


def _results(q, v, layout):
    return (new(q, (*q.shape[:-1], v.shape[-1])), *statistics(q, layout))


def _attention(q: Tensor, k: Tensor, v: Tensor, mask: _Options, bias: _Options,
               slopes: _Options, sink: _Options, seed: _Options,
               ends_q: _Options, ends_k: _Options, layout: str, scale: float,
               left: int, right: int,
               dropout: float) -> Tuple[Tensor, Tensor, Tensor]:
    """(result, greatest score, sum of exponentials)."""
    results = _results(q, v, layout)
    operators.forward(
        _call(q, layout, scale, left, right, dropout, seed, ends_q, ends_k),
        memory(q, "q"), memory(k, "k"), memory(v, "v"), memory(mask, "mask"),
        memory(bias, "bias"), memory(slopes, "alibi_slopes"),
        memory(sink, "sink"), *map(memory, results))
    return results


attention = torch.library.custom_op("flashacl::attention", _attention,
                                    mutates_args=(), device_types="cpu")


@attention.register_fake
def _(q, k, v, mask, bias, slopes, sink, seed, ends_q, ends_k, layout, scale,
      left, right, dropout):
    return _results(q, v, layout)


def _gradients(q, k, v, bias, sink):
    """Memory for gradients; an empty tensor where there is none."""
    def like(x):
        return new(q, (0,)) if x is None else new(x, x.shape)
    return like(q), like(k), like(v), like(bias), like(sink)


@torch.library.custom_op("flashacl::attention_backward", mutates_args=(),
                         device_types="cpu")
def attention_backward(
        q: Tensor, k: Tensor, v: Tensor, mask: _Options, bias: _Options,
        slopes: _Options, sink: _Options, seed: _Options, ends_q: _Options,
        ends_k: _Options, out: Tensor, most: Tensor, total: Tensor, dy: Tensor,
        layout: str, scale: float, left: int, right: int, dropout: float
) -> Tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of q, k, v, bias and sink."""
    results = _gradients(q, k, v, bias, sink)
    dq, dk, dv, dbias, dsink = map(memory, results)
    operators.backward(
        _call(q, layout, scale, left, right, dropout, seed, ends_q, ends_k),
        *map(memory, (q, k, v, mask, bias, slopes, sink, out, most, total, dy)),
        dq, dk, dv, dbias if bias is not None else None,
        dsink if sink is not None else None)
    return results


@attention_backward.register_fake
def _(q, k, v, mask, bias, slopes, sink, seed, ends_q, ends_k, out, most, total,
      dy, layout, scale, left, right, dropout):
    return _gradients(q, k, v, bias, sink)


def _save(ctx, inputs, output):
    ctx.save_for_backward(*inputs[:10], *output)
    ctx.told = inputs[10:]
    ctx.mark_non_differentiable(*output[1:])


def _differentiate(ctx, dy, _most, _total):
    saved = ctx.saved_tensors
    dq, dk, dv, dbias, dsink = attention_backward(*saved, dy, *ctx.told)
    bias, sink = saved[4], saved[6]
    return (dq, dk, dv, None, None if bias is None else dbias, None,
            None if sink is None else dsink, *[None] * 8)


attention.register_autograd(_differentiate, setup_context=_save)


class _Differentiable(torch.autograd.Function):
    """The operator and its gradient without the dispatcher, which takes longer
    than both for short sequences."""

    @staticmethod
    def forward(ctx, *inputs):
        output = _attention(*inputs)
        _save(ctx, inputs, output)
        return output

    backward = staticmethod(_differentiate)


def described(tensor):
    return tensor.shape, tensor.stride(), tensor.dtype


PLAIN_TYPES = dispatch.PLAIN_TYPES  # of arrays that attend_again() may know


def attend_again(q, k, v, layout, scale, left, right):
    """What attend() would return of a call without options, or None."""
    # That a gradient may come is said at once, as attend() asks again.
    if q.requires_grad or dispatch.asked(q, k, v) != dispatch.NOTHING:
        return None
    return repeated.attend_again(_this, q, k, v, layout, scale, left, right)


def attend(q, k, v, mask, bias, slopes, sink, seed, ends_q, ends_k, layout,
           scale, left, right, dropout, lse):
    """(result, greatest score, sum of exponentials), or only the first without
    `lse`."""
    others = mask, bias, slopes, sink, seed, ends_q, ends_k
    asked = dispatch.asked(q, k, v, *others)
    if asked != dispatch.NOTHING:
        call = attention if asked == dispatch.ALL else _Differentiable.apply
        return call(q, k, v, *others, layout, scale, left, right, dropout)
    if dropout != 0.0:
        return _attention(q, k, v, *others, layout, scale, left, right, dropout)
    return repeated.attend(_this, q, k, v, others[:4],
                           arrays.ends(ends_q, ends_k),
                           (layout, scale, left, right), lse)


# Caches.

def _cached_attention(q: Tensor, k_cache: Tensor, v_cache: Tensor,
                      lengths: Tensor, table: _Options, rows: _Options,
                      sink: _Options, scale: float, left: int,
                      right: int) -> Tuple[Tensor, Tensor]:
    """(result, logarithms of sums of exponentials)."""
    out, lse = _cached_results(q, v_cache)
    keys, values, heads, page = on_arrays.caches(
        memory(k_cache, "k_cache"), memory(v_cache, "v_cache"), table,
        arrays.integers(rows, "cache_batch_idx"))
    operators.cached(
        memory(q, "q"), keys, values, memory(table, "block_table"),
        memory(sink, "sink"), arrays.integers(lengths, "cache_seqlens"), scale,
        left, right, heads, page, memory(out), memory(lse))
    return out, lse


cached_attention = torch.library.custom_op(
    "flashacl::cached_attention", _cached_attention, mutates_args=(),
    device_types="cpu")


def _cached_results(q, v_cache):
    return (new(q, (*q.shape[:-1], v_cache.shape[-1])),
            new(q, (q.shape[0], q.shape[2], q.shape[1], 1), torch.float32))


@cached_attention.register_fake
def _(q, k_cache, v_cache, lengths, table, rows, sink, scale, left, right):
    return _cached_results(q, v_cache)


def cached(q, k_cache, v_cache, lengths, table, rows, sink, scale, left, right):
    """(result, logarithms of sums)."""
    def tensor(x):
        return x if x is None or isinstance(x, Tensor) else torch.tensor(x)
    if dispatch.is_needed(q, k_cache, v_cache, table, sink):
        out, lse = cached_attention(q, k_cache, v_cache, tensor(lengths), table,
                                    tensor(rows), sink, scale, left, right)
    else:  # with lists for what are tensors above
        out, lse = _cached_attention(q, k_cache, v_cache, lengths, table, rows,
                                     sink, scale, left, right)
    return out, lse[..., 0]


# Listed keys.

def _topk_results(q, v):
    shape = on_arrays.topk_statistics_shape(q.shape)
    return (new(q, (*q.shape[:-1], v.shape[-1])),
            new(q, shape, torch.float32), new(q, shape, torch.float32))


def _topk_attention(q: Tensor, k: Tensor, v: Tensor, indices: Tensor,
                    q_rope: _Options, k_rope: _Options, sink: _Options,
                    ends_q: _Options, ends_k: _Options, scale: float,
                    block: int, causal: bool) -> Tuple[Tensor, Tensor, Tensor]:
    """(result, greatest score, sum of exponentials)."""
    results = _topk_results(q, v)
    operators.topk(
        *map(memory, (q, k, v, indices, q_rope, k_rope, sink, ends_q, ends_k)),
        scale, block, causal, *map(memory, results))
    return results


topk_attention = torch.library.custom_op(
    "flashacl::topk_attention", _topk_attention, mutates_args=(),
    device_types="cpu")


@topk_attention.register_fake
def _(q, k, v, indices, q_rope, k_rope, sink, ends_q, ends_k, scale, block,
      causal):
    return _topk_results(q, v)


@torch.library.custom_op("flashacl::topk_attention_backward", mutates_args=(),
                         device_types="cpu")
def topk_attention_backward(
        q: Tensor, k: Tensor, v: Tensor, indices: Tensor, q_rope: _Options,
        k_rope: _Options, ends_q: _Options, ends_k: _Options, out: Tensor,
        most: Tensor, total: Tensor, dy: Tensor, scale: float, block: int,
        causal: bool) -> List[Tensor]:
    """Gradients of q, k, v and, where they are, of both ropes."""
    results = _topk_gradients(q, k, v, q_rope, k_rope)
    ropes = [None, None] if q_rope is None else map(memory, results[3:])
    operators.topk_backward(
        *map(memory, (q, k, v, indices, q_rope, k_rope, ends_q, ends_k)),
        scale, block, causal, *map(memory, (out, most, total, dy)),
        *map(memory, results[:3]), *ropes)
    return results


def _topk_gradients(*inputs):
    return [new(x, x.shape) for x in inputs if x is not None]


@topk_attention_backward.register_fake
def _(q, k, v, indices, q_rope, k_rope, ends_q, ends_k, out, most, total, dy,
      scale, block, causal):
    return _topk_gradients(q, k, v, q_rope, k_rope)


def _save_topk(ctx, inputs, output):
    if inputs[6] is not None:
        raise NotImplementedError(
            "topk_attention: with a sink there are no gradients")
    ctx.save_for_backward(*inputs[:6], *inputs[7:9], *output)
    ctx.told = inputs[9:]
    ctx.mark_non_differentiable(*output[1:])


def _differentiate_topk(ctx, dy, _most, _total):
    grads = topk_attention_backward(*ctx.saved_tensors, dy, *ctx.told)
    ropes = grads[3:] or [None, None]
    return (*grads[:3], None, *ropes, *[None] * 6)


topk_attention.register_autograd(_differentiate_topk,
                                 setup_context=_save_topk)


def topk(*arguments):
    if dispatch.is_needed(*arguments[:9]):
        return topk_attention(*arguments)
    return _topk_attention(*arguments)


# Parts.

def _merge_states(outs: List[Tensor],
                  lses: List[Tensor]) -> Tuple[Tensor, Tensor]:
    """Attention to parts of the keys as attention to all of them."""
    out, lse = (torch.empty(x[0].shape, dtype=x[0].dtype) for x in (outs, lses))
    width = out.shape[-1]
    flat_lses = [x.reshape(-1) for x in lses]
    flat_outs = [x.reshape(-1, width) for x in outs]
    operators.merge([memory(x, "lses") for x in flat_lses],
                    [memory(x, "outs") for x in flat_outs],
                    memory(out.view(-1, width)), memory(lse.view(-1)))
    return out, lse


merge_states = torch.library.custom_op(
    "flashacl::merge_states", _merge_states, mutates_args=(),
    device_types="cpu")


@merge_states.register_fake
def _(outs, lses):
    return torch.empty_like(outs[0]), torch.empty_like(lses[0])


def merge(outs, lses):
    if dispatch.is_needed(*outs, *lses):
        return merge_states(outs, lses)
    return _merge_states(outs, lses)
