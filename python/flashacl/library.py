# SPDX-License-Identifier: Apache-2.0
"""The C functions of FlashACL's library: found once, called with Python's
values and with memory described by `Memory`."""

import ctypes
import functools
import os
import pathlib
import re
import typing

NAME = "libascendcl.so"
INSIDE = pathlib.Path(__file__).parent / "lib64" / NAME  # what a wheel brings

# aclDataType of what arrays hold.
TYPES = {"float32": 0, "float16": 1, "int8": 2, "int32": 3, "uint8": 4,
         "int64": 9, "bool": 12, "bfloat16": 27}
BYTES = {"float32": 4, "float16": 2, "int8": 1, "int32": 4, "uint8": 1,
         "int64": 8, "bool": 1, "bfloat16": 2}
_ND = 2  # aclFormat

_HEADING = re.compile(
    r"^.*\(E[A-Z\d]{5}\):\s*|^E[A-Z\d]{5}: .*")


class Error(RuntimeError):
    """What the library refused; `status` is its number (docs/errors.md)."""

    def __init__(self, message, status):
        super().__init__(message)
        self.status = status


class Memory(typing.NamedTuple):
    """Elements in memory that somebody else owns. Strides count elements; the
    type is a name of TYPES."""

    address: int
    shape: tuple
    strides: tuple
    dtype: str


def contiguous(shape):
    """The strides of rows that lie side by side."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def _candidates():
    yield NAME, os.RTLD_NOLOAD | os.RTLD_NOW  # the one that the adapter uses
    if INSIDE.exists():
        yield str(INSIDE), os.RTLD_NOW
    home = os.environ.get("ASCEND_HOME_PATH")
    if home:
        yield os.path.join(home, "lib64", NAME), os.RTLD_NOW
    yield NAME, os.RTLD_NOW


@functools.lru_cache(None)
def load():
    """The library: that of this process, of this package, or of the prefix
    that set_env.sh names, in this order."""
    for name, mode in _candidates():
        try:
            library = ctypes.CDLL(name, mode)
        except OSError:
            continue
        # CANN has its operators in another library, which needs an NPU.
        if hasattr(library, "aclnnFlashAttentionScoreV3"):
            return _declared(library)
    raise ImportError(
        "flashacl: libascendcl.so of FlashACL is not found: install the wheel, "
        "or source set_env.sh of an installed FlashACL")


def _declared(library):
    library.aclGetRecentErrMsg.restype = ctypes.c_char_p
    for name in ("aclCreateTensor", "aclCreateTensorList", "aclCreateIntArray"):
        getattr(library, name).restype = ctypes.c_void_p
    integer, pointer = ctypes.c_int64, ctypes.c_void_p
    library.aclCreateTensor.argtypes = [
        pointer, ctypes.c_uint64, ctypes.c_int, pointer, integer, ctypes.c_int,
        pointer, ctypes.c_uint64, pointer]
    library.aclCreateTensorList.argtypes = [pointer, ctypes.c_uint64]
    library.aclCreateIntArray.argtypes = [pointer, ctypes.c_uint64]
    for name in ("aclDestroyTensor", "aclDestroyTensorList",
                 "aclDestroyIntArray", "aclrtDestroyStream", "aclrtFree",
                 "aclrtSynchronizeStream", "aclDestroyAclOpExecutor",
                 "aclSetAclOpExecutorRepeatable"):
        getattr(library, name).argtypes = [pointer]
    library.aclSetTensorAddr.argtypes = [pointer, ctypes.c_size_t, pointer,
                                         pointer]
    library.aclrtMalloc.argtypes = [pointer, ctypes.c_size_t, ctypes.c_int]
    return library


def check(status, what):
    """Raises what the library says of a status that is not 0."""
    if status == 0:
        return
    message = load().aclGetRecentErrMsg()
    text = message.decode(errors="replace") if message else ""
    # Without headings, which number and date the message for logs.
    lines = [_HEADING.sub("", line).strip() for line in text.splitlines()]
    text = " ".join(line for line in lines if line)
    raise Error(text or f"{what} failed with {status}", status)


class Arguments:
    """C's arguments of Python's; `tensors` are (handle, memory) of all memory
    among them."""

    def __init__(self, library):
        self.library, self.handles, self.tensors = library, [], []

    def tensor(self, memory):
        dims = len(memory.shape)
        numbers = ctypes.c_int64 * dims
        shape, strides = numbers(*memory.shape), numbers(*memory.strides)
        handle = self.library.aclCreateTensor(
            shape, dims, TYPES[memory.dtype], strides, 0, _ND, shape, dims,
            memory.address)
        if not handle:
            check(-1, "aclCreateTensor")
        self.tensors.append((handle, memory))
        return handle

    def convert(self, value):
        if isinstance(value, Memory):
            handle = self.tensor(value)
            self.handles.append((self.library.aclDestroyTensor, handle))
            return ctypes.c_void_p(handle)
        if value is None or isinstance(value, bytes):
            return value
        if isinstance(value, bool):
            return ctypes.c_bool(value)
        if isinstance(value, float):
            return ctypes.c_double(value)
        if isinstance(value, int):
            return ctypes.c_int64(value)
        return self.convert_list(value)

    def convert_list(self, values):
        if values and isinstance(values[0], Memory):
            tensors = (ctypes.c_void_p * len(values))(
                *(self.tensor(value) for value in values))
            handle = self.library.aclCreateTensorList(tensors, len(values))
            destroy = self.library.aclDestroyTensorList
        else:
            numbers = (ctypes.c_int64 * len(values))(*values)
            handle = self.library.aclCreateIntArray(numbers, len(values))
            destroy = self.library.aclDestroyIntArray
        self.handles.append((destroy, handle))
        return ctypes.c_void_p(handle)

    def destroy(self):
        for destroy, handle in self.handles:
            destroy(handle)
        self.handles = []


def plan_converted(name, arguments, converted):
    """plan() with arguments that `converted` keeps for the caller."""
    size, executor = ctypes.c_uint64(), ctypes.c_void_p()
    check(getattr(converted.library, name + "GetWorkspaceSize")(
        *[converted.convert(value) for value in arguments],
        ctypes.byref(size), ctypes.byref(executor)), name)
    return size.value, executor


def plan(name, arguments):
    """The first phase of an operator: (bytes of workspace, executor)."""
    converted = Arguments(load())
    try:
        return plan_converted(name, arguments, converted)
    finally:
        converted.destroy()


def launch(name, workspace, size, executor, stream):
    """The second phase, with addresses; the stream runs it later."""
    check(getattr(load(), name)(ctypes.c_void_p(workspace),
                                ctypes.c_uint64(size), executor,
                                ctypes.c_void_p(stream)), name)
