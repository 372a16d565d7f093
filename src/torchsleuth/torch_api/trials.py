"""What the process of a trial switches."""

from __future__ import annotations

import contextlib
import os

from torchsleuth.torch_api import attaching
from torchsleuth.torch_api.hook_table import DYNAMO_CACHE, EAGER_STANCE, PlaceMissing


def use_caches(folder: str) -> None:
    """From here on, this process keeps what it compiles below `folder`."""
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(folder, "inductor")
    os.environ["TRITON_CACHE_DIR"] = os.path.join(folder, "triton")
    # The one folder that torch works out at import; the others are read from the environment at each use.
    with contextlib.suppress(PlaceMissing):
        attaching.put(DYNAMO_CACHE, os.path.join(folder, "inductor", "dynamo"))


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
    attaching.read(EAGER_STANCE)("default" if on else "force_eager")


def forget_compilation() -> None:
    import torch._dynamo

    torch._dynamo.reset()
