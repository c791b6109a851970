# SPDX-License-Identifier: Apache-2.0
"""Operators of the adapter beside attention, made of PyTorch's: those that
models call around it, and FlashACL does not have. They compute in float32 and
round once. The adapter's own derivatives call the *_backward ones."""

import collections
import functools

import torch

# {operator: how often it was called}
calls = collections.Counter()
_kernels = {}
_libraries = []


def _kernel(name, namespace="npu"):
    """Registers a function as the npu kernel of an operator."""
    def register(function):
        _kernels[f"{namespace}::{name}"] = function
        return function
    return register


def install():
    for full_name, function in _kernels.items():
        namespace, name = full_name.split("::")
        packet = getattr(getattr(torch.ops, namespace), name.split(".")[0],
                         None)
        if packet is None:
            continue  # not in this version of the adapter
        library = torch.library.Library(namespace, "IMPL")
        library.impl(name, _counted(full_name, function), "PrivateUse1")
        _libraries.append(library)


def _counted(name, function):
    @functools.wraps(function)
    def call(*args, **kwargs):
        calls[name] += 1
        return function(*args, **kwargs)
    return call


# Normalisation.

def _norm_axes(x, gamma):
    return tuple(range(x.dim() - gamma.dim(), x.dim()))


@_kernel("npu_rms_norm")
def rms_norm(x, gamma, epsilon=1e-6):
    """y = x / rms(x) gamma over the axes of gamma; also 1 / rms(x)."""
    wide = x.float()
    rstd = torch.rsqrt(
        wide.square().mean(_norm_axes(x, gamma), keepdim=True) + epsilon)
    return (wide * rstd * gamma.float()).to(x.dtype), rstd


@_kernel("npu_rms_norm_backward")
def rms_norm_backward(dy, x, gamma, rstd):
    axes = _norm_axes(x, gamma)
    wide, grad = x.float(), dy.float()
    scaled = grad * gamma.float()
    normed = wide * rstd
    dx = rstd * (scaled - normed * (scaled * normed).mean(axes, keepdim=True))
    leading = tuple(range(x.dim() - gamma.dim()))
    dgamma = grad * normed
    dgamma = dgamma.sum(leading) if leading else dgamma
    return dx.to(x.dtype), dgamma.to(gamma.dtype)


@_kernel("npu_add_rms_norm")
def add_rms_norm(x1, x2, gamma, epsilon=1e-6):
    """rms_norm of a sum that is rounded first; also the sum."""
    total = x1 + x2
    y, rstd = rms_norm(total, gamma, epsilon)
    return y, rstd, total


# Activations.



def _rounded(function, x):
    return function(x.float()).to(x.dtype)


def _swiglu(x, dim):
    gate, value = x.chunk(2, dim)
    return torch.nn.functional.silu(gate) * value


@_kernel("npu_swiglu")
def swiglu(x, dim=-1):
    return _rounded(lambda wide: _swiglu(wide, dim), x)


@_kernel("npu_swiglu_backward")
def swiglu_backward(grad, x, dim=-1):
    gate, value = x.float().chunk(2, dim)
    wide = grad.float()
    s = torch.sigmoid(gate)
    d_gate = wide * value * s * (1 + gate * (1 - s))
    return torch.cat([d_gate, wide * gate * s], dim).to(x.dtype)


def _fast_gelu(x):
    magnitude = x.abs()
    return x / (1 + torch.exp(-1.702 * magnitude)) * torch.exp(
        0.851 * (x - magnitude))


@_kernel("npu_fast_gelu")
@_kernel("fast_gelu")
def fast_gelu(x):
    return _rounded(_fast_gelu, x)


@_kernel("npu_fast_gelu_backward")
def fast_gelu_backward(grad, x):
    # x sigmoid(1.702 x) is the same function without the magnitudes.
    wide = x.float()
    s = torch.sigmoid(1.702 * wide)
    return (grad.float() * s * (1 + 1.702 * wide * (1 - s))).to(x.dtype)


@_kernel("npu_gelu")
def gelu(x, *, approximate="none"):
    return torch.nn.functional.gelu(x, approximate=approximate)


@_kernel("npu_gelu_backward")
def gelu_backward(grad, x, *, approximate="none"):
    return torch.ops.aten.gelu_backward(grad, x, approximate=approximate)


@_kernel("npu_silu")
def silu(x):
    return torch.nn.functional.silu(x)


@_kernel("npu_silu_")
def silu_(x):
    return torch.nn.functional.silu(x, inplace=True)


@_kernel("npu_silu_backward")
def silu_backward(grad, x, y):
    return torch.ops.aten.silu_backward(grad, x)


@_kernel("npu_mish")
def mish(x):
    return torch.nn.functional.mish(x)


@_kernel("npu_mish_backward")
def mish_backward(grad, x):
    return torch.ops.aten.mish_backward(grad, x)


# Positions.

