# SPDX-License-Identifier: Apache-2.0
"""Whether PyTorch's dispatcher has anything to do for a call. A custom operator
costs it 20 us, as much as a short call; where it would only find the CPU's
implementation, that may be called without it."""

import torch
from torch.autograd import forward_ad

try:
    from torch._C import _dispatch_keys as _keys
    from torch._C import (_get_tracing_state, _len_torch_dispatch_stack,
                          _len_torch_function_stack)
    from torch.autograd import _profiler_enabled as _profiled
    forward_ad._current_level
    _number = torch._C.DispatchKeySet.raw_repr
except (ImportError, AttributeError):
    # PyTorch does not promise these; without them everything is dispatched.
    _keys = None

_is_compiling, _gradients = torch.compiler.is_compiling, torch.is_grad_enabled
PLAIN_TYPES = torch.Tensor, torch.nn.Parameter
_plain = ()  # numbers of sets of keys: of ordinary and of inference tensors


def _find_plain_keys():
    """Dispatch keys of tensors that are no more than memory on the CPU: not
    lazily negated, wrapped by a transform, sparse, or elsewhere."""
    global _plain
    found = []
    for inference in (False, True):
        with torch.inference_mode(inference):
            found.append(_number(_keys(torch.empty(0, device="cpu"))))
    _plain = tuple(found)


# What PyTorch has to do for a call.
NOTHING, GRADIENT, ALL = range(3)


def asked(*tensors):
    """Of an operator of these, each of which may be None: NOTHING; a GRADIENT
    to come, and nothing else; or what only the dispatcher knows how to do: ALL,
    where there is a compiler, a transform, a mode, a trace or a profile."""
    if _is_compiling() or _keys is None or \
            _len_torch_function_stack() or _len_torch_dispatch_stack() or \
            _get_tracing_state() is not None or _profiled() or \
            forward_ad._current_level >= 0:
        return ALL
    if not _plain:
        _find_plain_keys()
    answer, gradients = NOTHING, _gradients()
    for tensor in tensors:
        if tensor is None:
            continue
        if _number(_keys(tensor)) not in _plain or \
                type(tensor) not in PLAIN_TYPES:
            return ALL
        if gradients and tensor.requires_grad:
            answer = GRADIENT
    return answer


def is_needed(*tensors):
    """Whether PyTorch has anything to do."""
    return asked(*tensors) != NOTHING
