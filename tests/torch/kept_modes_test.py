# SPDX-License-Identifier: Apache-2.0
"""Processes in which every call of attention stays the adapter's, as somebody
watches what the library is asked for or wants the adapter's queue; and what
becomes of kept calls at the end of a process."""

import os
import subprocess
import sys

import pytest
import torch

# Before, no call is kept anywhere.
pytestmark = pytest.mark.skipif(
    torch.torch_version.TorchVersion(torch.__version__) < (2, 9),
    reason="PyTorch before 2.9: every call is the adapter's")

CALLS = """
import torch, torch_npu
from flashacl.bridge import _C
q, k, v = (torch.randn(1, 2, n, 16).npu() for n in (1, 9, 9))
def call():
    return torch_npu.npu_fusion_attention(q, k, v, 2, "BNSD", scale=0.25)[0]
outs = [call() for _ in range(4)]
torch.npu.synchronize()
weights = torch.softmax(0.25 * q.cpu() @ k.cpu().transpose(-1, -2), -1)
for out in outs:
    torch.testing.assert_close(out.cpu(), weights @ v.cpu())
print("kept", *_C.kept_counts())
"""


def run(program, tmp_path, **variables):
    """What it prints."""
    done = subprocess.run([sys.executable, "-c", program], check=False,
                          cwd=tmp_path, env={**os.environ, **variables},
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("variable, value", [
    ("FLASHACL_STRICT", "1"), ("FLASHACL_TRACE", "trace.txt"),
    ("FLASHACL_RECORD", "record"), ("TASK_QUEUE_ENABLE", "1"),
    ("ASCEND_LAUNCH_BLOCKING", "1")])
def test_the_adapter_makes_every_call(variable, value, tmp_path):
    if value == "record":
        (tmp_path / value).mkdir()
    assert run(CALLS, tmp_path, **{variable: value})[-1] == "kept 0 0"
    if value == "trace.txt":
        lines = (tmp_path / value).read_text().splitlines()
        assert sum(" plan " in line for line in lines) == 4
    if value == "record":
        assert len(list((tmp_path / value).rglob("calls/*.json"))) == 4


def test_kept_calls_end_with_their_process(tmp_path):
    """And with their threads; also while something is queued."""
    assert run(CALLS, tmp_path)[-1] == "kept 1 3"
    run(CALLS + """
import threading
thread = threading.Thread(target=lambda: [call() for _ in range(3)])
thread.start()
thread.join()
long = torch.randn(2, 8, 700, 64).npu()
torch_npu.npu_fusion_attention(long, long, long, 8, "BNSD")
call()
""", tmp_path)


def test_children_have_none_of_their_parents(tmp_path):
    lines = run(CALLS + """
import os
child = os.fork()
if child == 0:
    assert _C.kept_counts() == (0, 0)
    os._exit(0)
_, status = os.waitpid(child, 0)
assert status == 0
call()
print("kept", *_C.kept_counts())
""", tmp_path)
    assert lines[-2:] == ["kept 1 3", "kept 1 4"]
