"""A failing graph becomes a Case, inside the program, at that moment."""

from __future__ import annotations

import os
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from torchsleuth import torch_api
from torchsleuth.case import folder, from_torch, tensors
from torchsleuth.case.caller import caller, with_lines
from torchsleuth.case.environment_read import read_by
from torchsleuth.case.failure import Failure, Phase
from torchsleuth.case.ir import Graph, Op, Ref, inputs_of
from torchsleuth.case.model import Case, Input, Level, Opaque, Role, Scalar, Tensor
from torchsleuth.watch import patched, surroundings
from torchsleuth.watch.guarded import guarded
from torchsleuth.watch.module_roots import module_roots

_MUTATED_CAP = 256 * 2**20  # bytes of mutated inputs that are cloned before a call
_CLONED_CALLS = 3  # a graph that ran so often with these inputs is watched without clones
_WRITTEN_OVER = (
    "inputs that the graph writes to, as they were before the call: copies are made for a graph's first calls, and "
    "where they are not too large; these stand as the call left them"
)


@dataclass
class Record:
    """One graph that Dynamo handed to a backend.  Holds no tensor of the program's past a call."""

    number: int
    compile_id: str
    sketch: Case  # the Case without values
    eager: torch.fx.GraphModule | None  # to run in its place, or to compare with
    constants: list[weakref.ref[torch.Tensor]]
    mutated: frozenset[int] = frozenset()
    roots: Mapping[str, str] = field(default_factory=dict)  # local of the frame -> module of the whole model
    calls: int = 0
    last_inputs: tuple[Any, ...] = ()  # weak references, or plain numbers
    aten: dict[bool, Case] = field(default_factory=dict)  # is_backward -> sketch of the graph Inductor got
    limits: dict[Phase, float] = field(default_factory=dict)  # seconds that a stage of it may honestly last
    written_over: bool = False  # the call that failed had written to inputs of which no copy was made before


def sketch(
    number: int,
    module: torch.fx.GraphModule,
    inputs: Sequence[Any],
    backend: Any,
    configs: surroundings.Configs,
    *,
    keep_module: bool,
) -> Record:
    attributes = from_torch.Tensors()
    roots = module_roots()
    graph = with_lines(from_torch.graph_of(module, attributes, roots), caller)
    described, case_inputs = _describe(graph, module, inputs, attributes.kept, look=False)
    devices = {t.device.split(":")[0] for t in described.tensors}
    compile_id = torch_api.compile_id()
    case = Case(
        Level.DYNAMO,
        graph,
        case_inputs,
        described.tensors[len(described.tensors) - len(attributes.kept) :],
        described.storages,
        surroundings.read(backend, graph, devices, configs),
        Phase.COMPILE_FORWARD,
        None,
        surroundings.versions(),
        compile_id,
    )
    return Record(
        number,
        compile_id,
        case,
        torch_api.copy_of_graph(module) if keep_module else None,
        [weakref.ref(t) for t in attributes.kept],
        _mutated(module, graph),
        roots,
    )


def _describe(
    graph: Graph,
    module: torch.fx.GraphModule | None,
    inputs: Sequence[Any],
    constants: Sequence[torch.Tensor],
    *,
    look: bool,
) -> tuple[tensors.Described, tuple[Input, ...]]:
    given = [v for v in inputs if isinstance(v, torch.Tensor)]
    described = tensors.describe([*given, *constants], look=look)
    rest = iter(described.tensors)
    nodes = list(module.graph.find_nodes(op="placeholder")) if module is not None else [None] * len(inputs)
    found: list[Input] = []
    for value, node, plain in zip(inputs, nodes, graph.placeholders, strict=True):
        source = torch_api.source_name(node) if node is not None else ""
        if isinstance(value, torch.Tensor):
            found.append(_tensor(next(rest), value, source, plain.value.shape if plain.value else (), node))
        else:
            found.append(_other(value, source, node))
    return described, tuple(found)


def _tensor(
    tensor: Tensor, value: torch.Tensor, source: str, shape: Sequence[int | str], node: torch.fx.Node | None
) -> Input:
    if node is not None and torch_api.is_float_argument(node):
        return Scalar(float(value), "", source, as_tensor=True)
    role = tensor.role
    if role is Role.ARGUMENT and "._buffers[" in source:
        role = Role.BUFFER
    dynamic = tuple(i for i, s in enumerate(shape) if isinstance(s, str))
    return replace(tensor, source=source, role=role, dynamic=dynamic)


