# SPDX-License-Identifier: Apache-2.0
"""flashacl.attention and flash-attn's functions on ordinary CPU tensors:
results and gradients against the definition, and PyTorch's own checks of custom
operators."""

import math

import pytest
import torch

import flashacl
import reference

TYPES = (torch.float32, torch.float16, torch.bfloat16)


def draw(*shape, dtype=torch.float32, grad=False):
    return torch.randn(*shape).to(dtype).requires_grad_(grad)


def seen(rows, keys, left, right):
    """What a window shows, whose diagonal ends at the last row and key."""
    distance = torch.arange(keys) - torch.arange(rows)[:, None] - keys + rows
    shown = torch.ones(rows, keys, dtype=torch.bool)
    if left >= 0:
        shown &= distance >= -left
    if right >= 0:
        shown &= distance <= right
    return shown


def definition(q, k, v, hidden=None, bias=None, sink=None, scale=None):
    """Of (B, S, N, D)."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    return reference.attend(*(x.transpose(1, 2) for x in (q, k, v)), scale,
                            hidden, bias, sink).transpose(1, 2)


def log_sums(q, k, shown):
    """Logarithms of sums of exponentials, (B, N, S); infinite for no key."""
    k = k.repeat_interleave(q.shape[2] // k.shape[2], 2)
    scores = torch.einsum("bsnd,btnd->bnst", q.double(), k.double())
    lse = (scores * q.shape[-1] ** -0.5).masked_fill(
        ~shown, -torch.inf).logsumexp(-1)
    return torch.where(lse == -torch.inf, torch.inf, lse)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("causal, window", [
    (False, (-1, -1)), (True, (-1, -1)), (False, (3, 2)), (True, (4, -1)),
    (False, (-1, 2))])
def test_flash_attn_func(dtype, causal, window):
    q = draw(2, 9, 4, 16, dtype=dtype, grad=True)
    k, v = (draw(2, 12, 2, 16, dtype=dtype, grad=True) for _ in range(2))
    out, lse, none = flashacl.flash_attn_func(
        q, k, v, causal=causal, window_size=window, return_attn_probs=True)
    dy = draw(*out.shape, dtype=dtype)
    wide = reference.leaves(q, k, v)
    shown = seen(9, 12, window[0], 0 if causal else window[1])
    expected = definition(*wide, hidden=~shown)
    reference.check([out, *torch.autograd.grad(out, (q, k, v), dy)],
                    [expected,
                     *torch.autograd.grad(expected, wide, dy.double())], dtype)
    assert none is None and lse.shape == (2, 4, 9)
    reference.check([lse], [log_sums(q, k, shown)], dtype)


def test_rows_without_keys_are_zero():
    q, k = draw(1, 6, 2, 8), draw(1, 3, 2, 8)
    out, lse, _ = flashacl.flash_attn_func(q, k, k, causal=True,
                                           return_attn_probs=True)
    assert out[:, :3].abs().max() == 0 and torch.isposinf(lse[..., :3]).all()
    assert torch.isfinite(lse[..., 3:]).all()


def test_packed_arguments_are_not_copied():
    qkv = draw(2, 7, 3, 4, 8, grad=True)
    out = flashacl.flash_attn_qkvpacked_func(qkv, causal=True)
    expected = flashacl.flash_attn_func(*(x.contiguous() for x in
                                          qkv.unbind(2)), causal=True)
    assert torch.equal(out, expected)
    out.sum().backward()
    q, kv = qkv.detach()[:, :, 0], qkv.detach()[:, :, 1:]
    assert torch.equal(out, flashacl.flash_attn_kvpacked_func(
        q, kv, causal=True))


@pytest.mark.parametrize("rows, keys", [(8, 8), (5, 9)])
def test_slopes(rows, keys):
    q = draw(2, rows, 4, 16, grad=True)
    k, v = (draw(2, keys, 4, 16, grad=True) for _ in range(2))
    slopes = torch.tensor([0.5, 0.25, 0.125, 0.0625])
    out, lse, _ = flashacl.flash_attn_func(
        q, k, v, alibi_slopes=slopes, return_attn_probs=True)
    distance = (torch.arange(keys) - torch.arange(rows)[:, None] - keys + rows)
    bias = -slopes[:, None, None] * distance.abs()
    wide = reference.leaves(q, k, v)
    expected = definition(*wide, bias=bias.double())
    dy = draw(*out.shape)
    assert lse.shape == (2, 4, rows)
    reference.check([out, *torch.autograd.grad(out, (q, k, v), dy)],
                    [expected,
                     *torch.autograd.grad(expected, wide, dy.double())],
                    torch.float32)


@pytest.mark.parametrize("layout", ["BSND", "BNSD"])
def test_masks_biases_and_windows(layout):
    """Everything at once: they may come in less than the scores' shape."""
    q = draw(2, 6, 4, 16)
    k, v = draw(2, 8, 2, 16), draw(2, 8, 2, 16)
    mask = torch.rand(2, 1, 1, 8) < 0.8
    mask[..., 5] = True  # on every row's window: no row without keys
    bias = draw(1, 8)
    inputs = [x.transpose(1, 2) if layout == "BNSD" else x for x in (q, k, v)]
    inputs = [x.clone().requires_grad_() for x in (*inputs, bias)]
    out = flashacl.attention(*inputs[:3], layout=layout, mask=mask,
                             bias=inputs[3], window_size=(-1, 3))
    dy = draw(*out.shape)
    wide = reference.leaves(*inputs)
    turned = [x.transpose(1, 2) if layout == "BNSD" else x for x in wide[:3]]
    expected = definition(*turned, hidden=~(mask & seen(6, 8, -1, 3)),
                          bias=wide[3])
    expected = expected.transpose(1, 2) if layout == "BNSD" else expected
    reference.check([out, *torch.autograd.grad(out, inputs, dy)],
                    [expected,
                     *torch.autograd.grad(expected, wide, dy.double())],
                    torch.float32)


