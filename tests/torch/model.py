# SPDX-License-Identifier: Apache-2.0
"""A small language model as Qwen's are: shared key heads, rotary positions,
RMSNorm, SwiGLU. Attention is a function that is passed."""

import torch
from torch import nn

HEADS, KV_HEADS, DIM = 8, 2, 32


def sdpa(q, k, v):
    """PyTorch's own, causal; (B, N, S, D)."""
    return nn.functional.scaled_dot_product_attention(
        q, k, v, is_causal=True, enable_gqa=True)


def fused(q, k, v):
    """The adapter's, as programs for Ascend call it."""
    import torch_npu
    mask = torch.ones(2048, 2048, dtype=torch.bool, device=q.device).triu(1)
    return torch_npu.npu_fusion_attention(
        q, k, v, q.shape[1], "BNSD", atten_mask=mask, scale=q.shape[3] ** -0.5,
        sparse_mode=3)[0]


class RmsNorm(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x):
        wide = x.float()
        wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)
        return (wide * self.weight).to(x.dtype)


def rotate(x):
    """Rotary positions of (B, N, S, D)."""
    half = x.shape[-1] // 2
    steps = torch.arange(half, device=x.device, dtype=torch.float32)
    angles = torch.outer(
        torch.arange(x.shape[2], device=x.device, dtype=torch.float32),
        10000.0 ** (-steps / half))
    cos, sin = (f(torch.cat([angles, angles], -1)).to(x.dtype)
                for f in (torch.cos, torch.sin))
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat([-b, a], -1) * sin


class Layer(nn.Module):
    def __init__(self, hidden, attention, dropout):
        super().__init__()
        self.attention, self.dropout = attention, nn.Dropout(dropout)
        self.norms = nn.ModuleList([RmsNorm(hidden), RmsNorm(hidden)])
        self.q = nn.Linear(hidden, HEADS * DIM)
        self.kv = nn.Linear(hidden, 2 * KV_HEADS * DIM)
        self.o = nn.Linear(HEADS * DIM, hidden, bias=False)
        self.up = nn.Linear(hidden, 4 * hidden, bias=False)
        self.down = nn.Linear(2 * hidden, hidden, bias=False)

    def forward(self, x):
        y = self.norms[0](x)
        q = self.q(y).unflatten(2, (HEADS, DIM)).transpose(1, 2)
        k, v = self.kv(y).unflatten(2, (2 * KV_HEADS, DIM)).transpose(
            1, 2).chunk(2, 1)
        attended = self.attention(rotate(q), rotate(k), v)
        x = x + self.dropout(self.o(attended.transpose(1, 2).flatten(2)))
        gate, value = self.up(self.norms[1](x)).chunk(2, -1)
        return x + self.down(nn.functional.silu(gate) * value)


class Model(nn.Module):
    def __init__(self, attention, hidden=256, layers=2, words=128,
                 dropout=0.0):
        super().__init__()
        self.words = nn.Embedding(words, hidden)
        self.layers = nn.ModuleList(
            [Layer(hidden, attention, dropout) for _ in range(layers)])
        self.norm = RmsNorm(hidden)
        self.checkpointed = False

    def forward(self, tokens):
        from torch.utils.checkpoint import checkpoint
        x = self.words(tokens)
        for layer in self.layers:
            if self.checkpointed:
                x = checkpoint(layer, x, use_reentrant=False)
            else:
                x = layer(x)
        return self.norm(x) @ self.words.weight.t()


def train(model, device, steps=20, dtype=torch.bfloat16, rows=4, seed=11,
          part=slice(None)):
    """Losses of AdamW steps under autocast on made-up text, or on some of its
    rows."""
    text = torch.Generator().manual_seed(seed)
    tokens = torch.randint(0, 16, (rows, 33), generator=text).cumsum(1) % 128
    tokens = tokens[part].to(device)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    losses = []
    for _ in range(steps):
        with torch.autocast(device, dtype=dtype,
                            enabled=dtype != torch.float32):
            scores = model(tokens[:, :-1])
            loss = nn.functional.cross_entropy(
                scores.float().flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
