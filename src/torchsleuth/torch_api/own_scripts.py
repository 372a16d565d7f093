"""Scripts that torch's own tools wrote."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torchsleuth.torch_api import attaching
from torchsleuth.torch_api.hook_table import RUN_REPRO


def read_repro_inputs(load_args: Callable[[Any], None], folder: str | None) -> list[Any]:
    """What the `load_args` of such a script describes: values from `folder`, or made."""
    from torch._dynamo.debug_utils import InputReader

    reader = InputReader(save_dir=folder)
    load_args(reader)
    return list(reader.args)


def replace_run_repro(function: Callable[..., None]) -> None:
    """Such a script imports `run_repro` when it is run: it then gets `function`."""
    for hook in RUN_REPRO:
        attaching.put(hook, function)


def flat(value: Any) -> list[Any]:
    """The leaves of nested outputs."""
    import torch.utils._pytree as pytree

    return list(pytree.tree_leaves(value))
