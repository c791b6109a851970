# SPDX-License-Identifier: Apache-2.0
"""Attention through the adapter on FlashACL's kernels: against the definition
in float64, forward and backward; the bits of the C functions; dropout; the
calls that programs make."""

import math

import pytest
import torch
import torch_npu

import reference

HALF = torch.bfloat16


def draw(*shape, dtype=torch.float32):
    return torch.randn(*shape).to(dtype)


def on_npu(*tensors):
    return [t.npu().requires_grad_() for t in tensors]


def hide(size=2048):
    """The mask of sparse modes 2 to 4."""
    return torch.ones(size, size, dtype=torch.bool).triu(1).npu()


def grads(out, inputs, dy):
    return torch.autograd.grad(out, inputs, dy.to(out.device, out.dtype))


@pytest.mark.parametrize("layout", reference.TO_LAYOUT)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, HALF])
def test_dense_layouts(layout, dtype):
    q, k, v = draw(2, 4, 9, 16, dtype=dtype), *(
        draw(2, 2, 9, 16, dtype=dtype) for _ in range(2))
    ordered = [reference.TO_LAYOUT[layout](x).contiguous() for x in (q, k, v)]
    inputs = on_npu(*ordered)
    result = torch_npu.npu_fusion_attention(
        *inputs, 4, layout, atten_mask=hide(), scale=0.25, sparse_mode=2)
    assert result[1].shape == result[2].shape == (2, 4, 9, 8)
    assert result[6] == 2 * 4 * 9 * 9  # the seed means nothing, here
    wide = reference.leaves(q, k, v)
    expected = reference.attend(*wide, 0.25, reference.causal(9, 9))
    dy = draw(2, 4, 9, 16)
    got = grads(result[0], inputs, reference.TO_LAYOUT[layout](dy))
    heads = (4, 2, 2)
    reference.check(
        [reference.from_layout(result[0], layout, 4),
         *(reference.from_layout(g, layout, n) for g, n in zip(got, heads))],
        [expected, *grads(expected, wide, dy.to(dtype))], dtype, layout)


def test_gradients_of_expanded_and_strided_tensors():
    """out.sum().backward() gives a gradient of stride 0."""
    kv = draw(2, 2, 8, 2, 16)
    q, both = on_npu(draw(2, 2, 8, 16), kv)
    k, v = both.unbind(3)
    out = torch_npu.npu_fusion_attention(q, k, v, 2, "BNSD", scale=0.3)[0]
    out.sum().backward()
    wide = reference.leaves(q, kv)
    reference.attend(wide[0], *wide[1].unbind(3), 0.3).sum().backward()
    reference.check([q.grad, both.grad], [w.grad for w in wide], torch.float32)


def test_packed_sequences():
    lengths = (5, 11, 1)
    total = sum(lengths)
    q, k, v = draw(total, 4, 16), draw(total, 2, 16), draw(total, 2, 16)
    inputs = on_npu(q, k, v)
    ends = torch.tensor(lengths).cumsum(0).tolist()
    out = torch_npu.npu_fusion_attention(
        *inputs, 4, pse=None, padding_mask=None, atten_mask=hide(), scale=0.25,
        keep_prob=1.0, input_layout="TND", actual_seq_qlen=tuple(ends),
        actual_seq_kvlen=tuple(ends), sparse_mode=3)[0]
    wide = reference.leaves(q, k, v)
    parts = zip(*(w.transpose(0, 1).split(lengths, 1) for w in wide))
    expected = torch.cat([
        reference.attend(*part, 0.25, reference.causal(n, n))
        for part, n in zip(parts, lengths)], 1).transpose(0, 1)
    dy = draw(total, 4, 16)
    reference.check([out, *grads(out, inputs, dy)],
                    [expected, *grads(expected, wide, dy)], torch.float32)


def test_bias_has_a_gradient():
    """It is added to the products before they are scaled."""
    tensors = [*(draw(1, 2, 8, 16) for _ in range(3)), draw(1, 2, 8, 8)]
    inputs, wide = on_npu(*tensors), reference.leaves(*tensors)
    out = torch_npu.npu_fusion_attention(*inputs[:3], 2, "BNSD", scale=0.25,
                                         pse=inputs[3])[0]
    expected = reference.attend(*wide[:3], 0.25, bias=0.25 * wide[3])
    dy = draw(1, 2, 8, 16)
    reference.check([out, *grads(out, inputs, dy)],
                    [expected, *grads(expected, wide, dy)], torch.float32)


