# SPDX-License-Identifier: Apache-2.0
"""Training a small model on npu: the losses of the CPU."""

import copy

import pytest
import torch

import model as models


def pair(attention, **options):
    """The same weights twice: on the CPU with PyTorch's attention, on npu."""
    cpu = models.Model(models.sdpa, **options)
    npu = copy.deepcopy(cpu).npu()
    for layer in npu.layers:
        layer.attention = attention
    return cpu, npu


@pytest.mark.parametrize("attention", [models.sdpa, models.fused])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_losses_are_the_cpus(attention, dtype):
    """Twenty steps of AdamW: a step's rounding moves later losses by no more
    than a few units for each of them, and the loss falls."""
    cpu, npu = pair(attention)
    expected = models.train(cpu, "cpu", dtype=dtype)
    got = models.train(npu, "npu", dtype=dtype)
    bound = 64 * torch.finfo(dtype).eps * expected[0]
    assert max(abs(a - b) for a, b in zip(got, expected)) < bound
    assert got[-1] < 0.7 * got[0]


def test_checkpointing_with_dropout_repeats_from_the_seed():
    losses = []
    for checkpointed in (False, True, True):
        torch.manual_seed(1)
        model = models.Model(models.sdpa, dropout=0.2).npu()
        model.checkpointed = checkpointed
        losses.append(models.train(model, "npu", steps=4))
    assert losses[0] == losses[1] == losses[2]