def test_sinks_have_gradients():
    q, k, v = (draw(2, 6, 4, 16, dtype=torch.bfloat16, grad=True)
               for _ in range(3))
    sink = draw(4, grad=True)
    out = flashacl.attention(q, k, v, sink=sink, causal=True)
    dy = draw(*out.shape, dtype=torch.bfloat16)
    wide = reference.leaves(q, k, v, sink)
    expected = definition(*wide[:3], hidden=reference.causal(6, 6),
                          sink=wide[3])
    reference.check([out, *torch.autograd.grad(out, (q, k, v, sink), dy)],
                    [expected,
                     *torch.autograd.grad(expected, wide, dy.double())],
                    torch.bfloat16)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("causal", [False, True])
def test_varlen(dtype, causal):
    lengths_q, lengths_k = [3, 0, 5, 1], [4, 2, 5, 6]
    starts = [torch.tensor([0, *l]).cumsum(0).int()
              for l in (lengths_q, lengths_k)]
    q = draw(9, 4, 16, dtype=dtype, grad=True)
    k, v = (draw(17, 2, 16, dtype=dtype, grad=True) for _ in range(2))
    out, lse, _ = flashacl.flash_attn_varlen_func(
        q, k, v, *starts, 5, 6, causal=causal, return_attn_probs=True)
    dy = draw(*out.shape, dtype=dtype)
    wide = reference.leaves(q, k, v)
    parts, sums = [], []
    for b in range(4):
        one = [x[s[b]:s[b + 1]][None] for x, s in
               zip(wide, (starts[0], starts[1], starts[1]))]
        shown = seen(lengths_q[b], lengths_k[b], -1, 0 if causal else -1)
        parts.append(definition(*one, hidden=~shown)[0])
        sums.append(log_sums(*one[:2], shown)[0])
    expected = torch.cat(parts)
    reference.check([out, *torch.autograd.grad(out, (q, k, v), dy)],
                    [expected,
                     *torch.autograd.grad(expected, wide, dy.double())], dtype)
    assert lse.shape == (4, 9)
    reference.check([lse], [torch.cat(sums, 1)], dtype)


# Caches.

def cache_definition(q, keys, values, causal, left=-1):
    """One sequence: q (S, N, D), the keys that are there (T, Nk, D)."""
    shown = seen(q.shape[0], keys.shape[0], left, 0 if causal else -1)
    return definition(*(x.double()[None] for x in (q, keys, values)),
                      hidden=~shown)[0]


@pytest.mark.parametrize("dtype", TYPES[1:])
@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("kind", ["whole", "chosen", "pages"])
@pytest.mark.parametrize("left", [-1, 5])
def test_flash_attn_with_kvcache(dtype, rows, kind, left):
    lengths, page = [4, 17, 9], 8
    q = draw(3, rows, 4, 32, dtype=dtype)
    new = [draw(3, rows, 2, 32, dtype=dtype) for _ in range(2)]
    options = {"cache_seqlens": torch.tensor(lengths, dtype=torch.int32)}
    if kind == "pages":
        caches = [draw(12, page, 2, 32, dtype=dtype) for _ in range(2)]
        table = torch.randperm(12)[:9].reshape(3, 3).int()
        options["block_table"] = table
    else:
        caches = [draw(5, 24, 2, 32, dtype=dtype) for _ in range(2)]
    places = [0, 1, 2]
    if kind == "chosen":
        places = [4, 0, 2]
        options["cache_batch_idx"] = torch.tensor(places)
    if kind == "whole":
        caches = [c[:3] for c in caches]
    out, lse = flashacl.flash_attn_with_kvcache(
        q, *caches, *new, causal=True, window_size=(left, -1),
        return_softmax_lse=True, **options)
    assert lse.shape == (3, 4, rows)
    for b, length in enumerate(lengths):
        one = [c[table[b].long()].flatten(0, 1) if kind == "pages" else
               c[places[b]] for c in caches]
        one = [c[:length + rows] for c in one]
        assert all(torch.equal(c[length:], n[b]) for c, n in zip(one, new))
        reference.check([out[b]],
                        [cache_definition(q[b], *one, True, left)], dtype)