@pytest.mark.skipif(
    "sink" not in str(torch.ops.npu.npu_fusion_attention.default._schema),
    reason="this adapter has no sinks")
def test_sinks_have_a_gradient():
    tensors = [draw(1, 2, 8, 16, dtype=HALF) for _ in range(3)]
    sink = draw(2)
    inputs, wide = on_npu(*tensors, sink), reference.leaves(*tensors, sink)
    out = torch_npu.npu_fusion_attention(*inputs[:3], 2, "BNSD", scale=0.25,
                                         sink=inputs[3])[0]
    expected = reference.attend(*wide[:3], 0.25, sink=wide[3])
    dy = draw(1, 2, 8, 16).to(HALF)
    reference.check([out, *grads(out, inputs, dy)],
                    [expected, *grads(expected, wide, dy)], HALF)


def test_separate_positions():
    """v2 with rope: scores add the products of the rotated channels."""
    lengths = [6, 10]
    shapes = [(10, 2, 32), (10, 2, 32), (10, 2, 32), (10, 2, 16), (10, 2, 16)]
    tensors = [draw(*s, dtype=HALF) for s in shapes]
    q, k, v, q_rope, k_rope = inputs = on_npu(*tensors)
    out = torch_npu.npu_fusion_attention_v2(
        q, k, v, 2, "TND", query_rope=q_rope, key_rope=k_rope, scale=0.2,
        atten_mask=hide(), sparse_mode=3, actual_seq_qlen=lengths,
        actual_seq_kvlen=lengths)[0]
    wide = reference.leaves(*tensors)
    q, k, v, q_rope, k_rope = (w.transpose(0, 1) for w in wide)
    parts = zip(*(x.split([6, 4], 1) for x in (
        torch.cat([q, q_rope], -1), torch.cat([k, k_rope], -1), v)))
    expected = torch.cat([
        reference.attend(*part, 0.2, reference.causal(n, n))
        for part, n in zip(parts, (6, 4))], 1).transpose(0, 1)
    dy = draw(10, 2, 32).to(HALF)
    reference.check([out, *grads(out, inputs, dy)],
                    [expected, *grads(expected, wide, dy)], HALF)


# scaled_dot_product_attention.

