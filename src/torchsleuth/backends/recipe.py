"""A debugging backend as data: what is done with a graph, in the order of the fields.

Every named backend is one `Recipe` with a field or two set, so that backends are composed by taking the fields that
each of them sets; see `compose`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from torch.fx import traceback
from torch.fx.experimental.proxy_tensor import make_fx

from torchsleuth import torch_api
from torchsleuth.backends import runners
from torchsleuth.backends.fake_check import FakeCheck
from torchsleuth.backends.faulty_match import bare_name
from torchsleuth.backends.mismatches import BadRecipe, NotTraceable
from torchsleuth.backends.schema_check import SchemaCheck

Capture = Literal["dynamo", "pre_dispatch", "aot"]
Partition = Literal["default", "min_cut"]
Run = Literal["eager", "torchscript", "invoke_subgraph"]
_CHOICES = {"capture": Capture, "partition": Partition, "run": Run}
_CHECKS: dict[str, Callable[[], Any]] = {"schema": SchemaCheck, "fake": FakeCheck}
_TABLES: dict[str, Callable[[], Any]] = {
    "none": lambda: None,
    "core": torch_api.core_decompositions,
    "inductor": torch_api.inductor_decompositions,
}


@dataclass(frozen=True)
class Recipe:
    """A backend: `torch.compile(f, backend=Recipe(capture="aot", checks=("fake",)))`.

    capture: the graph that is run: Dynamo's; that graph in ATen operators, before autograd and autocast are taken out
        of it; or the forward and the backward that AOTAutograd makes of it.
    partition: how AOTAutograd cuts the joint graph into forward and backward.
    decompositions: "none", "core", "inductor", or a table {operator: function} of one's own.
    run: by whom.
    checks: "schema" and "fake": every operator that runs is checked.
    modes: torch-function or dispatch modes around each run, the first outermost: modes, or what makes one when called.
    marked: whether an exception that the graph raises is marked.
    by_node: whether modes can ask for the line of the operator that runs.
    """

    capture: Capture = "dynamo"
    partition: Partition = "default"
    decompositions: str | Mapping[Any, Callable[..., Any]] = "none"
    run: Run = "eager"
    checks: Sequence[str] = ()
    modes: Sequence[Any] = ()
    marked: bool = False
    by_node: bool = False

    def __post_init__(self) -> None:
        for field, choice in _CHOICES.items():
            _must_be_one(field, getattr(self, field), get_args(choice))
        if isinstance(self.decompositions, str):
            _must_be_one("decompositions", self.decompositions, tuple(_TABLES))
        elif not isinstance(self.decompositions, Mapping):
            raise BadRecipe("decompositions must be one of their names or a mapping {operator: function}.")
        for field in ("checks", "modes"):
            if isinstance(getattr(self, field), str) or not isinstance(getattr(self, field), Sequence):
                raise BadRecipe(f"{field} must be a list; this is {getattr(self, field)!r}.")
        for check in self.checks:
            _must_be_one("checks", check, tuple(_CHECKS))
        for mode in self.modes:
            if not (callable(mode) or hasattr(mode, "__enter__")):
                raise BadRecipe(f"modes: {mode!r} is no mode and no function that makes one.")
        needs = {"partition": "default", "decompositions": "none"}
        without = [field for field, plain in needs.items() if getattr(self, field) != plain]
        without += ["run='invoke_subgraph'"] * (self.run == "invoke_subgraph")
        if without and self.capture != "aot":
            raise BadRecipe(f"{without[0]} is for graphs of AOTAutograd: set capture='aot', or add sleuth_aot.")

    @property
    def __name__(self) -> str:
        return "sleuth_recipe"  # Dynamo names a backend by this in its errors

    def __call__(self, gm: torch.fx.GraphModule, inputs: Sequence[Any], **_: Any) -> Callable[..., Any]:
        if self.capture == "aot":
            chosen = self.decompositions
            table = _TABLES[chosen]() if isinstance(chosen, str) else dict(chosen)
            return torch_api.aot(gm, inputs, self._boxed, min_cut=self.partition == "min_cut", decompositions=table)
        return self._runner(before_dispatch(gm) if self.capture == "pre_dispatch" else gm)

    def _boxed(self, gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        return torch_api.boxed(self._runner(gm))

    def _runner(self, gm: torch.fx.GraphModule) -> Callable[..., Any]:
        if self.run == "torchscript":
            run = runners.by_torchscript(gm)
        elif self.checks or self.marked or self.by_node:
            run = runners.node_by_node(gm, marked=self.marked)
        else:
            run = gm.forward
        if self.run == "invoke_subgraph":
            run = runners.as_invoke_subgraph(run)
        makers = [*map(_maker, self.modes), *(_CHECKS[check] for check in self.checks)]
        return runners.under(makers, run) if makers else run


def before_dispatch(gm: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Dynamo's graph in ATen operators, traced with its fake tensors: real ones could be written to."""
    transform = next((node for node in gm.graph.nodes if bare_name(node).endswith("_increment_nesting")), None)
    if transform is not None:
        name = bare_name(transform).partition("_")[0]
        raise NotTraceable(
            f"this graph has a {name} of torch.func in it, which is lost when it is traced before dispatch. "
            "Try sleuth_eager for Dynamo's graph, or sleuth_aot for one in ATen operators."
        )
    inputs = torch_api.traced_inputs(gm)
    with traceback.preserve_node_meta(), torch_api.real_constants_allowed(inputs):  # the first keeps the user's lines
        return make_fx(torch.fx.Interpreter(gm).run, pre_dispatch=True)(*inputs)


def _must_be_one(field: str, value: Any, choices: Sequence[str]) -> None:
    if value not in choices:
        raise BadRecipe(f"{field}={value!r}; choose one of {', '.join(choices)}.")


def _maker(mode: Any) -> Callable[[], Any]:
    """A mode itself is taken again for each run."""
    is_one = hasattr(mode, "__enter__") and not isinstance(mode, type)
    return (lambda: mode) if is_one else mode