def _other(value: Any, source: str, node: torch.fx.Node | None) -> Input:
    symbol = node.meta.get("example_value", node.meta.get("val")) if node is not None else None
    if torch_api.is_symbolic(symbol):
        number = value if isinstance(value, (int, float)) else torch_api.hint_of(value)
        expression = torch_api.expression_of(symbol)
        return Scalar(0 if number is None else number, expression if isinstance(expression, str) else "", source)
    if isinstance(value, (bool, int, float)):
        return Scalar(value, "", source)
    return Opaque(f"{type(value).__module__}.{type(value).__qualname__}", source)


def _mutated(module: torch.fx.GraphModule, graph: Graph) -> frozenset[int]:
    """Placeholders whose memory the graph may write: Dynamo's fake inputs were written while it traced."""
    found = {
        i
        for i, node in enumerate(module.graph.find_nodes(op="placeholder"))
        if isinstance(node.meta.get("example_value"), torch.Tensor)
        and torch_api.version_of(node.meta["example_value"]) > 0
    }
    names = {n.name: i for i, n in enumerate(graph.placeholders)}
    for node in graph.nodes:
        # Running statistics are written without a new version; what a body or a foreign operator writes, nobody says.
        if node.op is Op.CALL_FUNCTION and (node.target.endswith("_norm") or ".higher_order." in node.target):
            found |= {names[n] for n in inputs_of(node) if n in names and _may_be_statistics(node.target, graph, n)}
    return frozenset(found)


def _may_be_statistics(target: str, graph: Graph, name: str) -> bool:
    if ".higher_order." in target:
        return True
    call = next(n for n in graph.nodes if n.target == target)
    return Ref(name) in call.args[1:3] or "running_" in name


def note_aot_mutations(record: Record) -> None:
    """AOTAutograd, where the backend uses it, knows exactly which inputs are written."""
    metadata = torch_api.forward_metadata()
    info = getattr(metadata, "input_info", None)
    if info is not None and len(info) == len(record.sketch.inputs):
        record.mutated |= {i for i, row in enumerate(info) if getattr(row, "mutates_data", False)}


def clone_mutated(record: Record, inputs: Sequence[Any]) -> dict[int, torch.Tensor]:
    """The inputs that the call is going to write, and those that share their memory, as they are now."""
    if not record.mutated or (record.calls > _CLONED_CALLS and record.eager is None):
        return {}
    families = _families(inputs)
    chosen = [f for f in families if not record.mutated.isdisjoint(f)]
    if sum(_bytes_of([inputs[i] for i in family]) for family in chosen) > _MUTATED_CAP:
        return {}
    found: dict[int, torch.Tensor] = {}
    for family in chosen:
        plain = [torch_api.without_lazy_bits(inputs[i].detach()) for i in family]
        for i, clone in zip(family, _clones(plain), strict=True):
            found[i] = torch_api.with_lazy_bits_of(clone, inputs[i])
    return found


def _families(inputs: Sequence[Any]) -> list[list[int]]:
    """Indices of the tensors among `inputs`, those that share a storage together."""
    found: dict[int, list[int]] = {}
    for i, value in enumerate(inputs):
        if isinstance(value, torch.Tensor) and not torch_api.is_wrapper_subclass(value):
            strided = value.layout is torch.strided
            found.setdefault((value.untyped_storage().data_ptr() if strided else 0) or -i - 1, []).append(i)
    return list(found.values())


def _bytes_of(family: Sequence[torch.Tensor]) -> int:
    if len(family) > 1:
        return int(family[0].untyped_storage().nbytes())
    return family[0].numel() * family[0].element_size()


