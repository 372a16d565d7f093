"""The debugging backends by name; `torchsleuth.backend_table` says what each is for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch.overrides import TorchFunctionMode

from torchsleuth.backends.nudging import NudgedAsAsked
from torchsleuth.backends.operator_mode import OperatorMode
from torchsleuth.backends.recipe import Recipe


class PassOn(TorchFunctionMode):
    """What `sleuth_function_modes` has when it is given none: each call goes through it, unchanged."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        return func(*args, **(kwargs or {}))


RECIPES: dict[str, Recipe] = {
    "sleuth_eager": Recipe(),
    "sleuth_eager_marked": Recipe(marked=True),
    "sleuth_schema": Recipe(checks=("schema",)),
    "sleuth_function_modes": Recipe(modes=(PassOn,)),
    "sleuth_pre_dispatch": Recipe(capture="pre_dispatch"),
    "sleuth_torchscript": Recipe(run="torchscript"),
    "sleuth_aot": Recipe(capture="aot"),
    "sleuth_aot_min_cut": Recipe(capture="aot", partition="min_cut"),
    "sleuth_aot_decomp": Recipe(capture="aot", decompositions="inductor"),
    "sleuth_aot_dispatch_modes": Recipe(capture="aot", modes=(OperatorMode,)),
    "sleuth_fake": Recipe(capture="aot", checks=("fake",)),
    "sleuth_nudged": Recipe(capture="aot", modes=(NudgedAsAsked,), by_node=True),
    "sleuth_aot_torchscript": Recipe(capture="aot", run="torchscript"),
    "sleuth_invoke_subgraph": Recipe(capture="aot", run="invoke_subgraph"),
}
