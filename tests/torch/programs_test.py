# SPDX-License-Identifier: Apache-2.0
"""Calls as programs make them: vLLM's Ascend back end, verl and LLaMA-Factory
looking for devices, diffusers' masks."""

import importlib.util
import os
import subprocess
import sys

import pytest
import torch
import torch_npu

import reference

HALF = torch.bfloat16


def attended(q, k, v, hidden=None, scale=None):
    """(S, N, D) of one sequence by the definition."""
    q, k, v = (x.cpu().double().transpose(0, 1) for x in (q, k, v))
    return reference.attend(q, k, v, scale or q.shape[-1] ** -0.5,
                            hidden).transpose(0, 1)


# vLLM: by keyword, packed, pages, masks of int8, lists of Python's integers.

PAGE, HEADS, KV_HEADS, DIM = 16, 8, 2, 64


def pages(lengths):
    """(keys, values, block table, each sequence's keys and values)."""
    width = -(-max(lengths) // PAGE)
    table = torch.randperm(len(lengths) * width).reshape(-1, width).int()
    caches = [torch.randn(table.numel(), PAGE, KV_HEADS, DIM).to(HALF)
              for _ in range(2)]
    whole = [[c[table[b].long()].flatten(0, 1)[:n] for c in caches]
             for b, n in enumerate(lengths)]
    keys, values = (c.flatten(2).npu() for c in caches)
    return keys, values, table.npu(), whole


@pytest.mark.parametrize("rows", [[1, 1, 1], [5, 1, 7]])
def test_vllm_batches_of_prompts_and_tokens(rows):
    """Chunked prefill beside decode: mode 3 with an int8 mask."""
    lengths = [40, 17, 33]
    keys, values, table, whole = pages(lengths)
    ends = torch.tensor(rows).cumsum(0).tolist()
    q = torch.randn(ends[-1], HEADS, DIM).to(HALF).npu()
    mask = torch.triu(torch.ones(2048, 2048), 1).to(torch.int8).npu()
    out, _ = torch_npu.npu_fused_infer_attention_score(
        query=q, key=keys, value=values, atten_mask=mask, block_table=table,
        input_layout="TND", block_size=PAGE, actual_seq_lengths=ends,
        actual_seq_lengths_kv=lengths, num_key_value_heads=KV_HEADS,
        num_heads=HEADS, scale=DIM ** -0.5, sparse_mode=3)
    start = 0
    for end, length, kv in zip(ends, lengths, whole):
        hidden = reference.causal(end - start, length, length - (end - start))
        reference.check([out[start:end]],
                        [attended(q[start:end], *kv, hidden)], HALF)
        start = end


def test_vllm_graphs_ask_for_a_workspace_and_give_results():
    """_get_max_workspace once, then .out for every layer and step."""
    lengths = [40, 17]
    keys, values, table, whole = pages(lengths)
    q = torch.randn(2, HEADS, DIM).to(HALF).npu()
    how = dict(query=q, key=keys, value=values, block_table=table,
               input_layout="TND", block_size=PAGE, actual_seq_lengths=[1, 2],
               actual_seq_lengths_kv=lengths, num_key_value_heads=KV_HEADS,
               num_heads=HEADS, scale=DIM ** -0.5)
    workspace = \
        torch_npu._npu_fused_infer_attention_score_get_max_workspace(**how)
    out, lse = torch.empty_like(q), torch.empty(1, dtype=HALF, device="npu")
    for lengths in ([40, 17], [12, 3]):
        how["actual_seq_lengths_kv"] = lengths
        torch_npu.npu_fused_infer_attention_score.out(
            **how, workspace=workspace, out=[out, lse])
        expected = [attended(q[b:b + 1], *(x[:n] for x in kv))
                    for b, (n, kv) in enumerate(zip(lengths, whole))]
        reference.check([out], [torch.cat(expected)], HALF)


def test_vllm_vision_towers_pass_lists():
    ends = [9, 13, 30]
    q, k, v = (torch.randn(30, 4, 80).to(HALF).npu() for _ in range(3))
    out = torch_npu.npu_fusion_attention(
        q, k, v, actual_seq_qlen=ends, actual_seq_kvlen=ends, head_num=4,
        scale=80 ** -0.5, input_layout="TND")[0]
    expected = [attended(*(x[a:b] for x in (q, k, v)))
                for a, b in zip([0, *ends], ends)]
    reference.check([out], [torch.cat(expected)], HALF)


# verl, LLaMA-Factory and others: is there a device, and which?

def test_probing_for_a_device():
    assert importlib.util.find_spec("torch_npu") is not None
    assert torch.npu.is_available() and torch.npu.device_count() >= 1
    assert torch.accelerator.current_accelerator().type == "npu"
    assert torch.get_device_module("npu") is torch.npu
    torch.npu.set_device("npu:0")
    assert torch.npu.current_device() == 0
    torch.npu.manual_seed_all(3)
    torch.npu.empty_cache()
    free, total = torch.npu.mem_get_info()
    assert 0 < free <= total
    assert torch.npu.get_device_name().startswith("Ascend910B")
    assert torch.npu.is_bf16_supported()
    name = f"npu:{torch.npu.current_device()}"
    assert torch.ones(1, device=name).device == torch.device(name)
    with torch.device("npu"):
        assert torch.zeros(1).is_npu


def test_one_group_for_both_devices():
    """verl's: collectives of CPU tensors by Gloo, of npu tensors by hccl."""
    code = """
import torch, torch.distributed as dist
dist.init_process_group("cpu:gloo,npu:hccl", rank=0, world_size=1,
                        init_method="tcp://127.0.0.1:0")
for device in ("cpu", "npu"):
    x = torch.ones(2, device=device)
    dist.all_reduce(x)
    assert x.tolist() == [1, 1] and x.device.type == device
dist.destroy_process_group()
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=600)


# diffusers and transformers: scaled_dot_product_attention.

@pytest.mark.parametrize("shape", [(2, 1, 6, 9), (2, 1, 1, 9), (1, 1, 6, 9),
                                   (2, 4, 6, 9), (6, 9)])
def test_diffusers_masks(shape):
    q = torch.randn(2, 4, 6, 40).to(HALF)
    k, v = (torch.randn(2, 4, 9, 40).to(HALF) for _ in range(2))
    mask = torch.rand(shape) < 0.7
    mask[..., 0] = True
    inputs = [x.npu().requires_grad_() for x in (q, k, v)]
    out = torch.nn.functional.scaled_dot_product_attention(
        *inputs, attn_mask=mask.npu(), dropout_p=0.0, is_causal=False)
    wide = reference.leaves(q, k, v)
    expected = reference.attend(*wide, 40 ** -0.5, ~mask)
    dy = torch.randn(2, 4, 6, 40).to(HALF)
    reference.check(
        [out, *torch.autograd.grad(out, inputs, dy.npu())],
        [expected, *torch.autograd.grad(expected, wide, dy.double())], HALF)


def test_diffusers_heads_of_a_transposed_projection():
    """(B, S, N * D) viewed and transposed; the result goes back by a reshape."""
    x = torch.randn(2, 7, 4 * 40).to(HALF)
    heads = x.npu().view(2, -1, 4, 40).transpose(1, 2)
    out = torch.nn.functional.scaled_dot_product_attention(heads, heads, heads)
    out = out.transpose(1, 2).reshape(2, -1, 160)
    wide = x.double().unflatten(2, (4, 40)).transpose(1, 2)
    expected = reference.attend(wide, wide, wide, 40 ** -0.5)
    reference.check([out], [expected.transpose(1, 2).flatten(2)], HALF)


# What is wrong only when it runs: strict mode looks at contents.

STRICT = """
import torch, torch_npu, flashacl
q = torch.randn(1, 2, 8, 64).half().npu()
mask = torch.ones(2048, 2048, dtype=torch.bool).triu(1).npu()
def attend(mask):
    return torch_npu.npu_fusion_attention(
        q, q, q, 2, "BNSD", atten_mask=mask, scale=0.1, sparse_mode=2)[0]
zeros = torch.zeros_like(mask)
expected = attend(mask).cpu()
def told(act):
    try:
        act()
    except RuntimeError as error:
        return "attenMaskOptional[0][1]: 0, expected 1" in str(error)
    return False
for act in (lambda x: x.cpu(), lambda x: x + 1, lambda x: x.sum().item(),
            lambda x: torch.npu.synchronize(),
            lambda x: torch.npu.current_stream().synchronize()):
    assert told(lambda: act(attend(zeros)))
    assert torch.equal(attend(mask).cpu(), expected)
# On another stream, too, where nothing has run before.
with torch.npu.stream(torch.npu.Stream()):
    assert told(lambda: attend(zeros).cpu())
    assert torch.equal(attend(mask).cpu(), expected)

x, lists = torch.randn(1, 4, 2, 64), torch.tensor([[9]], dtype=torch.int32)
good = flashacl.attention(x, x, x)
cache = torch.randn(2, 16, 2, 64).half()
try:
    flashacl.flash_attn_with_kvcache(x[:, :1].half(), cache, cache,
                                     cache_seqlens=[3], block_table=lists)
    raise SystemExit("not refused")
except flashacl.Error as error:
    assert "page 9, but there are 2 pages" in str(error), error
assert torch.equal(flashacl.attention(x, x, x), good)
print("done")
"""


def test_late_errors_are_told_once_and_poison_nothing():
    done = subprocess.run(
        [sys.executable, "-c", STRICT], text=True, capture_output=True,
        check=False, env={**os.environ, "FLASHACL_STRICT": "1"}, timeout=600)
    assert done.stdout == "done\n" and done.returncode == 0, done.stderr
    assert "npuSynchronize" not in done.stderr  # at the end, once more


THREADS = """
import pathlib, sys, torch, flashacl
if sys.argv[1] == "npu":
    x = torch.randn(4, 8, 256, 64).npu()
    torch.nn.functional.scaled_dot_product_attention(x, x, x).cpu()
else:
    x = torch.randn(4, 256, 8, 64)
    flashacl.attention(x, x, x)
names = [p.read_text().strip() for p in
         pathlib.Path("/proc/self/task").glob("*/comm")]
print(torch.get_num_threads(), names.count("worker"))
"""


@pytest.mark.parametrize("device", ["npu", "cpu"])
@pytest.mark.parametrize("settings, torchs, workers", [
    ({"OMP_NUM_THREADS": "1"}, 1, 0), ({"OMP_NUM_THREADS": "2"}, 2, 1),
    ({"FLASHACL_NUM_THREADS": "2"}, 2, 1),
    ({"OMP_NUM_THREADS": "1", "FLASHACL_NUM_THREADS": "2"}, 1, 1)])
@pytest.mark.skipif(os.cpu_count() < 2, reason="PyTorch takes no more threads "
                    "than processors from OMP_NUM_THREADS")
def test_one_setting_is_for_the_threads_of_both(device, settings, torchs,
                                                workers):
    """FlashACL's callers work, too: workers are one fewer."""
    names = ("OMP_NUM_THREADS", "FLASHACL_NUM_THREADS")
    clean = {n: v for n, v in os.environ.items() if n not in names}
    done = subprocess.run(
        [sys.executable, "-c", THREADS, device], text=True, check=True,
        capture_output=True, env={**clean, **settings}, timeout=600)
    assert done.stdout.split() == [str(torchs), str(workers)]
