# SPDX-License-Identifier: Apache-2.0
"""Two processes on this machine, by the backend hccl."""

import copy
import os
import socket

import torch
import torch.distributed as dist
import torch.multiprocessing as processes


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def start(rank, size, port, function):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port),
                      RANK=str(rank), WORLD_SIZE=str(size))
    torch.npu.set_device(0)
    dist.init_process_group("hccl")
    try:
        function(rank, size)
    finally:
        dist.destroy_process_group()


def run(function, size=2):
    processes.spawn(start, (size, free_port(), function), nprocs=size)


def collectives(rank, size):
    def mine():
        return torch.full((3,), rank + 1.0, device="npu")
    x = mine()
    dist.all_reduce(x)
    assert x.tolist() == [3, 3, 3]
    x = mine()
    dist.all_reduce(x, op=dist.ReduceOp.AVG)
    assert x.tolist() == [1.5, 1.5, 1.5]
    x = mine()
    dist.broadcast(x, 1)
    assert x.tolist() == [2, 2, 2]
    parts = [torch.empty(3, device="npu") for _ in range(size)]
    dist.all_gather(parts, mine())
    assert [p[0].item() for p in parts] == [1, 2]
    whole = torch.empty(6, device="npu")
    dist.all_gather_into_tensor(whole, mine())
    assert whole.tolist() == [1, 1, 1, 2, 2, 2]
    part = torch.empty(3, device="npu")
    dist.reduce_scatter_tensor(part, whole)
    assert part.tolist() == [2 * (rank + 1)] * 3
    dist.all_to_all_single(part[:2], mine()[:2])
    assert part[:2].tolist() == [1, 2]
    half = mine().bfloat16()
    dist.all_reduce(half)
    assert half.tolist() == [3, 3, 3]
    got = torch.empty(3, device="npu")
    calls = [dist.P2POp(dist.isend, mine(), 1 - rank),
             dist.P2POp(dist.irecv, got, 1 - rank)]
    for work in dist.batch_isend_irecv(calls):
        work.wait()
    assert got.tolist() == [2 - rank] * 3
    dist.barrier()


def trains(rank, size):
    """Half of the rows in each process: the weights of all of them in one."""
    torch.manual_seed(3)
    alone = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(),
                                torch.nn.Linear(16, 1)).npu()
    x, y = torch.randn(8, 8).npu(), torch.randn(8, 1).npu()
    spread = torch.nn.parallel.DistributedDataParallel(
        copy.deepcopy(alone), device_ids=[0])
    for model, rows in ((alone, slice(0, 8)),
                        (spread, slice(4 * rank, 4 * rank + 4))):
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(3):
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(x[rows]), y[rows]).backward()
            optimizer.step()
    for a, b in zip(alone.parameters(), spread.parameters()):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


def neighbours(rank, size):
    """What rings do: several tensors at once, to one side and from the other,
    and views of tensors that work goes on with."""
    whole = torch.full((2, 3, 4), float(rank), device="npu")
    got = [torch.empty(3, 4, device="npu"), torch.empty(2, device="npu")]
    calls = [dist.P2POp(dist.isend, whole[1], 1 - rank, tag=1),
             dist.P2POp(dist.isend, whole[0, 0, :2] + 5, 1 - rank, tag=2),
             dist.P2POp(dist.irecv, got[0], 1 - rank, tag=1),
             dist.P2POp(dist.irecv, got[1], 1 - rank, tag=2)]
    works = dist.batch_isend_irecv(calls)
    later = torch.nn.functional.scaled_dot_product_attention(
        *[torch.ones(1, 1, 4, 8, device="npu")] * 3)
    for work in works:
        work.wait()
    assert got[0].eq(1 - rank).all() and got[1].eq(6 - rank).all()
    assert later.eq(1).all()