def test_merged_parts_are_the_whole():
    q, k, v = draw(2, 5, 4, 16), draw(2, 12, 4, 16), draw(2, 12, 4, 16)
    whole, lse, _ = flashacl.flash_attn_func(q, k, v, return_attn_probs=True)
    outs, lses = zip(*(flashacl.flash_attn_func(
        q, k[:, s], v[:, s], return_attn_probs=True)[:2]
        for s in (slice(0, 5), slice(5, 6), slice(6, 12))))
    out, merged = flashacl.merge_states(
        outs, [x.transpose(1, 2) for x in lses])
    reference.check([out, merged.transpose(1, 2)],
                    [whole.double(), lse.double()], torch.float32)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("rope", [False, True])
def test_topk_attention(packed, rope):
    dtype = torch.bfloat16
    q = draw(1, 6, 4, 512, dtype=dtype, grad=True)
    k, v = (draw(1, 20, 1, 512, dtype=dtype, grad=True) for _ in range(2))
    indices = torch.stack([torch.randperm(20)[:8] for _ in range(6)])
    indices[2, 5:] = -1
    inputs, ropes = [q, k, v], {}
    if rope:
        q_rope = draw(1, 6, 4, 64, dtype=dtype, grad=True)
        k_rope = draw(1, 20, 1, 64, dtype=dtype, grad=True)
        inputs += [q_rope, k_rope]
    lists = indices[None, :, None].int()
    given = [*inputs]
    options = {}
    if packed:
        given, lists = [x[0] for x in inputs], lists[0]
        options = {"cu_seqlens_q": torch.tensor([0, 6], dtype=torch.int32),
                   "cu_seqlens_k": torch.tensor([0, 20], dtype=torch.int32)}
    if rope:
        ropes = {"q_rope": given[3], "k_rope": given[4]}
    out, lse = flashacl.topk_attention(*given[:3], lists, softmax_scale=0.05,
                                       return_lse=True, **options, **ropes)
    assert lse.shape == ((6, 4) if packed else (1, 6, 4))
    shown = torch.zeros(6, 20, dtype=torch.bool)
    for i, row in enumerate(indices):
        shown[i, row[row >= 0]] = True
    wide = reference.leaves(*inputs)
    queries, keys = wide[:2]
    if rope:
        queries = torch.cat([queries, wide[3]], -1)
        keys = torch.cat([keys, wide[4]], -1)
    expected = definition(queries, keys, wide[2], hidden=~shown, scale=0.05)
    dy = draw(1, 6, 4, 512, dtype=dtype)
    got = torch.autograd.grad(out, inputs, dy[0] if packed else dy)
    grads = torch.autograd.grad(expected, wide, dy.double())
    reference.check([out[None] if packed else out, *got], [expected, *grads],
                    dtype)


# Dropout.

def test_dropout_repeats_from_the_seed():
    q, k, v = (draw(1, 32, 2, 16, grad=True) for _ in range(3))

    def run(**options):
        out = flashacl.attention(q, k, v, dropout_p=0.3, **options)
        return (out, *torch.autograd.grad(out.square().sum(), (q, k, v)))
    torch.manual_seed(5)
    first = run()
    torch.manual_seed(5)
    assert all(torch.equal(a, b) for a, b in zip(first, run()))
    assert not torch.equal(first[0], run()[0])
    assert torch.equal(run(seed=3)[0], run(seed=3)[0])


def test_dropout_keeps_the_mean_and_differentiates_what_it_did():
    q, k = torch.zeros(1, 64, 2, 16), torch.zeros(1, 64, 2, 16)
    v = torch.ones(1, 64, 2, 16, requires_grad=True)
    out = flashacl.attention(q, k, v, dropout_p=0.25, seed=1)
    # 8192 scores: four deviations of their mean.
    assert abs(out.mean().item() - 1) < 4 * math.sqrt(0.25 / 0.75 / 8192)
    out.sum().backward()
    assert torch.allclose((v.grad * v).sum(), out.sum())


# PyTorch's checks.

