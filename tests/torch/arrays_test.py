# SPDX-License-Identifier: Apache-2.0
"""flashacl.attention on arrays that are not PyTorch's: NumPy's, and what
speaks DLPack; the same bits as on tensors."""

import subprocess
import sys

import numpy as np
import pytest
import torch

import flashacl
from flashacl.plain import dlpack


def draw(*shape, dtype=torch.float32):
    return torch.randn(*shape).to(dtype)


class Foreign:
    """A library that says no more than DLPack."""

    def __init__(self, tensor, shows_namespace=False):
        self.tensor, self.shape = tensor, tensor.shape
        if shows_namespace:
            self.__array_namespace__ = lambda: torch

    def __dlpack__(self, **options):
        return self.tensor.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()


def test_numpy_has_the_tensors_bits():
    q, k = draw(2, 5, 4, 16), draw(2, 7, 2, 16)
    mask = torch.rand(5, 7) < 0.8
    bias = draw(4, 5, 7)
    for options in ({}, {"causal": True}, {"window_size": (2, 1)},
                    {"mask": mask}, {"bias": bias},
                    {"alibi_slopes": None, "dropout_p": 0.5, "seed": 7}):
        expected, lse = flashacl.attention(q, k, k, return_lse=True, **options)
        arrays = {n: x.numpy() if isinstance(x, torch.Tensor) else x
                  for n, x in options.items()}
        out, sums = flashacl.attention(q.numpy(), k.numpy(), k.numpy(),
                                       return_lse=True, **arrays)
        assert isinstance(out, np.ndarray) and sums.dtype == np.float32
        assert np.array_equal(out, expected.numpy())
        np.testing.assert_allclose(sums, lse.numpy(), rtol=1e-6, atol=1e-6)


def test_numpys_other_functions():
    q, k = draw(9, 4, 16), draw(12, 2, 16)
    ends = [[0, 4, 9], [0, 5, 12]]
    expected, lse, _ = flashacl.flash_attn_varlen_func(
        q, k, k, *map(torch.tensor, ends), causal=True, return_attn_probs=True)
    out, sums, _ = flashacl.flash_attn_varlen_func(
        q.numpy(), k.numpy(), k.numpy(), *ends, causal=True,
        return_attn_probs=True)
    assert np.array_equal(out, expected) and sums.shape == (4, 9)
    merged, _ = flashacl.merge_states([out, out], [sums.T, sums.T])
    np.testing.assert_allclose(merged, expected, rtol=1e-5, atol=1e-6)

    half = draw(2, 3, 4, 32).half()
    caches = [draw(6, 8, 2, 32).half().numpy() for _ in range(2)]
    table = np.array([[3, 0], [5, 1]], np.int32)
    tensors = [torch.from_numpy(c.copy()) for c in caches]
    new = [draw(2, 3, 2, 32).half() for _ in range(2)]
    expected = flashacl.flash_attn_with_kvcache(
        half, *tensors, *new, cache_seqlens=torch.tensor([6, 11]),
        block_table=torch.from_numpy(table), causal=True)
    out = flashacl.flash_attn_with_kvcache(
        half.numpy(), *caches, *(n.numpy() for n in new),
        cache_seqlens=[6, 11], block_table=table, causal=True)
    assert np.array_equal(out, expected)
    assert all(np.array_equal(a, b) for a, b in zip(caches, tensors))

    q = draw(1, 3, 2, 512).half()
    lists = np.array([[1], [0], [2]], np.int32)[None, :, None]
    expected = flashacl.topk_attention(q, q[:, :, :1], q[:, :, :1],
                                       torch.from_numpy(lists))
    q = q.numpy()
    assert np.array_equal(
        flashacl.topk_attention(q, q[:, :, :1], q[:, :, :1], lists), expected)


def test_dlpack_is_read_where_it_lies():
    q = draw(2, 5, 4, 16, dtype=torch.bfloat16)
    expected = flashacl.attention(q, q, q, causal=True)
    foreign = Foreign(q)
    memory, _kept = dlpack.memory_of(foreign, "q")
    assert memory.address == q.data_ptr() and memory.dtype == "bfloat16"
    out = flashacl.attention(foreign, foreign, foreign, causal=True)
    assert torch.equal(torch.from_dlpack(out), expected)
    shown = Foreign(q, shows_namespace=True)
    out = flashacl.attention(shown, shown, shown, causal=True)
    assert isinstance(out, torch.Tensor) and torch.equal(out, expected)


def test_results_outlive_their_block():
    block = dlpack.Block((2, 3), "bfloat16")
    block.fill(torch.arange(6).bfloat16().view(torch.int16).numpy().tobytes())
    tensor = torch.from_dlpack(block)
    assert tensor.data_ptr() == block.memory().address
    block.__dlpack__()  # consumed by nobody
    del block
    assert tensor.tolist() == [[0, 1, 2], [3, 4, 5]] and dlpack._exported
    del tensor
    assert not dlpack._exported


def test_views_are_read_by_their_strides():
    whole = np.random.default_rng(0).standard_normal((4, 9, 2, 32),
                                                     dtype=np.float32)
    view = whole[..., ::2].transpose(2, 1, 0, 3)
    assert np.array_equal(flashacl.attention(view, view, view),
                          flashacl.attention(*[view.copy()] * 3))
    # The library walks forwards only, and says so.
    backwards = view[:, ::-1]
    with pytest.raises(flashacl.Error, match="^query: stride -64 of axis 1"):
        flashacl.attention(backwards, view, view)


def test_errors_name_the_argument():
    q = np.zeros((1, 2, 2, 8), np.float32)
    for wrong, error, message in (
            (q.astype(np.float64), ValueError, "q: has type float64"),
            (object(), AttributeError, "shape"),
            (q[0], ValueError, "q, k: have 3 and 4 axes")):
        with pytest.raises(error, match=message):
            flashacl.attention(wrong, q, q)
    with pytest.raises(ValueError, match="k: .*order of bytes"):
        flashacl.attention(q, q.astype(">f4"), q)
    with pytest.raises(TypeError, match="v: a list"):
        flashacl.attention(q, q, [1])
    with pytest.raises(flashacl.Error, match="do not match"):
        flashacl.attention(q, q, q[:, :, :1])


def test_without_pytorch():
    """Neither loaded nor needed."""
    code = ("import sys, numpy as np, flashacl\n"
            "x = np.ones((1, 2, 2, 8), np.float32)\n"
            "assert np.array_equal(flashacl.attention(x, x, x), x)\n"
            "assert 'torch' not in sys.modules\n")
    subprocess.run([sys.executable, "-c", code], check=True)


def test_after_a_fork():
    """Streams of the parent are not the child's."""
    code = ("import os, numpy as np, flashacl\n"
            "x = np.ones((1, 2, 2, 8), np.float32)\n"
            "flashacl.attention(x, x, x)\n"
            "child = os.fork()\n"
            "assert np.array_equal(flashacl.attention(x, x, x), x)\n"
            "if child == 0: os._exit(0)\n"
            "assert os.waitpid(child, 0)[1] == 0\n")
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