class Exchange(torch.autograd.Function):
    """(S / P, N, D) of all heads and some rows to (S, N / P, D), and back."""

    @staticmethod
    def forward(ctx, x, to_heads):
        ctx.to_heads = to_heads
        size = dist.get_world_size()
        if to_heads:
            parts = torch.stack(x.chunk(size, 1))
        else:
            parts = torch.stack(x.chunk(size, 0))
        got = torch.empty_like(parts)
        dist.all_to_all_single(got, parts)
        return torch.cat(got.unbind(0), 0 if to_heads else 1)

    @staticmethod
    def backward(ctx, grad):
        return Exchange.apply(grad.contiguous(), not ctx.to_heads), None


def ulysses(rank, size):
    """Rows are spread, heads while attending: results and gradients are those
    of one process."""
    torch.manual_seed(3)
    inputs = [torch.randn(8, 4, 16) for _ in range(3)]
    dy = torch.randn(8, 4, 16).npu()
    rows = slice(4 * rank, 4 * rank + 4)

    def attend(q, k, v):
        return torch.nn.functional.scaled_dot_product_attention(
            *(x.transpose(0, 1)[None] for x in (q, k, v)),
            is_causal=True)[0].transpose(0, 1)
    whole = [x.npu().requires_grad_() for x in inputs]
    expected = attend(*whole)
    expected_grads = torch.autograd.grad(expected, whole, dy)
    mine = [x[rows].npu().requires_grad_() for x in inputs]
    out = Exchange.apply(attend(*(Exchange.apply(x, True) for x in mine)),
                         False)
    grads = torch.autograd.grad(out, mine, dy[rows])
    for a, b in zip((out, *grads), (expected, *expected_grads)):
        assert torch.equal(a, b[rows])


def shards(rank, size):
    """FSDP2: weights in halves, gathered for each layer."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    torch.manual_seed(3)
    alone = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(),
                                torch.nn.Linear(16, 4)).npu()
    spread = copy.deepcopy(alone)
    mesh = init_device_mesh("npu", (size,))
    for layer in (spread[0], spread[2], spread):
        fully_shard(layer, mesh=mesh)
    local = spread[0].weight.to_local()
    assert local.is_npu and local.shape == (8, 8)
    x, y = torch.randn(8, 8).npu(), torch.randn(8, 4).npu()
    for model, rows in ((alone, slice(0, 8)),
                        (spread, slice(4 * rank, 4 * rank + 4))):
        optimizer = torch.optim.AdamW(model.parameters(), 0.1)
        for _ in range(3):
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(x[rows]), y[rows]).backward()
            optimizer.step()
    for a, b in zip(alone.parameters(), spread.parameters()):
        torch.testing.assert_close(a, b.full_tensor(), rtol=1e-4, atol=1e-5)


def model_trains(rank, size):
    """The model of training_test.py: 20 steps of AdamW under autocast, half
    of the rows in each process; losses are those of one CPU process."""
    import model as models
    torch.manual_seed(7)
    cpu = models.Model(models.sdpa)
    npu = copy.deepcopy(cpu).npu()
    for layer in npu.layers:
        layer.attention = models.fused
    spread = torch.nn.parallel.DistributedDataParallel(npu, device_ids=[0])
    expected = models.train(cpu, "cpu")
    got = torch.tensor(models.train(spread, "npu",
                                    part=slice(2 * rank, 2 * rank + 2)))
    got = got.npu()
    dist.all_reduce(got, op=dist.ReduceOp.AVG)
    bound = 64 * torch.finfo(torch.bfloat16).eps * expected[0]
    assert (got.cpu() - torch.tensor(expected)).abs().max() < bound


def test_collectives():
    run(collectives)


def test_neighbours():
    run(neighbours)


def test_heads_in_place_of_rows():
    run(ulysses)


def test_data_parallel_training():
    run(trains)


def test_sharded_training():
    run(shards)


def test_data_parallel_training_of_a_model():
    run(model_trains)
