# SPDX-License-Identifier: Apache-2.0
"""DLPack without a library that speaks it: memory of other producers is read
where it lies, and memory of ours is handed on."""

import ctypes

from flashacl.library import BYTES, Memory, contiguous

CPU = 1  # kDLCPU
# (kDLDataTypeCode, bits) of our types.
_CODES = {"float32": (2, 32), "float16": (2, 16), "bfloat16": (4, 16),
          "int8": (0, 8), "int32": (0, 32), "int64": (0, 64), "uint8": (1, 8),
          "bool": (6, 8)}
_NAMES = {code: name for name, code in _CODES.items()}


class _Tensor(ctypes.Structure):
    """DLTensor; strides may be null, and count elements."""

    _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int32),
                ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64)]


class _Managed(ctypes.Structure):
    """DLManagedTensor: what a capsule named "dltensor" holds."""


_DELETER = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Managed))
_Managed._fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p),
                     ("deleter", _DELETER)]

_python = ctypes.pythonapi
_python.PyCapsule_GetPointer.restype = ctypes.c_void_p
_python.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_DESTRUCTOR = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_python.PyCapsule_New.restype = ctypes.py_object
_python.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p,
                                  _DESTRUCTOR]
_python.PyCapsule_IsValid.argtypes = [ctypes.c_void_p, ctypes.c_char_p]


def memory_of(array, name):
    """(memory, capsule): the memory is valid while the capsule lives."""
    device = array.__dlpack_device__()[0]
    if device != CPU:
        raise ValueError(f"{name}: is on DLPack's device {device}, expected "
                         f"host memory, {CPU}")
    capsule = array.__dlpack__()
    managed = ctypes.cast(
        _python.PyCapsule_GetPointer(capsule, b"dltensor"),
        ctypes.POINTER(_Managed)).contents
    tensor = managed.tensor
    dtype = _NAMES.get((tensor.code, tensor.bits))
    if dtype is None or tensor.lanes != 1:
        raise ValueError(f"{name}: has DLPack's type {tensor.code} of "
                         f"{tensor.bits} bits, expected one of "
                         f"{', '.join(_CODES)}")
    shape = tuple(tensor.shape[:tensor.ndim])
    strides = tuple(tensor.strides[:tensor.ndim]) if tensor.strides else \
        contiguous(shape)
    address = (tensor.data or 0) + tensor.byte_offset
    # The capsule keeps its destructor, which frees what nobody has consumed.
    return Memory(address, shape, strides, dtype), capsule


# {address of a _Managed: what it must keep alive}
_exported = {}


@_DELETER
def _delete(managed):
    _exported.pop(ctypes.addressof(managed.contents), None)


@_DESTRUCTOR
def _drop(capsule):
    """A capsule that nobody has consumed; consumers rename it."""
    if _python.PyCapsule_IsValid(capsule, b"dltensor"):
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        address = ctypes.CFUNCTYPE(
            ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
                ctypes.cast(pointer, ctypes.c_void_p).value)(
                    capsule, b"dltensor")
        _exported.pop(address, None)


class Block:
    """Memory of a result whose type NumPy does not have: any consumer of
    DLPack takes it without a copy."""

    def __init__(self, shape, dtype):
        self.shape, self.dtype = tuple(shape), dtype
        size = BYTES[dtype]
        for one in self.shape:
            size *= one
        self._bytes = (ctypes.c_char * max(size, 1))()

    def memory(self):
        return Memory(ctypes.addressof(self._bytes), self.shape,
                      contiguous(self.shape), self.dtype)

    def fill(self, contents):
        ctypes.memmove(self._bytes, contents, len(contents))

    def __dlpack_device__(self):
        return CPU, 0

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None,
                   copy=None):
        if dl_device not in (None, (CPU, 0)) or copy:
            raise BufferError("flashacl: results are handed on in host memory, "
                              "without a copy")
        dims = len(self.shape)
        numbers = ctypes.c_int64 * max(dims, 1)
        shape = numbers(*self.shape)
        strides = numbers(*contiguous(self.shape))
        code, bits = _CODES[self.dtype]
        pointer = ctypes.POINTER(ctypes.c_int64)
        managed = _Managed(
            _Tensor(ctypes.addressof(self._bytes), CPU, 0, dims, code, bits, 1,
                    ctypes.cast(shape, pointer), ctypes.cast(strides, pointer),
                    0), None, _delete)
        address = ctypes.addressof(managed)
        _exported[address] = (managed, shape, strides, self._bytes)
        return _python.PyCapsule_New(address, b"dltensor", _drop)
