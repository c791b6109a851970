# SPDX-License-Identifier: Apache-2.0
"""Arrays as memory, without a copy: PyTorch's CPU tensors, NumPy's arrays, and
what speaks DLPack; and new arrays for results."""

import math
import sys

from flashacl.library import TYPES, Memory, contiguous
from flashacl.plain import dlpack


def is_tensor(array):
    """Whether it is PyTorch's, which has not to be imported for the answer."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(array, torch.Tensor)


def check_device(tensor, name):
    """Host memory, or what only has a shape."""
    if tensor.is_cpu:
        return
    if tensor.device.type != "meta":
        raise ValueError(
            f"{name}: is on {tensor.device}, expected a tensor on the CPU; "
            "tensors on npu go to torch_npu's operators")


# {a library's type: its name in TYPES}; to make a name takes a microsecond.
_names = {}


def _name_of(dtype, name):
    """`name` is the argument's."""
    found = _names.get(dtype)
    if found is None:
        found = getattr(dtype, "name", None) or \
            str(dtype).removeprefix("torch.")
        if found not in TYPES:
            raise ValueError(f"{name}: has type {found}, expected one of "
                             f"{', '.join(TYPES)}")
        if not getattr(dtype, "isnative", True):
            raise ValueError(f"{name}: has type {dtype!r}, which is not in "
                             "this machine's order of bytes")
        _names[dtype] = found
    return found


def _of_tensor(tensor, name):
    check_device(tensor, name)
    return Memory(tensor.data_ptr(), tuple(tensor.shape), tensor.stride(),
                  _name_of(tensor.dtype, name))


def _of_numpy(array, interface, name):
    size, strides = array.itemsize, array.strides
    if any(step % size for step in strides):
        raise ValueError(f"{name}: strides {strides} are not multiples "
                         f"of its elements' {size} bytes")
    return Memory(interface["data"][0], array.shape,
                  tuple([step // size for step in strides]),
                  _name_of(array.dtype, name))


def memory_of(array, name):
    """(memory, what to keep until it was read) of an argument."""
    if isinstance(array, dlpack.Block):
        return array.memory(), array
    if is_tensor(array):
        return _of_tensor(array, name), array
    interface = getattr(array, "__array_interface__", None)
    if interface is not None:
        if not hasattr(array, "itemsize"):
            raise ValueError(f"{name}: a {type(array).__name__} has no memory "
                             "that can be read without a copy")
        return _of_numpy(array, interface, name), array
    if hasattr(array, "__dlpack__"):
        return dlpack.memory_of(array, name)
    raise TypeError(f"{name}: a {type(array).__name__}, expected an array "
                    "of NumPy, a tensor of PyTorch or anything with "
                    "__dlpack__")


def new(shape, dtype):
    """An array for a result: NumPy's, or a Block where NumPy lacks the type
    and ml_dtypes is not there."""
    import numpy
    if dtype != "bfloat16":
        return numpy.empty(shape, dtype)
    ml_dtypes = sys.modules.get("ml_dtypes")
    if ml_dtypes is not None:
        return numpy.empty(shape, ml_dtypes.bfloat16)
    return dlpack.Block(shape, dtype)


def like(result, argument):
    """A result as an array of the library that an argument came from, where
    that library says how to make one."""
    if hasattr(argument, "__array_interface__"):
        return result
    namespace = getattr(argument, "__array_namespace__", None)
    if namespace is None or not hasattr(result, "__dlpack__"):
        return result
    return namespace().from_dlpack(result)


def integers(array, name):
    """A list of Python's, of anything that holds integers."""
    if array is None:
        return None
    if hasattr(array, "tolist"):
        values = array.tolist()
    elif hasattr(array, "__dlpack__"):
        import numpy
        values = numpy.from_dlpack(array).tolist()
    else:
        values = list(array)
    if any(not isinstance(value, int) for value in values):
        raise TypeError(f"{name}: {values}, expected integers in one row")
    return values


def ends(ends_q, ends_k):
    """Where sequences end, as lists; None where there is one length."""
    return None if ends_q is None else (integers(ends_q, "cu_seqlens_q"),
                                        integers(ends_k, "cu_seqlens_k"))


def elements(memory):
    return math.prod(memory.shape)


def flattened(memory, name, first):
    """The same memory with its axes from `first` on as one."""
    tail = memory.shape[first:]
    if memory.strides[first:] != contiguous(tail) and elements(memory) > 0:
        raise ValueError(f"{name}: its last {len(tail)} axes must lie side by "
                         f"side in memory, and have strides "
                         f"{memory.strides[first:]}")
    return memory._replace(shape=(*memory.shape[:first], math.prod(tail)),
                           strides=(*memory.strides[:first], 1))
