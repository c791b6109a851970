# SPDX-License-Identifier: Apache-2.0
"""npu_ring_attention_update against merging by its definition, and the example
that trains a sequence split over processes."""

import pathlib
import re
import subprocess
import sys

import pytest
import torch
import torch_npu

import reference

EXAMPLE = pathlib.Path(__file__).parents[2] / "examples/torch/ring_attention.py"


def parts(q, k, v):
    """Attention to the first and to the last keys, and to all."""
    cut = k.shape[0] // 3
    return [torch_npu.npu_fusion_attention(
        q, k[s], v[s], 4, "SBH", scale=0.25)[:3]
        for s in (slice(0, cut), slice(cut, None), slice(0, None))]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_sbh(dtype):
    q, k, v = (torch.randn(s, 2, 4 * 16).to(dtype).npu() for s in (9, 12, 12))
    first, second, whole = parts(q, k, v)
    merged = torch_npu.npu_ring_attention_update(*first, *second)
    assert merged[0].dtype == dtype and merged[1].shape == whole[1].shape
    reference.check(merged, [x.cpu().double() for x in whole], dtype)


@pytest.mark.parametrize("leading", [False, True])
@pytest.mark.parametrize("order", ["", "TND"])
def test_tnd(leading, order):
    """Statistics in either order of memory, ends with a 0 before them or not.
    Sequences are merged of as many keys each."""
    ends_q, keys = [4, 9], 6
    q = torch.randn(9, 4, 16).npu()
    k, v = (torch.randn(2, 3 * keys, 2, 16).npu() for _ in range(2))

    def attend(s):
        some = [x[:, s].flatten(0, 1).contiguous() for x in (k, v)]
        length = some[0].shape[0] // 2
        return torch_npu.npu_fusion_attention(
            q, *some, 4, "TND", scale=0.25, actual_seq_qlen=ends_q,
            actual_seq_kvlen=[length, 2 * length], softmax_layout=order)[:3]
    ends = torch.tensor(([0] if leading else []) + ends_q).npu()
    merged = torch_npu.npu_ring_attention_update(
        *attend(slice(0, keys)), *attend(slice(keys, None)),
        actual_seq_qlen=ends, input_layout="TND", input_softmax_layout=order)
    whole = attend(slice(0, None))
    reference.check(merged, [x.cpu().double() for x in whole], torch.float32)


def test_errors_and_shapes():
    out, most = torch.randn(4, 1, 32).npu(), torch.ones(1, 2, 4, 8).npu()
    with pytest.raises(RuntimeError, match="inputLayout"):
        torch_npu.npu_ring_attention_update(out, most, most, out, most, most,
                                            input_layout="BSH")
    meta = [x.to("meta") for x in (out, most, most)]
    results = torch_npu.npu_ring_attention_update(*meta, *meta)
    assert [x.shape for x in results] == [x.shape for x in meta]


def example(processes, *options):
    """(losses, MiB) of the steps that the example makes."""
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone",
         "--nproc-per-node", str(processes), str(EXAMPLE), *options],
        text=True, capture_output=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return [[float(x) for x in re.findall(pattern, done.stdout)]
            for pattern in (r"loss ([\d.]+)", r"([\d.]+) MiB at most")]


def test_a_split_sequence_has_the_gradients_of_the_whole():
    """The example compares by itself."""
    losses, _ = example(4, "--length", "256", "--steps", "2", "--check")
    assert len(losses) == 2 and losses[1] < losses[0]


def test_memory_of_a_process_falls():
    """A process has gradients of all weights, 9 MiB, and 1/N of the rest; keys
    and values that arrive while others are used, and their gradients, add half
    of that at most. 65 MiB became 42 and 15."""
    size, gradients = ("--length", "2048", "--steps", "2"), 9
    alone, two, four = (example(n, *size)[1][1] for n in (1, 2, 4))
    for processes, taken in ((2, two), (4, four)):
        assert taken < gradients + 1.5 * (alone - gradients) / processes
    assert four < two
