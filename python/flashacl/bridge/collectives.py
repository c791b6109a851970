# SPDX-License-Identifier: Apache-2.0
"""The backend "hccl" of torch.distributed: PyTorch's Gloo, on the memory of
the npu tensors."""

import torch.distributed as dist


def _create(options, _):
    from flashacl.bridge import _C
    gloo = dist.ProcessGroupGloo(options.store, options.group_rank,
                                 options.group_size, timeout=options.timeout)
    return _C.collectives(gloo)


def _batch_isend_irecv(operations):
    """Starts them one by one; the adapter's version asks its own backend."""
    works = [op.op(op.tensor, op.peer, group=op.group, tag=op.tag)
             for op in operations]
    return [work for work in works if work is not None]


def install():
    """Takes the place of the adapter's, whose library has no collectives."""
    if dist.is_available() and "HCCL" in dist.Backend._plugins:
        dist.Backend._plugins["HCCL"] = dist.Backend._BackendPlugin(
            _create, True)
        dist.batch_isend_irecv = _batch_isend_irecv
        dist.distributed_c10d.batch_isend_irecv = _batch_isend_irecv
