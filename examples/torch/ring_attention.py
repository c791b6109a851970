# SPDX-License-Identifier: Apache-2.0
"""Trains on one long sequence that N processes share: each holds its part of
the rows, and keys and values travel around a ring. Written as Megatron and
MindSpeed do: the sequence in 2 N chunks of which process r has two, r and
2 N - 1 - r, so that all have the same share of a causal mask; parts merged by
npu_ring_attention_update; gradients by npu_fusion_attention_grad with the
merged statistics.

  torchrun --nproc-per-node 4 examples/torch/ring_attention.py --length 8192
  torchrun --nnodes 2 --rdzv-backend c10d --rdzv-endpoint HOST:PORT ...

Without torchrun it starts two processes. --check compares with the same model
on the whole sequence in each process."""

import argparse
import functools
import os
import pathlib
import time

import torch
import torch.distributed as dist
import torch_npu
from torch import nn

HEADS, DIM, HIDDEN, WORDS, LAYERS = 4, 64, 256, 64, 2
SCALE = DIM ** -0.5
waited, sent = 0.0, 0  # seconds waiting for others, and bytes sent to them
copying_threads = set()


class Ring:
    """The processes in a circle: what one sends, the next receives."""

    def __init__(self):
        self.rank, self.size = dist.get_rank(), dist.get_world_size()

    def shift(self, tensor):
        """Starts sending `tensor` on; returns (what arrives, works)."""
        if self.size == 1:
            return tensor, []
        global sent
        sent += tensor.nbytes
        arriving = torch.empty_like(tensor)
        torch.npu.synchronize()
        works = dist.batch_isend_irecv([
            dist.P2POp(dist.isend, tensor, (self.rank + 1) % self.size),
            dist.P2POp(dist.irecv, arriving, (self.rank - 1) % self.size)])
        return arriving, works

    @staticmethod
    def wait(works):
        global waited
        torch.npu.synchronize()  # time of attention is not time of waiting
        start = time.perf_counter()
        for work in works:
            work.wait()
        waited += time.perf_counter() - start


@functools.lru_cache(None)
def causal_mask():
    return torch.ones(2048, 2048, dtype=torch.bool, device="npu").triu(1)


def parts(step, rank, rows):
    """(rows of q, rows of k) that see one another when keys of the process
    `step` before have arrived; the first step's are causal."""
    half, whole = rows // 2, slice(0, rows)
    if step == 0:
        return whole, whole
    if step <= rank:  # keys of an earlier process: of its first chunk
        return whole, slice(0, half)
    return slice(half, rows), whole


class RingAttention(torch.autograd.Function):
    """Causal attention of (S, B, N * D), layout SBH, to the keys of all."""

    @staticmethod
    def forward(ctx, q, k, v):
        ring, mask = Ring(), causal_mask()
        kv = torch.stack([k, v])
        total = None
        for step in range(ring.size):
            last = step + 1 == ring.size
            arriving, works = (None, []) if last else ring.shift(kv)
            rows, keys = parts(step, ring.rank, q.shape[0])
            how = {"atten_mask": mask, "sparse_mode": 3} if step == 0 else {}
            part = torch_npu.npu_fusion_attention(
                q[rows], kv[0][keys], kv[1][keys], HEADS, "SBH", scale=SCALE,
                **how)[:3]
            total = part if step == 0 else merge(total, part, rows)
            ring.wait(works)
            kv = arriving
        ctx.save_for_backward(q, k, v, *total)
        return total[0]

    @staticmethod
    def backward(ctx, dy):
        q, k, v, out, most, total = ctx.saved_tensors
        ring, mask = Ring(), causal_mask()
        kv, dq = torch.stack([k, v]), torch.zeros_like(q, dtype=torch.float32)
        arriving_grads, grad_works = None, []
        for step in range(ring.size):
            last = step + 1 == ring.size
            arriving, works = (None, []) if last else ring.shift(kv)
            rows, keys = parts(step, ring.rank, q.shape[0])
            how = {"atten_mask": mask, "sparse_mode": 3} if step == 0 else {}
            part_dq, part_dk, part_dv = torch_npu.npu_fusion_attention_grad(
                q[rows], kv[0][keys], kv[1][keys], dy[rows].contiguous(), HEADS,
                "SBH", softmax_max=most[:, :, rows].contiguous(),
                softmax_sum=total[:, :, rows].contiguous(),
                attention_in=out[rows].contiguous(), scale_value=SCALE,
                **how)[:3]
            dq[rows] += part_dq
            # Gradients of keys travel with them, and come home in the end.
            ring.wait(grad_works)
            grads = torch.zeros_like(kv, dtype=torch.float32) if step == 0 \
                else arriving_grads
            grads[0][keys] += part_dk
            grads[1][keys] += part_dv
            arriving_grads, grad_works = ring.shift(grads)
            ring.wait(works)
            kv = arriving
        ring.wait(grad_works)
        dk, dv = arriving_grads.to(k.dtype)
        return dq.to(q.dtype), dk, dv


def merge(total, part, rows):
    """Attention to more keys, of all rows or of the later half."""
    if rows.start == 0:
        return torch_npu.npu_ring_attention_update(*total, *part)
    out, most, sums = total
    later = torch_npu.npu_ring_attention_update(
        out[rows], most[:, :, rows], sums[:, :, rows], *part)
    return (torch.cat([out[:rows.start], later[0]]),
            *(torch.cat([a[:, :, :rows.start], b], 2)
              for a, b in zip((most, sums), later[1:])))


