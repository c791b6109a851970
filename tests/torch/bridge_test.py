# SPDX-License-Identifier: Apache-2.0
"""PyTorch's operators on npu tensors: the CPU's kernels, on the same memory."""

import copy
import io
import subprocess
import sys

import numpy as np
import pytest
import torch
import torch_npu

import flashacl.bridge


def npu(*shape):
    return torch.randn(*shape).npu()


def same(a, b):
    return torch.equal(a.detach().cpu(), b.detach().cpu())


def test_importing_torch_is_enough():
    """Neither the adapter nor the bridge has to be named."""
    code = ("import torch; x = torch.ones(3, device='npu');"
            "print((x + x).sum().item(), torch.npu.get_device_name(0))")
    done = subprocess.run([sys.executable, "-c", code], text=True,
                          capture_output=True, check=True)
    assert done.stdout.split() == ["6.0", "Ascend910B1"]


def test_runs_scripts_without_autoload(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import sys, torch\n"
                      "print(torch.ones(2).npu().sum().item(), sys.argv[1])")
    import os
    done = subprocess.run(
        [sys.executable, "-m", "flashacl.bridge", str(script), "word"],
        env={**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}, text=True,
        capture_output=True, check=True)
    assert done.stdout.split() == ["2.0", "word"]


def test_views_are_views():
    x = npu(4, 6)
    v = x.view(3, 8)
    v[1, 2] = 5
    x.t()[0].mul_(2)
    assert v._base is x and v.data_ptr() == x.data_ptr()
    assert x.flatten()[10].item() == 5
    assert x.reshape(24).data_ptr() == x.data_ptr()
    version = x._version
    v.add_(1)
    assert x._version == version + 1


def test_in_place_writes_to_the_same_memory():
    x = npu(16)
    address, before = x.data_ptr(), x.cpu()
    assert x.add_(1) is x
    assert x.data_ptr() == address and same(x, before + 1)


def test_results_are_the_devices_memory():
    torch.npu.empty_cache()
    before = torch.npu.memory_allocated()
    x = torch.ones(1 << 18).npu()
    y = x + x
    # The adapter's blocks are a little larger than what is asked for.
    assert 0 <= torch.npu.memory_allocated() - before - 2 * (1 << 20) < 2048
    del x, y
    assert torch.npu.memory_allocated() == before


def test_nothing_is_copied():
    """A reduction of a large tensor allocates its result."""
    x = npu(1 << 20)
    torch.npu.reset_peak_memory_stats()
    before = torch.npu.memory_allocated()
    x.sum()
    assert torch.npu.max_memory_allocated() - before < 4096


@pytest.mark.parametrize("rows", [0, 2, 5])
def test_out_is_resized(rows):
    x, out = npu(3, 4), torch.empty(rows, 4, device="npu")
    if rows in (0,):
        assert torch.add(x, 1, out=out) is out
    else:
        with pytest.warns(UserWarning, match="resized"):
            torch.add(x, 1, out=out)
    assert out.shape == (3, 4) and same(out, x.cpu() + 1)


def test_resize_keeps_what_fits():
    x = torch.arange(6.).npu()
    x.resize_(12)
    assert x[:6].tolist() == [0, 1, 2, 3, 4, 5]


def test_a_freed_tensor_is_not_reused_while_a_stream_reads_it():
    """The gradient that attention reads is freed when it is queued."""
    q = torch.randn(2, 3, 7, 16).npu().requires_grad_()
    for _ in range(20):
        q.grad = None
        out = torch.nn.functional.scaled_dot_product_attention(q, q, q)
        out.float().square().sum().backward()
        assert q.grad.abs().max().item() < 1e3


def test_conjugates_and_negatives():
    x = torch.randn(4, 4, dtype=torch.complex64)
    y = x.npu()
    assert same(y.conj() @ y, x.conj() @ x)
    assert same(y.conj().imag + 1, x.conj().imag + 1)
    assert y.conj().is_conj()


def test_numbers_keep_types():
    x = torch.ones(2, dtype=torch.bfloat16).npu()
    assert (x * 2.0).dtype == torch.bfloat16
    assert (x + torch.tensor(2.0)).dtype == torch.bfloat16
    assert (x > 0).dtype == torch.bool


def test_indexing():
    x, cpu = torch.arange(12.).reshape(3, 4).npu(), torch.arange(12.)
    rows = torch.tensor([2, 0])
    assert same(x[rows], x[rows.npu()])
    assert x[x > 9].tolist() == [10, 11]
    x[rows] = -1
    x.index_put_((rows.npu(),), torch.tensor(3.).npu(), accumulate=True)
    assert x[:, 0].tolist() == [2, 4, 2]
    assert same(x[1], cpu.reshape(3, 4)[1])


