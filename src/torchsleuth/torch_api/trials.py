"""What the process of a trial switches."""

from __future__ import annotations

import importlib
import os


def cpp_compiler() -> str:
    """The C++ compiler that Inductor will use; raises where it finds none."""
    found: str = importlib.import_module("torch._inductor.cpp_builder").get_cpp_compiler()
    return found


def probe_vector_instructions() -> None:
    """Find out once what each compilation asks: it takes a C++ compilation, 8 s, and is remembered in the process."""
    try:
        from torch._inductor.cpu_vec_isa import pick_vec_isa
    except ImportError as error:
        print(f"not warmed: vector instructions: {error}")
    else:
        pick_vec_isa()


def use_caches(folder: str) -> None:
    """From here on, this process keeps what it compiles below `folder`."""
    package = importlib.import_module("torch._dynamo.package")
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(folder, "inductor")
    os.environ["TRITON_CACHE_DIR"] = os.path.join(folder, "triton")
    # The one folder that torch works out at import; the others are read from the environment at each use.
    precompiled = getattr(package, "DynamoCache", None)
    if precompiled is not None and hasattr(precompiled, "path_prefix"):
        precompiled.path_prefix = os.path.join(folder, "inductor", "dynamo")


def switch_compilation(on: bool) -> None:
    """The variable, which a script may look at; the config, which was read from it when torch was imported; and the
    stance, because with the config alone fullgraph=True complains that nothing was compiled.
    """
    import torch._dynamo

    if on:
        os.environ.pop("TORCH_COMPILE_DISABLE", None)
    else:
        os.environ["TORCH_COMPILE_DISABLE"] = "1"
    torch._dynamo.config.disable = not on
    torch.compiler.set_stance("default" if on else "force_eager")


def forget_compilation() -> None:
    import torch._dynamo

    torch._dynamo.reset()
