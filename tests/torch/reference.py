# SPDX-License-Identifier: Apache-2.0
"""Attention by its definition, in float64 on the CPU, with gradients."""

import torch


def attend(q, k, v, scale, hidden=None, bias=None, sink=None):
    """q (.., N, S, D), k and v (.., Nk, T, D): softmax(scale q k + bias) v; where
    `hidden` is true nothing is seen, and rows that see nothing are zero."""
    group = q.shape[-3] // k.shape[-3]
    k = k.repeat_interleave(group, -3)
    v = v.repeat_interleave(group, -3)
    scores = scale * (q @ k.transpose(-1, -2))
    if bias is not None:
        scores = scores + bias
    if hidden is not None:
        scores = scores.masked_fill(hidden, -torch.inf)
    if sink is None:
        return torch.nan_to_num(torch.softmax(scores, -1)) @ v
    column = sink[:, None, None].expand(*scores.shape[:-1], 1)
    weights = torch.softmax(torch.cat([scores, column], -1), -1)
    return weights[..., :-1] @ v


def causal(s, t, shift=0):
    """What a causal mask hides: columns after the row's own plus `shift`."""
    return torch.ones(s, t, dtype=torch.bool).triu(1 + shift)


# How the layouts of the operators order batch, heads, sequence and channels.
TO_LAYOUT = {
    "BNSD": lambda x: x,
    "BSND": lambda x: x.transpose(1, 2),
    "BSH": lambda x: x.transpose(1, 2).flatten(2),
    "SBH": lambda x: x.permute(2, 0, 1, 3).flatten(2),
}


def from_layout(x, layout, heads):
    """Back to BNSD."""
    if layout == "BSND":
        return x.transpose(1, 2)
    if layout == "BSH":
        return x.unflatten(2, (heads, -1)).transpose(1, 2)
    if layout == "SBH":
        return x.unflatten(2, (heads, -1)).permute(1, 2, 0, 3)
    return x


def tolerance(dtype):
    """Sums of at most a few hundred products: a few rounding errors of the
    type in which results and gradients are stored, of values up to 8."""
    return 8 * 4 * torch.finfo(dtype).eps


def leaves(*tensors):
    """float64 copies on the CPU that collect gradients."""
    return [t.detach().cpu().double().requires_grad_() for t in tensors]


def check(npu, cpu, dtype, what=""):
    """Results and gradients on npu against those of the definition."""
    for i, (a, b) in enumerate(zip(npu, cpu)):
        difference = (a.detach().cpu().double() - b.detach()).abs().max()
        bound = tolerance(dtype) * max(1.0, b.detach().abs().max().item())
        assert difference <= bound, (what, i, difference.item(), bound)