@pytest.mark.filterwarnings("ignore:Input")
def test_gradients_are_those_of_differences():
    """float32 is all that attention has: differences over 1e-2 of values about
    1 are right to 1e-4, from the third derivative and from rounding."""
    q, k, v = (draw(1, 3, n, 8, grad=True) for n in (2, 1, 1))
    bias = draw(1, 2, 3, 3, grad=True)
    assert torch.autograd.gradcheck(
        lambda *x: flashacl.attention(*x[:3], bias=x[3], causal=True),
        (q, k, v, bias), eps=1e-2, atol=1e-3, rtol=1e-2, nondet_tol=0)


def test_custom_operators_are_as_pytorch_wants_them():
    from flashacl.plain import on_tensors as on
    opcheck = torch.library.opcheck
    q, k, v = (draw(2, 5, n, 16, grad=True) for n in (4, 2, 2))
    for tensors in ([None] * 7, [torch.rand(5, 5) < 0.5,
                                 draw(1, 4, 5, 5, grad=True), None, None,
                                 torch.tensor([3]), None, None]):
        dropout = 0.0 if tensors[4] is None else 0.5
        opcheck(on.attention, (q, k, v, *tensors, "BSND", 0.25, -1, -1,
                               dropout))
    ends = torch.tensor([2, 5])
    packed = [x.detach()[0].requires_grad_() for x in (q, k, v)]
    opcheck(on.attention, (*packed, *[None] * 5, ends, ends, "TND", 0.25, -1, 0,
                           0.0))
    half = [x.detach().half() for x in (q, k, v)]
    opcheck(on.cached_attention, (*half, torch.tensor([3, 5]), None, None, None,
                                  0.25, -1, 0))
    opcheck(on.merge_states, ([draw(3, 8), draw(3, 8)], [draw(3), draw(3)]))
    wide = [draw(1, 4, n, 512, dtype=torch.float16, grad=True)
            for n in (2, 1, 1)]
    opcheck(on.topk_attention, (*wide, torch.zeros(1, 4, 1, 2).int(),
                                *[None] * 5, 0.05, 1, False))


def test_compiled_without_a_break():
    def f(q, k, v):
        return flashacl.flash_attn_func(q * 2, k, v, causal=True).sum()
    inputs = [draw(1, 6, 2, 16, grad=True) for _ in range(3)]
    expected = torch.autograd.grad(f(*inputs), inputs)
    compiled = torch.compile(f, backend="aot_eager", fullgraph=True)
    for a, b in zip(torch.autograd.grad(compiled(*inputs), inputs), expected):
        assert torch.equal(a, b)


def test_exported():
    class Attend(torch.nn.Module):
        def forward(self, q):
            return flashacl.attention(q, q, q)
    q = draw(1, 6, 2, 16)
    program = torch.export.export(Attend(), (q,))
    assert torch.equal(program.module()(q), Attend()(q))


# Memory and errors.

def test_results_and_arguments_are_not_copied():
    """Views of views are read where they lie; the peak is the result's."""
    q = draw(2, 9, 4, 16)
    strided = torch.empty(4, 9, 2, 32)[..., ::2].permute(2, 1, 0, 3)
    strided.copy_(q)
    assert torch.equal(flashacl.attention(strided, strided, strided),
                       flashacl.attention(q, q, q))


def test_errors_are_exceptions_that_poison_nothing():
    q = draw(1, 4, 2, 16)
    good = flashacl.attention(q, q, q)
    with pytest.raises(flashacl.Error, match="value") as error:
        flashacl.attention(q, q, q[..., :1, :])
    assert error.value.status == 561103
    with pytest.raises(RuntimeError):
        flashacl.attention(q, q.half(), q)
    with pytest.raises(ValueError, match="type float64"):
        flashacl.attention(q.double(), q.double(), q.double())
    with pytest.raises(NotImplementedError, match="softcap"):
        flashacl.flash_attn_func(q, q, q, softcap=30.0)
    with pytest.raises(NotImplementedError, match="bias beside alibi_slopes"):
        flashacl.attention(q, q, q, bias=draw(4, 4), alibi_slopes=draw(2))
    with pytest.raises(ValueError, match="cache_seqlens: sequence 0 has 9"):
        flashacl.flash_attn_with_kvcache(q, q, q, cache_seqlens=9)
    with pytest.raises(ValueError, match="q: is on npu:0"):
        flashacl.attention(q.npu(), q.npu(), q.npu())
    assert torch.equal(flashacl.attention(q, q, q), good)


def test_meta_tensors():
    q = torch.empty(2, 9, 4, 16, device="meta")
    assert flashacl.attention(q, q, q).shape == q.shape


def test_threads_of_the_caller():
    """Every thread has a stream of its own."""
    from concurrent.futures import ThreadPoolExecutor
    q = draw(2, 33, 4, 16)
    expected = flashacl.attention(q, q, q)
    with ThreadPoolExecutor(4) as pool:
        for out in pool.map(lambda _: flashacl.attention(q, q, q), range(32)):
            assert torch.equal(out, expected)
