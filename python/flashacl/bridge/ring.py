# SPDX-License-Identifier: Apache-2.0
"""npu_ring_attention_update, which adapters before 2.10 do not have: the
library's aclnnRingAttentionUpdate(V2) on the current stream, under the schema
of later adapters."""

import torch

from flashacl import library

_SCHEMA = (
    "npu_ring_attention_update(Tensor prev_attn_out, Tensor prev_softmax_max, "
    "Tensor prev_softmax_sum, Tensor cur_attn_out, Tensor cur_softmax_max, "
    "Tensor cur_softmax_sum, *, Tensor? actual_seq_qlen=None, "
    'str input_layout="SBH", str input_softmax_layout="") '
    "-> (Tensor, Tensor, Tensor)")
_libraries = []


def _memory(tensor):
    return None if tensor is None else library.Memory(
        tensor.data_ptr(), tuple(tensor.shape), tensor.stride(),
        str(tensor.dtype).removeprefix("torch."))


def _results(out, most, total):
    return tuple(torch.empty(x.shape, dtype=x.dtype, device=x.device)
                 for x in (out, most, total))


def _with_zero(ends):
    """Where sequences end, beginning with 0, as the library wants them."""
    if ends is None or ends.numel() == 0:
        return None
    if ends[0].item() == 0:
        return ends
    return torch.cat([torch.zeros_like(ends[:1]), ends])


def _update(prev_attn_out, prev_softmax_max, prev_softmax_sum, cur_attn_out,
            cur_softmax_max, cur_softmax_sum, *, actual_seq_qlen=None,
            input_layout="SBH", input_softmax_layout=""):
    inputs = (prev_attn_out, prev_softmax_max, prev_softmax_sum, cur_attn_out,
              cur_softmax_max, cur_softmax_sum, _with_zero(actual_seq_qlen))
    results = _results(*inputs[:3])
    device = prev_attn_out.device
    with torch.npu.device(device):
        name = "aclnnRingAttentionUpdateV2"
        size, executor = library.plan(
            name, (*map(_memory, inputs), input_layout.encode(),
                   input_softmax_layout.encode(), *map(_memory, results)))
        workspace = torch.empty(size, dtype=torch.uint8, device=device)
        # Blocks are reused in the order of the stream that this runs on.
        library.launch(name, workspace.data_ptr() if size else None, size,
                       executor, torch.npu.current_stream().npu_stream)
    return results


def _shapes(prev_attn_out, prev_softmax_max, prev_softmax_sum, *_, **__):
    return _results(prev_attn_out, prev_softmax_max, prev_softmax_sum)


def install():
    """Unless the adapter has it."""
    import torch_npu
    if hasattr(torch_npu, "npu_ring_attention_update"):
        return
    fragment = torch.library.Library("npu", "FRAGMENT")
    fragment.define(_SCHEMA)
    fragment.impl("npu_ring_attention_update", _update, "PrivateUse1")
    fragment.impl("npu_ring_attention_update", _shapes, "Meta")
    _libraries.append(fragment)
    torch_npu.npu_ring_attention_update = \
        torch.ops.npu.npu_ring_attention_update