def whole_attention(q, k, v):
    return torch_npu.npu_fusion_attention(
        q, k, v, HEADS, "SBH", atten_mask=causal_mask(), scale=SCALE,
        sparse_mode=3)[0]


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(HIDDEN) for _ in range(2)])
        self.qkv = nn.Linear(HIDDEN, 3 * HEADS * DIM)
        self.out = nn.Linear(HEADS * DIM, HIDDEN)
        self.mlp = nn.Sequential(nn.Linear(HIDDEN, 4 * HIDDEN), nn.GELU(),
                                 nn.Linear(4 * HIDDEN, HIDDEN))

    def forward(self, x, attention):
        q, k, v = self.qkv(self.norms[0](x)).chunk(3, -1)
        x = x + self.out(attention(*(t.contiguous() for t in (q, k, v))))
        return x + self.mlp(self.norms[1](x))


class Model(nn.Module):
    """Of tokens (S, B) at places that need not be neighbours."""

    def __init__(self, length):
        super().__init__()
        self.words = nn.Embedding(WORDS, HIDDEN)
        self.places = nn.Embedding(length, HIDDEN)
        self.layers = nn.ModuleList([Layer() for _ in range(LAYERS)])
        self.head = nn.Linear(HIDDEN, WORDS)

    def loss(self, tokens, targets, places, attention):
        """The sum over these tokens, divided by those of all processes."""
        x = self.words(tokens) + self.places(places)[:, None]
        for layer in self.layers:
            x = layer(x, attention)
        return nn.functional.cross_entropy(
            self.head(x).flatten(0, 1), targets.flatten(),
            reduction="sum") / self.places.num_embeddings


def mine(length):
    """The places of this process: two chunks."""
    rank, size = dist.get_rank(), dist.get_world_size()
    chunks = torch.arange(length, device="npu").chunk(2 * size)
    return torch.cat([chunks[rank], chunks[2 * size - 1 - rank]])


def reduce_gradients(model):
    """Every process has the gradients of its own loss: their sum."""
    global waited
    torch.npu.synchronize()
    start = time.perf_counter()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
    waited += time.perf_counter() - start


def compare(model, text, loss):
    """With the whole sequence in one process."""
    split = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    whole = model.loss(text[:-1], text[1:], torch.arange(
        text.shape[0] - 1, device="npu"), whole_attention)
    whole.backward()
    worst = max(((a - p.grad).abs().max() / p.grad.abs().max()).item()
                for a, p in zip(split, model.parameters()))
    for a, p in zip(split, model.parameters()):
        p.grad.copy_(a)
    # Sums of float32 in another order.
    assert worst < 1e-4 and abs(loss - whole.item()) < 1e-4 * loss
    return worst


def threads():
    return set(os.listdir("/proc/self/task"))


def exchanged():
    """Seconds of processors that the group's threads, which copy from process
    to process, have taken so far."""
    ticks = 0
    for thread in copying_threads:
        fields = pathlib.Path("/proc/self/task", thread, "stat").read_text()
        ticks += sum(int(x) for x in fields.rsplit(")", 1)[1].split()[11:13])
    return ticks / os.sysconf("SC_CLK_TCK")


def device_bytes():
    """What this process has of its device; the adapter's allocator keeps what
    it once had."""
    free, total = torch.npu.mem_get_info()
    return total - free


def train(length, steps, check):
    global waited, sent
    torch.npu.set_device(0)
    torch.manual_seed(0)
    model = Model(length).npu()
    text = torch.randint(0, 4, (length + 1, 1)).cumsum(0).remainder(WORDS).npu()
    places = mine(length)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    first = dist.get_rank() == 0
    for step in range(steps):
        dist.barrier()
        torch.npu.reset_peak_memory_stats()
        before, waited, sent = torch.npu.memory_allocated(), 0.0, 0
        start, busy, copying = \
            time.perf_counter(), time.process_time(), exchanged()
        optimizer.zero_grad()
        loss = model.loss(text[places], text[places + 1], places,
                          RingAttention.apply)
        loss.backward()
        reduce_gradients(model)
        copying = exchanged() - copying
        busy = time.process_time() - busy - copying
        seconds = time.perf_counter() - start
        peak = torch.npu.max_memory_allocated() - before
        mean = loss.detach()
        dist.all_reduce(mean)
        if check:
            worst = compare(model, text, mean.item())
        optimizer.step()
        if first:
            print(f"step {step}: loss {mean.item():.3f}, {seconds:.2f} s, of "
                  f"which {waited:.2f} s waiting; processors: {busy:.2f} s "
                  f"computing, {copying:.2f} s exchanging; "
                  f"{peak / 2**20:.1f} MiB at most, "
                  f"{device_bytes() / 2**20:.1f} MiB of the device, "
                  f"{sent / 2**20:.1f} MiB sent"
                  + (f"; gradients differ by {worst:.1e}" if check else ""),
                  flush=True)


def options():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--check", action="store_true")
    return parser.parse_args()


def start(rank=None, size=None, port=None):
    """A process; alone it is one of `size` on this machine."""
    chosen = options()
    if rank is not None:
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port),
                          RANK=str(rank), WORLD_SIZE=str(size))
        chosen.check = True
    before = threads()
    dist.init_process_group("hccl")
    copying_threads.update(threads() - before)
    try:
        if chosen.length % (2 * dist.get_world_size()) != 0:
            raise SystemExit("--length: not a multiple of twice the processes")
        train(chosen.length, chosen.steps, chosen.check)
    finally:
        dist.destroy_process_group()


def main():
    if "RANK" in os.environ:
        return start()
    import socket
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    torch.multiprocessing.spawn(start, (2, port), nprocs=2)


if __name__ == "__main__":
    main()
