# SPDX-License-Identifier: Apache-2.0
"""Builds the package flashacl. Its extension is compiled against the torch and
the torch_npu that are installed; without them there is none. scripts/wheel.sh
puts the library and the tool into it, and names the systems that they run on in
FLASHACL_WHEEL_TAG."""

import importlib.util
import os
import pathlib

import setuptools

HERE = pathlib.Path(__file__).resolve().parent
TAG = os.environ.get("FLASHACL_WHEEL_TAG")


def extensions():
    """The bridge, and how to build it; nothing where torch is missing."""
    adapter = importlib.util.find_spec("torch_npu")
    home = os.environ.get("ASCEND_HOME_PATH")
    if importlib.util.find_spec("torch") is None or adapter is None:
        return [], {}
    if home is None:
        raise SystemExit("setup: source FlashACL's set_env.sh before")
    # Importing torch would import the adapter, too.
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    from torch.utils import cpp_extension

    adapter = pathlib.Path(adapter.origin).parent
    sources = sorted((HERE / "csrc" / "bridge").glob("*.cc"))
    module = cpp_extension.CppExtension(
        "flashacl.bridge._C",
        [os.path.relpath(path, HERE) for path in sources],
        include_dirs=[str(HERE / "csrc")],
        library_dirs=[str(adapter / "lib"), os.path.join(home, "lib64")],
        libraries=["torch_npu", "ascendcl"],
        extra_compile_args=["-O2", "-g0", "-Wall", "-Wno-unknown-pragmas",
                            "-isystem", str(adapter / "include"),
                            "-isystem", os.path.join(home, "include")],
        extra_link_args=[f"-Wl,-rpath,{adapter / 'lib'}"])
    return [module], {"build_ext": cpp_extension.BuildExtension}


def portable():
    """A wheel for any Python 3 on systems of one kind."""
    from setuptools.command.bdist_wheel import bdist_wheel

    class Wheel(bdist_wheel):
        def get_tag(self):
            return "py3", "none", TAG
    return {"bdist_wheel": Wheel}


modules, commands = ([], portable()) if TAG else extensions()
files = {"flashacl": ["lib64/*.so", "bin/flashacl"]} if TAG else {}
setuptools.setup(
    packages=["flashacl", "flashacl.bridge", "flashacl.plain"],
    package_data=files,
    ext_modules=modules,
    cmdclass=commands)
