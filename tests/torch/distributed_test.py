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


def test_collectives():
    run(collectives)


def test_data_parallel_training():
    run(trains)