def _clones(family: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    if len(family) == 1:
        return [family[0].clone(memory_format=torch.preserve_format)]
    memory = family[0].untyped_storage().clone()
    return [
        torch.empty(0, dtype=t.dtype, device=t.device).set_(memory, t.storage_offset(), t.shape, t.stride())
        for t in family
    ]


def put_back(record: Record, inputs: Sequence[Any], before: dict[int, torch.Tensor]) -> bool:
    """Undoes what a call wrote into its inputs; False where that was not kept."""
    if not record.mutated <= before.keys():
        return False
    with torch.no_grad():
        for i, old in before.items():
            inputs[i].data.copy_(old)
    return True


def restored(inputs: Sequence[Any], before: dict[int, torch.Tensor]) -> list[Any]:
    """The inputs with those that were written put back, for keeping: the program's own are not touched."""
    found = list(inputs)
    for i, old in before.items():
        new = inputs[i]
        if old.stride() != new.stride():
            fresh = torch.empty_strided(new.shape, new.stride(), dtype=new.dtype, device=new.device)
            old = fresh.copy_(old)
        found[i] = old.requires_grad_(new.requires_grad) if new.requires_grad and new.is_leaf else old
    return found


def remember_inputs(record: Record, inputs: Sequence[Any]) -> None:
    """Weakly: a backward that fails later may still find the forward's inputs alive."""
    record.last_inputs = tuple(weakref.ref(v) if isinstance(v, torch.Tensor) else v for v in inputs)


def with_patches(case: Case) -> Case:
    """With what the program has done to the compiler; looked for only when a Case is kept, for it takes a while."""
    now = case.surroundings
    code = (*now.code, *(guarded(patched.code_that_patches)() or ()))
    sources = [c.source for c in (*code, *([now.backend.code] if now.backend.code else []))]
    if not sources:
        return case
    environment = {**now.environment, **read_by(sources, os.environ)}
    return replace(case, surroundings=replace(now, code=code, environment=environment))


def case_of(
    record: Record, phase: Phase, failure: Failure | None, inputs: Sequence[Any] | None, where: Path, cap: int
) -> Case:
    """Writes the Case to `where`: with values where `inputs` (or what is left of them) has them."""
    alive = _alive(record) if inputs is None else list(inputs)
    case = replace(with_patches(record.sketch), phase=phase, failure=failure)
    if record.written_over and phase is Phase.RUN_FORWARD:
        around = case.surroundings
        case = replace(case, surroundings=replace(around, unknown=(*around.unknown, _WRITTEN_OVER)))
    constants = [c() for c in record.constants]
    if alive is not None and all(c is not None for c in constants):
        case = guarded(_save_values)(case, alive, [c for c in constants if c is not None], where, cap) or case
    folder.save(case, where)
    return case


def _save_values(case: Case, inputs: Sequence[Any], constants: Sequence[torch.Tensor], where: Path, cap: int) -> Case:
    given = [v for v in inputs if isinstance(v, torch.Tensor)]
    try:
        described = tensors.describe([*given, *constants], look=True)
        found = _with_values(case, inputs, described)
        where.mkdir(parents=True, exist_ok=True)
        return replace(found, storages=tensors.save(described, where, cap))
    except torch.AcceleratorError:
        return case  # a device that died with the failure gives no bytes any more: sizes must do
    except RuntimeError as error:
        if "CUDAGraphs" not in str(error):
            raise
        return case  # nor does what a CUDA graph gave and has overwritten


def _alive(record: Record) -> list[Any] | None:
    if not record.last_inputs:
        return None
    found = [v() if isinstance(v, weakref.ref) else v for v in record.last_inputs]
    return None if any(v is None for v in found) else found


def _with_values(case: Case, inputs: Sequence[Any], described: tensors.Described) -> Case:
    rest = iter(described.tensors)
    found: list[Input] = []
    for value, known in zip(inputs, case.inputs, strict=True):
        if isinstance(value, torch.Tensor):
            now = next(rest)
            if isinstance(known, Tensor):
                # A clone that stands for a written input is a leaf without history, whatever the input was.
                found.append(
                    replace(
                        now, source=known.source, role=known.role, dynamic=known.dynamic,
                        requires_grad=known.requires_grad, leaf=known.leaf,
                    )
                )  # fmt: skip
            else:
                found.append(_scalar_now(known, value))
        elif isinstance(known, Scalar) and isinstance(value, (bool, int, float)):
            found.append(replace(known, value=value))
        else:
            found.append(known)
    return replace(case, inputs=tuple(found), constants=tuple(rest), storages=described.storages)


def _scalar_now(known: Input, value: torch.Tensor) -> Input:
    return replace(known, value=float(value)) if isinstance(known, Scalar) else known
