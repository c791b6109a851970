# SPDX-License-Identifier: Apache-2.0
"""Operators of the adapter beside attention, against their formulas in
float64, forward and, where they have one, backward."""

import pytest
import torch
import torch_npu

import reference

SHAPE = (2, 3, 4, 16)


def rms_norm(x, gamma, epsilon=1e-6):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + epsilon) * gamma


def rotate(x, mode):
    if mode == "half":
        a, b = x.chunk(2, -1)
        return torch.cat([-b, a], -1)
    return torch.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2)


def rotary(mode):
    return lambda x, c, s: x * c + rotate(x, mode) * s


def swiglu(x):
    a, b = x.chunk(2, -1)
    return torch.nn.functional.silu(a) * b


def fast_gelu(x):
    m = x.abs()
    return x / (1 + torch.exp(-1.702 * m)) * torch.exp(0.851 * (x - m))


MASK = torch.ones(4, 16, dtype=torch.bool).triu(3)
functional = torch.nn.functional
OPERATORS = {
    "rms_norm": (lambda x, g: torch_npu.npu_rms_norm(x, g)[0], rms_norm,
                 [SHAPE, (16,)]),
    "swiglu": (torch_npu.npu_swiglu, swiglu, [SHAPE]),
    "rotary_half": (torch_npu.npu_rotary_mul, rotary("half"),
                    [SHAPE, (1, 3, 1, 16), (1, 3, 1, 16)]),
    "rotary_pairs": (
        lambda x, c, s: torch_npu.npu_rotary_mul(x, c, s, "interleave"),
        rotary("interleave"), [SHAPE, (1, 3, 1, 16), (1, 3, 1, 16)]),
    "fast_gelu": (torch_npu.npu_fast_gelu, fast_gelu, [SHAPE]),
    "gelu": (torch_npu.npu_gelu, functional.gelu, [SHAPE]),
    "silu": (torch_npu.npu_silu, functional.silu, [SHAPE]),
    "mish": (torch_npu.npu_mish, functional.mish, [SHAPE]),
    "masked_softmax": (
        lambda x: torch_npu.npu_scaled_masked_softmax(
            x, MASK.expand(2, 1, 4, 16).to(x.device), 0.5),
        lambda x: torch.softmax((0.5 * x).masked_fill(MASK, -10000.0), -1),
        [SHAPE]),
    "transpose": (
        lambda x: torch_npu.npu_confusion_transpose(
            x, [0, 2, 1, 3], [2, 4, 48], True),
        lambda x: x.permute(0, 2, 1, 3).reshape(2, 4, 48), [SHAPE]),
    "linear": (torch_npu.npu_linear, functional.linear, [(6, 16), (5, 16)]),
}


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_operator(name, dtype):
    operator, definition, shapes = OPERATORS[name]
    tensors = [torch.randn(s).to(dtype) for s in shapes]
    inputs = [t.npu().requires_grad_() for t in tensors]
    wide = reference.leaves(*tensors)
    got, expected = operator(*inputs), definition(*wide)
    assert got.dtype == dtype
    dy = torch.randn(expected.shape).to(dtype)
    reference.check(
        [got, *torch.autograd.grad(got, inputs, dy.npu())],
        [expected, *torch.autograd.grad(expected, wide, dy.double())], dtype)


def test_add_rms_norm_rounds_the_sum():
    a, b = (torch.randn(3, 16).bfloat16() for _ in range(2))
    gamma = torch.randn(16).bfloat16()
    y, rstd, total = torch_npu.npu_add_rms_norm(a.npu(), b.npu(), gamma.npu())
    assert torch.equal(total.cpu(), a + b) and rstd.shape == (3, 1)
    reference.check([y], [rms_norm((a + b).double(), gamma.double())],
                    torch.bfloat16)


def test_apply_rotary_pos_emb():
    q, k = torch.randn(2, 3, 4, 16), torch.randn(2, 3, 1, 16)
    c, s = torch.randn(2, 3, 1, 16), torch.randn(2, 3, 1, 16)
    got = torch_npu.npu_apply_rotary_pos_emb(
        q.npu(), k.npu(), c.npu(), s.npu(), layout="BSND")
    expected = [rotary("half")(x, c, s) for x in (q, k)]
    reference.check(got, [e.double() for e in expected], torch.float32)