def test_channels_last():
    x = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    y = x.npu()
    assert y.stride() == x.stride()
    assert torch.empty_like(y).stride() == x.stride()
    conv = torch.nn.Conv2d(3, 4, 3)
    on_npu = copy.deepcopy(conv).npu()
    assert same(on_npu(y), conv(x))


def test_lists_of_hundreds():
    tensors = [npu(3) for _ in range(300)]
    before = [t.cpu() for t in tensors]
    torch._foreach_add_(tensors, 1)
    assert all(same(t, b + 1) for t, b in zip(tensors, before))
    norms = torch._foreach_norm(tensors)
    assert len(norms) == 300 and all(n.is_npu for n in norms)


def test_copies():
    x = torch.randn(5)
    y = x.npu()
    assert y.data_ptr() != x.data_ptr()
    assert y.npu() is y and y.to("npu", copy=True).data_ptr() != y.data_ptr()
    y += 1
    z = torch.empty(5, dtype=torch.float64)
    assert z.copy_(y) is z and same(z, (x + 1).double())
    assert y.half().dtype == torch.float16 and y.cpu().device.type == "cpu"


# Random numbers.

def test_seeds_make_random_numbers():
    def draw():
        return [torch.randn(3, device="npu"), torch.rand(3, device="npu"),
                torch.randperm(9, device="npu"),
                torch.bernoulli(torch.full((64,), 0.5, device="npu"))]
    torch.manual_seed(3)
    first = draw()
    torch.manual_seed(3)
    assert all(same(a, b) for a, b in zip(first, draw()))
    assert not any(same(a, b) for a, b in zip(first, draw()))


def test_the_cpu_generator_is_left_alone():
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    torch.randn(100, device="npu")
    assert same(torch.rand(4), expected)


def test_generators():
    g = torch.Generator("npu").manual_seed(5)
    state = g.get_state()
    first = torch.randn(4, device="npu", generator=g)
    g.set_state(state)
    assert same(torch.randn(4, device="npu", generator=g), first)
    with pytest.raises(RuntimeError, match="Expected a 'npu' device type"):
        torch.randn(4, device="npu", generator=torch.Generator())


def test_dropout_is_repeated_by_checkpointing():
    from torch.utils.checkpoint import checkpoint
    x = torch.ones(1000, device="npu", requires_grad=True)
    y = checkpoint(lambda t: torch.nn.functional.dropout(t, 0.3), x,
                   use_reentrant=False)
    y.sum().backward()
    assert same(x.grad, y)
    assert 0.6 < (y > 0).float().mean().item() < 0.8


# Errors.

def test_errors_name_the_operator_and_poison_nothing():
    x = npu(2, 3)
    with pytest.raises(RuntimeError, match="cannot be multiplied") as error:
        x @ x
    assert "aten::mm" in str(error.value)
    with pytest.raises(IndexError):
        x.sum(7)
    assert same(x + 1, x.cpu() + 1)


@pytest.mark.parametrize("operation", [
    lambda x: x + torch.ones(2, 3),
    lambda x: torch.ones(2, 3) + x,
    lambda x: torch.cat([x, torch.ones(2, 3)]),
    lambda x: torch.ones(()).add_(x[0, 0]),
    lambda x: x @ torch.ones(3, 2),
    lambda x: torch.nn.functional.layer_norm(x, (3,), torch.ones(3))])
def test_devices_are_not_mixed(operation):
    with pytest.raises(RuntimeError, match="on the same device.*npu:0"):
        operation(npu(2, 3))


def test_sparse_is_refused():
    with pytest.raises(NotImplementedError, match="_to_sparse"):
        npu(2, 3).to_sparse()


def test_npu_tensors_are_no_arrays():
    with pytest.raises(TypeError, match="can't convert npu:0"):
        npu(2).numpy()
    assert np.asarray(npu(2).cpu()).shape == (2,)


# What frameworks do with devices.

def test_saving_and_copying():
    x = npu(3)
    file = io.BytesIO()
    torch.save({"x": x}, file)
    for place in (None, "cpu"):
        file.seek(0)
        loaded = torch.load(file, map_location=place)["x"]
        assert loaded.device.type == (place or "npu") and same(loaded, x)
    assert same(copy.deepcopy(x), x)


def test_pinned_memory():
    assert torch.ones(3).pin_memory().is_pinned()
    loader = torch.utils.data.DataLoader(torch.arange(8.), batch_size=4,
                                         pin_memory=True)
    assert all(batch.is_pinned() for batch in loader)


