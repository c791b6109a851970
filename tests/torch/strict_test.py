# SPDX-License-Identifier: Apache-2.0
"""Programs for npu in strict mode: what is right ends without a finding, and
what is wrong is said, though operators of PyTorch run on device memory."""

import os
import signal
import subprocess
import sys

RIGHT = """
import torch, torch_npu
def leaf(*shape):
    return torch.randn(*shape).npu().requires_grad_()
mask = torch.ones(2048, 2048, dtype=torch.bool).triu(1).npu()
q, k, v = leaf(2, 4, 9, 16), leaf(2, 2, 9, 16), leaf(2, 2, 9, 16)
for dropped in (0.0, 0.1):
    out = torch_npu.npu_fusion_attention(
        q, k, v, 4, "BNSD", atten_mask=mask, scale=0.25, sparse_mode=2,
        keep_prob=1 - dropped)[0]
    (out * 2).square().sum().backward()
    assert q.grad.isfinite().all() and k.grad.abs().max().item() > 0
half = [x.detach().half() for x in (q, k, v)]
torch_npu.npu_prompt_flash_attention(
    *half, num_heads=4, num_key_value_heads=2, input_layout="BNSD",
    scale_value=0.25, next_tokens=65535)
layer = torch.nn.Linear(16, 16).npu()
attend = torch.nn.functional.scaled_dot_product_attention
loss = layer(attend(q, q, q, is_causal=True)).square().mean()
loss.backward()
optimizer = torch.optim.AdamW(layer.parameters())
optimizer.step()
side = torch.npu.Stream()
side.wait_stream(torch.npu.current_stream())
with torch.npu.stream(side):
    other = attend(q, q, q).sum()
torch.npu.current_stream().wait_stream(side)
x = torch.empty(5, device="npu").random_()
print("done", (other + loss).isfinite().item(), x.cpu().shape[0])
"""

UNFILLED = """
import torch, torch_npu
q = torch.empty(1, 2, 8, 16, device="npu")
torch_npu.npu_fusion_attention(q, q, q, 2, "BNSD", scale=0.25)
torch.npu.synchronize()
"""

# Pages that are not there are contents that only a strict run looks at.
WRONG = """
import torch, torch_npu
q = torch.randn(2, 1, 2 * 64, dtype=torch.float16).npu()
cache = torch.randn(4, 16, 128, dtype=torch.float16).npu()
table = torch.full((2, 2), 9, dtype=torch.int32).npu()
try:
    out = torch_npu.npu_incre_flash_attention(
        q, cache, cache, num_heads=2, input_layout="BSH", scale_value=0.125,
        num_key_value_heads=2, block_table=table, block_size=16,
        actual_seq_lengths=[17, 20])
    torch.npu.synchronize()
except RuntimeError as error:
    print("said", error)
print("next", (torch.ones(3).npu() + 1).sum().item())
"""


def run(program, strict="exit", **settings):
    return subprocess.run(
        [sys.executable, "-c", program], text=True, capture_output=True,
        check=False, timeout=600,
        env={**os.environ, "FLASHACL_STRICT": strict, **settings})


def test_a_right_program_ends_without_a_finding():
    done = run(RIGHT)
    assert done.stdout.split() == ["done", "True", "5"], done.stderr
    assert done.returncode == 0, done.stderr
    assert "FLASHACL" not in done.stderr


def test_memory_that_nobody_filled_is_a_finding():
    done = run(UNFILLED)
    assert done.returncode == 66, done.stderr
    assert "query" in done.stderr


def test_wrong_contents_are_said_once():
    done = run(WRONG, "1")
    assert done.returncode == 0, done.stderr
    assert "block table[0][0]: page 9, but there are 4" in done.stdout
    assert "next 6.0" in done.stdout


def test_the_bridge_opens_device_memory():
    """Without its setting a CPU kernel meets a closed page."""
    done = run("import torch; print(torch.ones(3, device='npu').sum().item())",
               FLASHACL_HOST_ACCESS="0")
    assert done.returncode == -signal.SIGSEGV
    assert "the host touches device memory" in done.stderr
