"""Make a process warm: all that every compilation needs and no compilation changes, done once.

A module that another torch version lacks is skipped, which costs time, not correctness.  Nothing is compiled in the
process itself: first-use initialisation inside the compiler depends on the configs a script sets, and must happen after
them.  No parallel region is run (libgomp does not survive a fork after one), no backward (nor does autograd's engine),
and CUDA is started only in a process that will not fork.
"""

from __future__ import annotations

import gc
import importlib
import os
import shutil
import sys
import tempfile
from pathlib import Path

from torchsleuth import torch_api as compiler
from torchsleuth.judge.probed import HEADERS, warm_folder

# Only modules whose import registers nothing.  Inductor and Dynamo import device overrides, backends and pattern files
# themselves at first use; with 30 of those imported here first, what was generated for CUDA (torch 2.11, H200) was not
# valid Python, and without them it was.
_MODULES = (
    "torch",
    "torch._dynamo",
    "torch._inductor.compile_fx",
    "torch.export._trace",
    "torch.utils.cpp_extension",
    "sympy.tensor.tensor",
)


def warm_up(*, forks: bool, cuda: bool) -> None:
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(warm_folder())
    if forks:
        # Inductor asks at import whether CUDA is available.  By default that starts the CUDA runtime, after which no
        # forked child can use even Dynamo ("Cannot re-initialize CUDA"); this switch asks the driver's library instead.
        os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
    for name in _MODULES:
        try:
            importlib.import_module(name)
        except ImportError as error:
            print(f"not warmed: {name}: {error}")
    if not cuda:
        compiler.probe_vector_instructions()  # with CUDA, C++ is seldom generated; who needs to know asks then
    elif not forks and sys.modules["torch"].cuda.is_available():
        start_cuda()
    # What is warm is never garbage; without this a collection in a forked child would copy every page of it.
    gc.collect()
    gc.freeze()


def start_cuda() -> None:
    import torch

    torch.zeros(1, device="cuda")


def headers_built() -> bool:
    return _headers_mark().exists()


def build_headers() -> None:
    """Have Inductor precompile its C++ headers, which it keeps in one place for all processes of a user.

    Run in a child of its own.  Otherwise the first trial would do it, and if that is killed half way every later
    compilation of the user, in or out of this tool, meets a truncated header.
    """
    import torch

    folder = tempfile.mkdtemp(prefix="torchsleuth-")
    try:
        compiler.use_caches(folder)
        torch.compile(torch.neg)(torch.ones(2))
        _headers_mark().touch()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _headers_mark() -> Path:
    import torch

    return warm_folder() / f"{HEADERS}{torch.__version__}"
