"""What debugging backends are made of."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import importlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from torchsleuth.torch_api.operators import modes_off
from torchsleuth.torch_api.planting import Compiler


def aot(
    gm: torch.fx.GraphModule, inputs: Sequence[Any], compiler: Compiler, *, min_cut: bool, decompositions: Any
) -> Callable[..., Any]:
    """AOTAutograd, its forward, backward and inference graphs handed to `compiler`, which gives boxed functions."""
    common = importlib.import_module("torch._dynamo.backends.common")
    partitioners = importlib.import_module("functorch.compile")
    partition = partitioners.min_cut_rematerialization_partition if min_cut else partitioners.default_partition
    compiled: Callable[..., Any] = common.aot_autograd(
        fw_compiler=compiler,
        bw_compiler=compiler,
        partition_fn=partition,
        decompositions=decompositions,
        keep_inference_input_mutations=True,
    )(gm, inputs)
    return compiled


def core_decompositions() -> dict[Any, Callable[..., Any]]:
    """To the core operators of ATen, as exported programs have them."""
    return dict(importlib.import_module("torch._decomp").core_aten_decompositions())


def inductor_decompositions() -> dict[Any, Callable[..., Any]]:
    return dict(importlib.import_module("torch._inductor.decomposition").select_decomp_table())


def traced_inputs(gm: torch.fx.GraphModule) -> list[Any]:
    """The fake tensors that Dynamo traced its graph with."""
    return [node.meta["example_value"] for node in gm.graph.nodes if node.op == "placeholder"]


@contextlib.contextmanager
def real_constants_allowed(inputs: Sequence[Any]) -> Iterator[None]:
    """Graphs hold constants as real tensors; a trace with the fake tensors `inputs` meets them."""
    modes = {id(value.fake_mode): value.fake_mode for value in inputs if hasattr(value, "fake_mode")}
    before = [(mode, mode.allow_non_fake_inputs) for mode in modes.values()]
    for mode, _ in before:
        mode.allow_non_fake_inputs = True
    try:
        yield
    finally:
        for mode, allowed in before:
            mode.allow_non_fake_inputs = allowed


def is_higher_order(operator: Any) -> bool:
    return isinstance(operator, torch._ops.HigherOrderOperator)


def decomposed(operator: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """What an operator that is only composed of others gives; NotImplemented where it has a kernel of its own."""
    return operator.decompose(*args, **kwargs)


def run_without_modes(operator: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The plain kernel of a higher-order operator, past the modes that are on: they see what it calls."""
    return operator.dispatch(torch._C.DispatchKey.CompositeExplicitAutograd, *args, **kwargs)


def invoke_subgraph(body: Callable[..., Any], name: str, operands: Sequence[Any]) -> Any:
    return importlib.import_module("torch._higher_order_ops.invoke_subgraph").invoke_subgraph(body, name, *operands)


def script(gm: torch.fx.GraphModule) -> Callable[..., Any]:
    """The graph by TorchScript; raises what TorchScript raises."""
    # Scripting reads the class: a lazy GraphModule has no forward of its own yet.
    plain = torch.fx.GraphModule(gm, copy.deepcopy(gm.graph))
    for node in plain.graph.nodes:
        if isinstance(node.target, torch._ops.OpOverload):
            node.target = node.target.overloadpacket  # TorchScript chooses the overload by the arguments
        value = node.meta.get("example_value", node.meta.get("val"))
        if node.op == "placeholder" and isinstance(value, torch.SymInt):
            node.type = int  # or it is taken for a tensor
    plain.recompile()
    before = torch._C._jit_set_autocast_mode(False)  # the graph has its casts already
    try:
        scripted: Callable[..., Any] = torch.jit.script(plain)
    finally:
        torch._C._jit_set_autocast_mode(before)
    return scripted


def signature(operator: Any) -> tuple[list[Any], list[Any]]:
    """Arguments and returns of an operator's schema; each has `name` and `alias_info`."""
    return list(operator._schema.arguments), list(operator._schema.returns)


def schema_text(operator: Any) -> str:
    return str(operator._schema)


def alias_sets(annotation: Any) -> frozenset[str]:
    """The letters of an annotation such as (a!) or (a -> *); none where there is none."""
    if annotation is None:
        return frozenset()
    # Of a list, Python is told only that there is an annotation: it may be any letter.
    return frozenset((*annotation.before_set, *annotation.after_set)) or frozenset("*")


class NoFakeAnswer(Exception):
    """The fake kernel cannot know: there is none, or the result depends on values."""


@dataclasses.dataclass(frozen=True)
class FakeCall:
    """A call of an operator with fake copies of its arguments; to be made before the real call changes them."""

    operator: Any
    args: Any
    kwargs: Any
    mode: Any

    @staticmethod
    def of(operator: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> FakeCall:
        fake_tensor = importlib.import_module("torch._subclasses.fake_tensor")
        symbolic_shapes = importlib.import_module("torch.fx.experimental.symbolic_shapes")
        # A mode of its own for each call: it remembers the tensors that it has seen, and they may change.
        mode = fake_tensor.FakeTensorMode(allow_fallback_kernels=False, shape_env=symbolic_shapes.ShapeEnv())

        def fake(value: Any) -> Any:
            return mode.from_tensor(value, static_shapes=True) if isinstance(value, torch.Tensor) else value

        tree_map = importlib.import_module("torch.utils._pytree").tree_map
        with modes_off():
            return FakeCall(operator, tree_map(fake, tuple(args)), tree_map(fake, dict(kwargs)), mode)

    def result(self) -> Any:
        fake_tensor = importlib.import_module("torch._subclasses.fake_tensor")
        unknown = (
            fake_tensor.DataDependentOutputException,
            fake_tensor.DynamicOutputShapeException,
            fake_tensor.UnsupportedOperatorException,
        )
        try:
            with modes_off(), self.mode:
                return self.operator(*self.args, **self.kwargs)
        except unknown as error:
            raise NoFakeAnswer(str(error)) from error


def register_backend(name: str, backend: Callable[..., Any]) -> None:
    """Make `torch.compile(backend=name)` find `backend`; a name that is taken stays as it is."""
    dynamo = importlib.import_module("torch._dynamo")
    if name not in dynamo.list_backends(exclude_tags=()):
        dynamo.register_backend(backend, name=name)