def _rotate(x, mode):
    """The vector that a rotation by a right angle makes of each pair."""
    if mode == "half":
        first, second = x.chunk(2, -1)
        return torch.cat([-second, first], -1)
    if mode != "interleave":
        raise RuntimeError(f"rotary_mode: {mode}, expected half or interleave")
    return torch.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2)


def _rotate_back(x, mode):
    return -_rotate(x, mode)  # the rotation's transpose is its inverse


def _reduced(grad, like):
    """Sums a gradient over the axes along which `like` was repeated."""
    axes = [i for i in range(grad.dim())
            if like.shape[i] == 1 and grad.shape[i] != 1]
    grad = grad.sum(axes, keepdim=True) if axes else grad
    return grad.to(like.dtype)


@_kernel("npu_rotary_mul")
def rotary_mul(x, r1, r2, rotary_mode="half", rotate=None):
    if rotate is not None:
        raise NotImplementedError("npu_rotary_mul: rotate is not supported")
    wide = x.float()
    y = wide * r1.float() + _rotate(wide, rotary_mode) * r2.float()
    return y.to(x.dtype)


@_kernel("npu_rotary_mul_backward")
def rotary_mul_backward(grad, x, r1, r2, rotary_mode="half"):
    wide, g = x.float(), grad.float()
    dx = g * r1.float() + _rotate_back(g * r2.float(), rotary_mode)
    return (dx.to(x.dtype), _reduced(g * wide, r1),
            _reduced(g * _rotate(wide, rotary_mode), r2))


@_kernel("npu_apply_rotary_pos_emb")
def apply_rotary_pos_emb(query, key, cos, sin, layout="BSH",
                         rotary_mode="half"):
    return (rotary_mul(query, cos, sin, rotary_mode),
            rotary_mul(key, cos, sin, rotary_mode))


# Softmax and shapes.

def _hidden(x, mask, fixed_triu_mask):
    if not fixed_triu_mask:
        return mask
    return torch.ones(x.shape[-2:], dtype=torch.bool, device=x.device).triu(1)


@_kernel("npu_scaled_masked_softmax")
def scaled_masked_softmax(x, mask, scale=1, fixed_triu_mask=False):
    scores = (x.float() * scale).masked_fill(
        _hidden(x, mask, fixed_triu_mask).bool(), -10000.0)
    return torch.softmax(scores, -1).to(x.dtype)


@_kernel("npu_scaled_masked_softmax_backward")
def scaled_masked_softmax_backward(y_grad, y, mask, scale, fixed_triu_mask):
    p, g = y.float(), y_grad.float()
    dx = p * (g - (g * p).sum(-1, keepdim=True)) * scale
    return dx.masked_fill(_hidden(y, mask, fixed_triu_mask).bool(),
                          0.0).to(y.dtype)


@_kernel("npu_confusion_transpose")
def confusion_transpose(x, perm, shape, transpose_first):
    if transpose_first:
        return x.permute(perm).reshape(shape).contiguous()
    return x.reshape(shape).permute(perm).contiguous()


@_kernel("npu_confusion_transpose_backward")
def confusion_transpose_backward(grad, perm, shape, transpose_first):
    """`shape` is that of the input, and `transpose_first` what undoes it does
    first: the adapter passes the opposite of the forward direction's."""
    inverse = [perm.index(i) for i in range(len(perm))]
    if transpose_first:
        return grad.permute(inverse).reshape(shape).contiguous()
    permuted = [shape[i] for i in perm]
    return grad.reshape(permuted).permute(inverse).contiguous()


# Products.

@_kernel("npu_linear")
def linear(x, weight, bias=None):
    return torch.nn.functional.linear(x, weight, bias)


@_kernel("npu_linear_backward")
def linear_backward(grad, x, weight):
    return grad @ weight, grad.flatten(0, -2).t() @ x.flatten(0, -2)


# Cells of recurrent layers. The gates are those of both inputs, without biases.

@_kernel("_thnn_fused_lstm_cell", "aten")
def lstm_cell(input_gates, hidden_gates, cx, input_bias=None,
              hidden_bias=None):
    gates = hidden_gates + input_gates
    if input_bias is not None:
        gates = gates + input_bias + hidden_bias
    i, f, g, o = gates.chunk(4, 1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    cy = f * cx + i * g
    return o * cy.tanh(), cy, torch.cat([i, f, g, o], 1)


@_kernel("_thnn_fused_lstm_cell_backward_impl", "aten")
def lstm_cell_backward(grad_hy, grad_cy, cx, cy, workspace, has_bias):
    i, f, g, o = workspace.chunk(4, 1)
    c = cy.tanh()
    d_h = torch.zeros_like(cy) if grad_hy is None else grad_hy
    d_c = d_h * o * (1 - c * c)
    if grad_cy is not None:
        d_c = d_c + grad_cy
    gates = torch.cat([d_c * g * i * (1 - i), d_c * cx * f * (1 - f),
                       d_c * i * (1 - g * g), d_h * c * o * (1 - o)], 1)
    bias = gates.sum(0) if has_bias else None
    return gates, d_c * f, bias
