# SPDX-License-Identifier: Apache-2.0
"""Calls of operators that wait for their results. A thread keeps what its last
calls were prepared with, so that the next one of the same shapes only says
where its arrays are: to prepare again, through ctypes, takes longer than to
attend to a short sequence."""

import contextlib
import ctypes
import os
import threading
import typing

from flashacl.library import (BYTES, Arguments, Memory, check, load,
                              plan_converted)

_MALLOC_HUGE_FIRST = 0  # aclrtMemMallocPolicy
# A workspace up to this is kept by its thread: fresh pages cost more than small
# calls do.
KEPT_BYTES = 64 << 20
# Calls that a thread keeps; the one that was run longest ago goes first. Each
# takes 10 KiB, and 0.3 KiB for each sequence: of more numbers in lists, or
# along the first axis, calls are not kept.
KEPT_CALLS = 64
KEPT_NUMBERS = 128


class _Workspace:
    """Device memory for a run."""

    def __init__(self, library, size):
        self.pointer, self.size, self.process = ctypes.c_void_p(), size, None
        self.free = library.aclrtFree
        check(library.aclrtMalloc(ctypes.byref(self.pointer), size,
                                  _MALLOC_HUGE_FIRST), "aclrtMalloc")
        self.process = os.getpid()

    def __del__(self, this_process=os.getpid):
        if self.process == this_process():
            self.free(self.pointer)


class _Thread:
    """A thread's stream, workspace and kept calls."""

    def __init__(self):
        self.process, self.workspace, self.calls = None, None, {}
        self.library = load()
        check(self.library.aclrtSetDevice(0), "aclrtSetDevice")
        stream = ctypes.c_void_p()
        check(self.library.aclrtCreateStream(ctypes.byref(stream)),
              "aclrtCreateStream")
        self.stream, self.process = stream.value, os.getpid()
        # Read once, as the library does.
        self.strict = os.environ.get("FLASHACL_STRICT") in ("1", "exit")

    def keep(self, key, prepared):
        self.calls[key] = prepared
        if len(self.calls) > KEPT_CALLS:
            for old in list(self.calls)[:-KEPT_CALLS]:
                self.calls.pop(old, None)

    def __del__(self, this_process=os.getpid):
        # A child has none of its parent's threads.
        if self.process == this_process():
            self.library.aclrtDestroyStream(self.stream)


class _Local(threading.local):
    mine = None


_local = _Local()
_this_process = os.getpid
_FIRST = ctypes.c_size_t(0)


def _thread():
    mine = _local.mine
    if mine is None or mine.process != os.getpid():
        mine = _local.mine = _Thread()
    return mine


class _Prepared:
    """An operator's executor and the tensors that it was made for: its thread
    runs it any number of times."""

    def __init__(self, mine, name, arguments):
        self.name, self.library, self.process = name, mine.library, None
        self.execute = getattr(mine.library, name)
        self.synchronize = mine.library.aclrtSynchronizeStream
        self.set_address = mine.library.aclSetTensorAddr
        self.arguments = Arguments(mine.library)
        try:
            size, executor = plan_converted(name, arguments, self.arguments)
        except BaseException:
            self.arguments.destroy()
            raise
        self.executor, self.process = executor.value, mine.process
        check(self.library.aclSetAclOpExecutorRepeatable(self.executor), name)
        self.size, self.stream = size, mine.stream
        self.told = (ctypes.c_uint64(size), executor,
                     ctypes.c_void_p(mine.stream))
        # Tensors, and where they are, in the order of memory in the arguments.
        self.handles = [ctypes.c_void_p(handle)
                        for handle, _ in self.arguments.tensors]
        self.at = tuple(memory.address for _, memory in self.arguments.tensors)

    def follow(self, moving, alive):
        """Lets move() take the addresses of these, in this order; the other
        memory among the arguments, whose owner is kept, stays where it is."""
        order = [id(memory) for _, memory in self.arguments.tensors]
        places = [order.index(id(memory)) for memory in moving]
        self.handles = [self.handles[place] for place in places]
        self.at = tuple(self.at[place] for place in places)
        self.alive = alive

    def is_small(self, arguments):
        """Whether it may be kept."""
        numbers = sum(len(one) for one in arguments if isinstance(one, list))
        _, first = self.arguments.tensors[0]
        return self.size <= KEPT_BYTES and \
            max([numbers, *first.shape[:1]]) <= KEPT_NUMBERS

    def move(self, addresses):
        """Says where the memory is that the next run is about: a tuple."""
        # A call that fails here is not kept, wherever its tensors then are.
        for handle, was, address in zip(self.handles, self.at, addresses):
            if address != was:
                # The tensor says which; the number is for others' libraries.
                status = self.set_address(self.told[1], _FIRST, handle, address)
                if status:
                    check(status, self.name)
        self.at = addresses

    def run(self, mine):
        # Nobody else's for the time of the run: a finaliser may call amid it.
        workspace, mine.workspace = mine.workspace, None
        if self.size and (workspace is None or workspace.size < self.size):
            workspace = None  # freed before there is another
            workspace = _Workspace(self.library, self.size)
        try:
            status = self.execute(self.size and workspace.pointer, *self.told)
            if status:
                check(status, self.name)
        finally:
            # Whatever happens: nothing of the run is left on the stream.
            status = self.synchronize(self.stream)
        if status:
            check(status, self.name)
        if workspace is not None and workspace.size <= KEPT_BYTES:
            mine.workspace = workspace

    def __del__(self, this_process=os.getpid):
        if self.process == this_process():
            self.library.aclDestroyAclOpExecutor(self.executor)
            self.arguments.destroy()


