# SPDX-License-Identifier: Apache-2.0
"""Trains a small language model on device npu under bfloat16 autocast, and
says which operators ran where. Nothing in it knows of FlashACL but the last
lines."""

import torch
from torch import nn

HEADS, DIM, WORDS, STEPS = 4, 32, 64, 30


class Block(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.norm, self.norm2 = nn.LayerNorm(size), nn.LayerNorm(size)
        self.qkv = nn.Linear(size, 3 * HEADS * DIM)
        self.out = nn.Linear(HEADS * DIM, size)
        self.mlp = nn.Sequential(nn.Linear(size, 4 * size), nn.GELU(),
                                 nn.Linear(4 * size, size))

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).unflatten(
            2, (3, HEADS, DIM)).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v,
                                                       is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm2(x))


def main():
    torch.manual_seed(0)
    torch.npu.set_device(0)
    size = HEADS * DIM
    model = nn.Sequential(nn.Embedding(WORDS, size), Block(size), Block(size),
                          nn.LayerNorm(size), nn.Linear(size, WORDS)).npu()
    optimizer = torch.optim.AdamW(model.parameters(), 2e-3)
    text = torch.randint(0, 4, (8, 65)).cumsum(1).remainder(WORDS).npu()
    for step in range(STEPS):
        with torch.autocast("npu", dtype=torch.bfloat16):
            scores = model(text[:, :-1])
        loss = nn.functional.cross_entropy(scores.float().flatten(0, 1),
                                           text[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0 or step == STEPS - 1:
            print(f"step {step}: loss {loss.item():.3f}")

    from flashacl import bridge
    for way, operators in bridge.describe().items():
        print(f"{way}: {sum(operators.values())} calls of "
              f"{len(operators)} operators")


if __name__ == "__main__":
    main()
