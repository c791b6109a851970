# SPDX-License-Identifier: Apache-2.0
"""What `import torch` calls where FlashACL is installed for Python."""

import importlib.util
import pathlib


def load():
    """Loads the bridge, if it was built and there is an adapter for it."""
    folder = pathlib.Path(__file__).parent / "bridge"
    if any(folder.glob("_C*.so")) and \
            importlib.util.find_spec("torch_npu") is not None:
        importlib.import_module("flashacl.bridge")