def _ranges(memories):
    """[first byte, end) of all memory, none overlapping."""
    found = []
    for memory in memories:
        if 0 not in memory.shape:
            last = sum((n - 1) * step
                       for n, step in zip(memory.shape, memory.strides))
            found.append((memory.address,
                          memory.address + (last + 1) * BYTES[memory.dtype]))
    merged = []
    for first, end in sorted(found):
        if merged and first < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((first, end))
    return merged


_registering = threading.Lock()


@contextlib.contextmanager
def _registered(memories):
    """For the time of a call: strict mode takes the host's memory for the
    device's only where that was announced, and by nobody else meanwhile."""
    library, device, done = load(), ctypes.c_void_p(), []
    with _registering:
        try:
            for first, end in _ranges(memories):
                pointer = ctypes.c_void_p(first)
                check(library.aclrtHostRegister(
                    pointer, ctypes.c_uint64(end - first), 0,
                    ctypes.byref(device)), "aclrtHostRegister")
                done.append(pointer)
            yield
        finally:
            for pointer in done:
                library.aclrtHostUnregister(pointer)


def _described(name, arguments):
    """(key, addresses of memory in the order of arguments). Planning reads no
    memory: all that it depends on is in the key."""
    key, addresses = [name], []
    for value in arguments:
        kind = type(value)
        if kind is Memory:
            addresses.append(value[0])
            value = value[1:]
        elif kind is list:
            if value and type(value[0]) is Memory:
                addresses += [one[0] for one in value]
                value = "memory", *(one[1:] for one in value)
            else:
                value = tuple(value)
        elif kind is float:
            value = value.hex()  # -0 is not 0
        elif kind is bool:
            value = str(value)  # C has it in another type than 0 and 1
        key.append(value)
    return tuple(key), addresses


class KeptAs(typing.NamedTuple):
    """How run_again() is to find this call: `key`, a name of the caller's and
    all that the call depends on but addresses; `moving`, the memory among its
    arguments of which run_again() is given the addresses, in this order;
    `alive`, what owns the other memory among them."""

    key: tuple
    moving: list
    alive: tuple


def run(name, *arguments, kept_as=None):
    """An operator by its C name, its arguments without the last two; returns
    when results are there. None is null, bytes are text, a list of integers or
    of memory is an array. kept_as: of a call that run_again() has not found."""
    if kept_as is None:
        key, addresses = _described(name, arguments)
        if run_again(key, tuple(addresses)):
            return
    prepared = run_once(name, *arguments)
    mine = _thread()
    # Strict mode has memory announced for each call alone.
    if mine.strict or not prepared.is_small(arguments):
        return
    if kept_as is not None:
        key = kept_as.key
        prepared.follow(kept_as.moving, kept_as.alive)
    mine.keep(key, prepared)


def run_once(name, *arguments):
    """The same for what is not asked for again; returns what was prepared."""
    mine = _thread()  # the first phase wants a device, too
    prepared = _Prepared(mine, name, arguments)
    with _registered([m for _, m in prepared.arguments.tensors]) \
            if mine.strict else contextlib.nullcontext():
        prepared.run(mine)
    return prepared


def run_again(key, addresses):
    """Runs what was kept under this key, with its moving memory at `addresses`,
    a tuple; false where nothing was."""
    mine = _local.mine
    if mine is None or mine.process != _this_process():
        mine = _thread()
    # Out of the table while it runs: what fails stays out, a finaliser that
    # calls meanwhile does not find it, and who comes back is the youngest.
    prepared = mine.calls.pop(key, None)
    if prepared is None:
        return False
    if prepared.at != addresses:
        prepared.move(addresses)
    prepared.run(mine)
    mine.calls[key] = prepared  # as many as before
    return True


def kept():
    """How many calls this thread keeps."""
    return len(_thread().calls)


def forget():
    """Lets this thread's next calls be prepared anew."""
    _thread().calls.clear()
