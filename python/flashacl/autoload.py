# SPDX-License-Identifier: Apache-2.0
"""What `import torch` calls where FlashACL is installed for Python."""

import importlib.util


def load():
    """Loads the bridge, if there is an adapter for it."""
    if importlib.util.find_spec("torch_npu") is not None:
        importlib.import_module("flashacl.bridge")