def test_streams_and_events():
    side = torch.npu.Stream()
    with torch.npu.stream(side):
        x = torch.ones(3, device="npu") * 3
    start, end = (torch.npu.Event(enable_timing=True) for _ in range(2))
    start.record()
    torch.npu.current_stream().wait_stream(side)
    x += 1
    end.record()
    torch.npu.synchronize()
    assert start.elapsed_time(end) >= 0 and x.tolist() == [4, 4, 4]


def test_autocast_and_scaler():
    layer = torch.nn.Linear(4, 4).npu()
    with torch.autocast("npu", dtype=torch.bfloat16):
        assert layer(npu(2, 4)).dtype == torch.bfloat16
    optimizer = torch.optim.SGD(layer.parameters(), 0.1)
    scaler = torch.amp.GradScaler("npu")
    scaler.scale(layer(npu(2, 4)).sum()).backward()
    scaler.step(optimizer)
    scaler.update()


def test_compile_with_aot_eager():
    f = torch.compile(lambda a: (a * 2).relu().sum(), backend="aot_eager")
    x = torch.tensor([-1., 2.], device="npu", requires_grad=True)
    f(x).backward()
    assert x.grad.tolist() == [0, 2]


def test_describe_counts():
    flashacl.bridge.reset()
    npu(3) * 2
    torch_npu.npu_swiglu(npu(2, 4))
    described = flashacl.bridge.describe()
    assert described["on_faces"]["aten::mul.Tensor"] >= 1
    assert described["companions"] == {"npu::npu_swiglu": 1}


# Layers, against the CPU's: the same bits, forward and backward.

LAYERS = {
    "linear": (lambda: torch.nn.Linear(6, 5), (4, 6)),
    "conv1d": (lambda: torch.nn.Conv1d(3, 4, 3), (2, 3, 9)),
    "conv2d": (lambda: torch.nn.Conv2d(3, 4, 3, padding=1), (2, 3, 8, 8)),
    "transposed": (lambda: torch.nn.ConvTranspose2d(3, 4, 3), (2, 3, 5, 5)),
    "layer_norm": (lambda: torch.nn.LayerNorm(6), (4, 6)),
    "batch_norm": (lambda: torch.nn.BatchNorm2d(3), (2, 3, 4, 4)),
    "group_norm": (lambda: torch.nn.GroupNorm(2, 4), (2, 4, 5)),
    "gelu": (lambda: torch.nn.GELU(), (4, 6)),
    "silu": (lambda: torch.nn.SiLU(), (4, 6)),
    "softmax": (lambda: torch.nn.Softmax(-1), (4, 6)),
    "pool": (lambda: torch.nn.MaxPool2d(2), (2, 3, 4, 4)),
}


def train_step(layer, x):
    y = layer(x)
    y = y[0] if isinstance(y, tuple) else y
    y.square().sum().backward()
    return [y, x.grad, *(p.grad for p in layer.parameters())]


@pytest.mark.parametrize("name", LAYERS)
def test_layers_give_the_cpus_bits(name):
    make, shape = LAYERS[name]
    cpu = make()
    on_npu = copy.deepcopy(cpu).npu()
    x = torch.randn(shape)
    expected = train_step(cpu, x.clone().requires_grad_())
    got = train_step(on_npu, x.npu().requires_grad_())
    assert all(same(a, b) for a, b in zip(got, expected))


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_recurrent_layers_are_the_cpus_within_rounding(kind):
    """Only on the CPU PyTorch multiplies the inputs of all steps at once, and
    adds biases first, so that sums differ in the last bits."""
    cpu = getattr(torch.nn, kind)(6, 5, 2, bidirectional=True)
    on_npu = copy.deepcopy(cpu).npu()
    x = torch.randn(3, 2, 6)
    expected = train_step(cpu, x.clone().requires_grad_())
    for a, b in zip(train_step(on_npu, x.npu().requires_grad_()), expected):
        torch.testing.assert_close(a.cpu(), b, rtol=1e-4, atol=1e-5)


def test_adamw_gives_the_cpus_bits():
    cpu = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(),
                              torch.nn.LayerNorm(16), torch.nn.Linear(16, 1))
    on_npu = copy.deepcopy(cpu).npu()
    x, y = torch.randn(32, 8), torch.randn(32, 1)
    losses = []
    for model, a, b in ((cpu, x, y), (on_npu, x.npu(), y.npu())):
        optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
        losses.append([])
        for _ in range(5):
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(a), b)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses[-1].append(loss.item())
    assert losses[0] == losses[1] and losses[0][-1] < losses[0][0]