MASKS = {
    "none": lambda: None,
    "rows": lambda: torch.rand(9, 9) > 0.3,
    "batch": lambda: torch.rand(2, 1, 9, 9) > 0.3,
    "padding": lambda: (torch.arange(9) < 6).expand(2, 1, 1, 9),
    "heads": lambda: torch.rand(2, 4, 9, 9) > 0.3,
    "added": lambda: torch.randn(9, 9),
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("dtype", [torch.float32, HALF])
def test_sdpa_masks(mask, dtype):
    attend = torch.nn.functional.scaled_dot_product_attention
    tensors = [draw(2, 4, 9, 16, dtype=dtype) for _ in range(3)]
    mask = MASKS[mask]()
    if mask is not None and mask.dtype == torch.bool:
        mask = mask | (torch.arange(9) == 0)  # every row sees something
    elif mask is not None:
        mask = mask.to(dtype)
    inputs = on_npu(*tensors)
    out = attend(*inputs, attn_mask=None if mask is None else mask.npu())
    wide = reference.leaves(*tensors)
    wide_mask = mask.double() if mask is not None and \
        mask.is_floating_point() else mask
    expected = attend(*wide, attn_mask=wide_mask)
    dy = draw(2, 4, 9, 16).to(dtype)
    reference.check([out, *grads(out, inputs, dy)],
                    [expected, *grads(expected, wide, dy)], dtype)


@pytest.mark.parametrize("keys", [9, 5, 14])
def test_sdpa_causal_with_shared_heads(keys):
    attend = torch.nn.functional.scaled_dot_product_attention
    tensors = [draw(2, 4, 9, 16), draw(2, 2, keys, 16), draw(2, 2, keys, 16)]
    how = {"is_causal": True, "enable_gqa": True, "scale": 0.3}
    inputs, wide = on_npu(*tensors), reference.leaves(*tensors)
    out, expected = attend(*inputs, **how), attend(*wide, **how)
    dy = draw(2, 4, 9, 16)
    reference.check([out, *grads(out, inputs, dy)],
                    [expected, *grads(expected, wide, dy)], torch.float32)


# Dropout.

def test_dropout_applies_the_mask_of_its_seed():
    q, k, v = on_npu(*(draw(1, 2, 8, 16) for _ in range(3)))
    torch.npu.manual_seed(2)
    result = torch_npu.npu_fusion_attention(q, k, v, 2, "BNSD", scale=0.25,
                                            keep_prob=0.8)
    out, (seed, offset, numels) = result[0], result[4:]
    assert (seed, offset, numels) == (2, 0, 128)
    drop = float(torch.tensor(1.0) - torch.tensor(0.8))
    bits = torch_npu._npu_dropout_gen_mask(q, [1, 2, 8, 8], p=drop, seed=seed,
                                           offset=offset)
    kept = ((bits.cpu()[:, None] >> torch.arange(8)) & 1).flatten()[:128]
    kept = kept.reshape(1, 2, 8, 8).double() / 0.8
    wide = reference.leaves(q, k, v)
    weights = torch.softmax(0.25 * wide[0] @ wide[1].transpose(-1, -2), -1)
    expected = (weights * kept) @ wide[2]
    dy = draw(1, 2, 8, 16)
    reference.check([out, *grads(out, (q, k, v), dy)],
                    [expected, *grads(expected, wide, dy)], torch.float32)


def test_dropout_is_repeated_from_the_seed():
    q = draw(1, 2, 64, 16).npu()
    def call():
        return torch.nn.functional.scaled_dot_product_attention(
            q, q, q, dropout_p=0.4)
    torch.manual_seed(4)
    first = call()
    assert not torch.equal(first, call())
    torch.manual_seed(4)
    assert torch.equal(first, call())


# Inference.

def test_prompt_and_token():
    q, k, v = (draw(2, 4, 8, 16, dtype=torch.float16) for _ in range(3))
    expected = reference.attend(*reference.leaves(q, k, v), 0.25)
    prompt = torch_npu.npu_prompt_flash_attention(
        q.npu(), k.npu(), v.npu(), num_heads=4, input_layout="BNSD",
        scale_value=0.25, pre_tokens=65535, next_tokens=65535)
    reference.check([prompt], [expected], torch.float16)
    token = torch_npu.npu_incre_flash_attention(
        q[:, :, 3:4].npu(), k.npu(), v.npu(), num_heads=4, input_layout="BNSD",
        scale_value=0.25)
    reference.check([token], [expected[:, :, 3:4]], torch.float16)


def test_pages():
    """Decode as vLLM does: packed rows, a cache of pages, a table."""
    lengths, heads, dim, page = [37, 5], 4, 64, 16
    cache = draw(8, page, 2 * dim, dtype=HALF), draw(8, page, 2 * dim,
                                                     dtype=HALF)
    table = torch.tensor([[6, 1, 4], [3, 0, 0]], dtype=torch.int32)
    q = draw(2, heads, dim, dtype=HALF)
    out, _ = torch_npu.npu_fused_infer_attention_score(
        q.npu(), cache[0].npu(), cache[1].npu(), block_table=table.npu(),
        input_layout="TND", block_size=page, num_heads=heads,
        num_key_value_heads=2, scale=dim ** -0.5, actual_seq_lengths=[1, 2],
        actual_seq_lengths_kv=lengths)
    for i, length in enumerate(lengths):
        k, v = (c[table[i].long()].flatten(0, 1)[:length].unflatten(
            1, (2, dim)).transpose(0, 1) for c in cache)
        one = reference.attend(*reference.leaves(q[i][:, None], k, v),
                               dim ** -0.5)
        reference.check([out[i]], [one[:, 0]], HALF)


def test_merging_parts():
    k, v = (draw(1, 2, 64, 16, dtype=HALF) for _ in range(2))
    q = draw(1, 2, 1, 16, dtype=HALF)
    parts = [torch_npu.npu_fused_infer_attention_score(
        q.npu(), k[:, :, s].npu(), v[:, :, s].npu(), num_heads=2, scale=0.25,
        input_layout="BNSD", softmax_lse_flag=True)
        for s in (slice(0, 40), slice(40, 64))]
    out, _ = torch_npu.npu_attention_update(
        [lse.flatten() for _, lse in parts],
        [o.reshape(2, 16) for o, _ in parts], 0)
    expected = reference.attend(*reference.leaves(q, k, v), 0.25)
    reference.check([out], [expected.reshape(2, 16)], HALF)


# A ring: keys come in blocks, statistics are merged by hand.

def test_ring_of_two():
    q, k, v, dy = (draw(16, 1, 32).npu() for _ in range(4))  # SBH, 2 heads
    how = {"scale": 0.25}
    outs, maxima, sums = zip(*(torch_npu.npu_fusion_attention(
        q, k[s], v[s], 2, "SBH", **how)[:3]
        for s in (slice(0, 8), slice(8, 16))))
    top = torch.maximum(*maxima)
    shares = [s * torch.exp(m - top) for s, m in zip(sums, maxima)]
    total = shares[0] + shares[1]
    out = sum(o * (w / total)[..., :1].permute(2, 0, 1, 3).expand(
        16, 1, 2, 16).flatten(2) for o, w in zip(outs, shares))
    parts = [torch_npu.npu_fusion_attention_grad(
        q, k[s], v[s], dy, 2, "SBH", softmax_max=top, softmax_sum=total,
        attention_in=out, scale_value=0.25)[:3]
        for s in (slice(0, 8), slice(8, 16))]
    got = [parts[0][0] + parts[1][0],
           *(torch.cat([a, b]) for a, b in zip(parts[0][1:], parts[1][1:]))]
    wide = reference.leaves(q, k, v)
    expected = reference.TO_LAYOUT["SBH"](reference.attend(
        *(reference.from_layout(w, "SBH", 2) for w in wide), 0.25))
    reference.check([out, *got],
                    [expected, *grads(expected, wide, dy)], torch.float32)


# Errors.

def test_errors_carry_the_librarys_message():
    q, k, v = (draw(1, 2, 8, 16).npu() for _ in range(3))
    with pytest.raises(RuntimeError, match="headNum: 3 does not match the 2"):
        torch_npu.npu_fusion_attention(q, k, v, 3, "BNSD", scale=0.25)
    with pytest.raises(RuntimeError):
        torch_npu.npu_fusion_attention(q, k.cpu(), v, 2, "BNSD")
    out = torch_npu.npu_fusion_attention(q, k, v, 2, "BNSD", scale=0.25)[0]
    expected = reference.attend(*reference.leaves(q, k, v), 0.25)
    reference.check([out], [expected], torch.float32)


def test_a_later_change_of_saved_tensors_is_noticed():
    q = draw(1, 2, 8, 16).npu().requires_grad_()
    x = q * 1
    out = torch_npu.npu_fusion_attention(x, x, x, 2, "BNSD", scale=0.25)[0]
    x.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


# Traced.

def test_compile_with_aot_eager():
    def f(q, k, v):
        return torch_npu.npu_fusion_attention(q * 2, k, v, 2, "BNSD",
                                              scale=0.25)[0].sum()
    inputs = on_npu(*(draw(1, 2, 8, 16) for _ in range(3)))
    expected = torch.autograd.grad(f(*inputs), inputs)
    compiled = torch.compile(f, backend="aot_eager")
    for a, b in zip(torch.autograd.grad(compiled(*inputs), inputs), expected):
        assert torch.equal(a, b)


def test_meta_tensors():
    q = torch.empty(2, 9, 64, device="meta", dtype=HALF)
    out = torch_npu.npu_fusion_attention(q, q, q, 4, "BSH")
    assert out[0].shape == (2, 9, 64) and out[0].dtype == HALF
    assert out[1].shape == (2, 4, 9, 8) and math.prod(out[3].shape) == 0
