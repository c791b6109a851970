# SPDX-License-Identifier: Apache-2.0
"""Without PyTorch, its adapter or the bridge there is nothing to test here."""

import importlib.util
import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
NEEDED = ("torch", "torch_npu", "flashacl")
MISSING = [n for n in NEEDED if importlib.util.find_spec(n) is None]
collect_ignore_glob = ["*_test.py"] if MISSING else []


def pytest_configure(config):
    if MISSING:
        print(f"not run: no {', '.join(MISSING)}; make torch-test installs")


@pytest.fixture(autouse=True, scope="session")
def elsewhere(tmp_path_factory):
    """The adapter asks for records of calls that fail as they run, which lie
    where the program was started."""
    before = os.getcwd()
    os.chdir(tmp_path_factory.mktemp("records"))
    yield
    os.chdir(before)


@pytest.fixture(autouse=True)
def seeded():
    """Each test draws the same numbers, whatever ran before it."""
    import torch
    torch.manual_seed(7)
