# SPDX-License-Identifier: Apache-2.0
"""Lets Ascend's PyTorch adapter, torch_npu, run on FlashACL: attention on
FlashACL's kernels, every other operator on PyTorch's CPU kernels, on the same
memory. Importing it is enough; where it is installed, `import torch` does."""

import os

from flashacl import threads

# The adapter queues launches on a thread of its own, where errors arrive late:
# each operator runs when it is called. Read when the adapter is first used.
os.environ.setdefault("TASK_QUEUE_ENABLE", "0")
# Other operators run on device memory, which strict mode closes to all others.
# Read when device memory is first allocated.
os.environ.setdefault("FLASHACL_HOST_ACCESS", "1")

_installed = False


def install():
    """Replaces the kernels of operators that FlashACL does not have."""
    global _installed
    if _installed:
        return
    _installed = True  # importing torch may come here again
    import torch  # noqa: F401 - the extension needs its libraries
    import torch_npu  # noqa: F401

    from flashacl.bridge import _C, collectives, companions, ring

    threads.follow()
    _C.install()
    companions.install()
    ring.install()
    collectives.install()


def describe():
    """What ran where since the start or the last reset: {operator: calls} by
    the way in which the bridge runs it."""
    from flashacl.bridge import _C, companions

    ways = {}
    for name, way, calls in _C.counts():
        if calls:
            ways.setdefault(way, {})[name] = calls
    if any(companions.calls.values()):
        ways["companions"] = {n: c for n, c in companions.calls.items() if c}
    return ways


def reset():
    """Forgets what describe() has counted."""
    from flashacl.bridge import _C, companions

    _C.reset_counts()
    companions.calls.clear()


install()
