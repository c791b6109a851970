# SPDX-License-Identifier: Apache-2.0
"""Fused attention as programs for Ascend call it, forward and backward, on a
machine without an NPU, and PyTorch's own on the CPU beside it."""

import time

import torch
import torch_npu

B, N, KV, S, D = 1, 8, 2, 512, 64


def main():
    torch.manual_seed(0)
    q = torch.randn(B, N, S, D)
    k, v = torch.randn(B, KV, S, D), torch.randn(B, KV, S, D)
    dy = torch.randn(B, N, S, D)
    mask = torch.ones(2048, 2048, dtype=torch.bool).triu(1).npu()

    def npu(q, k, v):
        return torch_npu.npu_fusion_attention(
            q, k, v, N, "BNSD", atten_mask=mask, scale=D ** -0.5,
            sparse_mode=2)[0]

    def cpu(q, k, v):
        return torch.nn.functional.scaled_dot_product_attention(
            q, k, v, is_causal=True, enable_gqa=True)

    results = []
    for name, attend in (("npu", npu), ("cpu", cpu)):
        inputs = [x.to(name).requires_grad_() for x in (q, k, v)]
        grad = dy.to(name)
        best = float("inf")
        for _ in range(5):
            start = time.perf_counter()
            out = attend(*inputs)
            grads = torch.autograd.grad(out, inputs, grad)
            torch.npu.synchronize()
            best = min(best, time.perf_counter() - start)
        results.append([x.detach().cpu() for x in (out, *grads)])
        print(f"{name}: forward and backward {best * 1e3:.1f} ms")
    worst = max((a - b).abs().max().item() for a, b in zip(*results))
    print(f"device {torch.npu.get_device_name(0)}, S={S}: results and "
          f"gradients differ by at most {worst:.1e}")
    # 512 products of numbers of size 1, in float32.
    assert worst < 1e-3


if __name__ == "__main__":
    main()
