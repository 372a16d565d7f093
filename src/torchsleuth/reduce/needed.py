"""What a reduced Case still has: since nothing of it can be left out, all of it is needed to trigger the failure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from torchsleuth.case.ir import picks
from torchsleuth.case.model import Case, Role, Scalar, Tensor
from torchsleuth.case.operator_names import LOWERS_VERSION, SETS_DATA
from torchsleuth.case.program.names import short_name
from torchsleuth.case.program.values import is_contiguous

_MOST = 12


def needed(case: Case) -> tuple[str, ...]:
    """One phrase a thing; sizes of 2, float32 and other plain things are not worth a word."""
    found = [*_operators(case), *_inputs(case), *_surroundings(case)]
    more = len(found) - _MOST
    return (*found[:_MOST], f"and {more} more things") if more > 1 else tuple(found)


def _operators(case: Case) -> Iterator[str]:
    graphs = list(case.graph.all_graphs())
    # Taking an element of a tuple is no operator; a slice of a tensor is.
    calls = Counter(n.target for g in graphs for n in g.nodes if n.is_call and n.name not in picks(g))
    for target, count in calls.items():
        if target == LOWERS_VERSION:  # a part of the assignment
            continue
        name = "an assignment to .data" if target == SETS_DATA else target
        yield name if count == 1 else f"{count} calls of {name}"
    if case.phase.backward:
        yield "the backward"


def _inputs(case: Case) -> Iterator[str]:
    for node, value in zip(case.graph.placeholders, case.inputs, strict=True):
        if isinstance(value, Tensor):
            words = list(_tensor(value))
            if words:
                yield f"{short_name(value.source, node.name)}: {', '.join(words)}"
        elif isinstance(value, Scalar) and value.symbol:
            yield f"{short_name(value.source, node.name)}: a symbolic number"


def _tensor(tensor: Tensor) -> Iterator[str]:
    if tensor.dtype != "torch.float32":
        yield tensor.dtype.removeprefix("torch.")
    if any(size != 2 for size in tensor.shape) or not tensor.shape:
        yield f"sizes {list(tensor.shape)}"
    if not is_contiguous(tensor):
        yield f"strides {list(tensor.stride)}"
    if tensor.flags:
        yield " and ".join(tensor.flags)
    if tensor.dynamic:
        yield "dynamic in " + " and ".join(map(str, tensor.dynamic))
    if tensor.requires_grad:
        yield "requires_grad"
    if tensor.role is not Role.ARGUMENT:
        yield f"a {tensor.role.value}"
    if tensor.device != "cpu":
        yield f"on {tensor.device}"


def _surroundings(case: Case) -> Iterator[str]:
    now = case.surroundings
    for module, entry, value in now.configs:
        yield f"{module}.{entry} = {value!r}"
    for name, value in now.environment.items():
        yield f"{name}={value} in the environment"
    for name, value in now.switches.items():
        yield f"{name.replace('_', ' ')} {value}"
    if now.backend.mode:
        yield f"mode={now.backend.mode!r}"
    for name, value in now.backend.options.items():
        yield f"the option {name}={value!r}"
    if now.dynamic is not None:
        yield f"dynamic={now.dynamic}"
    if now.inference:
        yield "inference mode"
    elif not now.grad:
        yield "no_grad"
    for cast in now.autocast:
        yield f"autocast to {cast.dtype} on {cast.device}"
    if now.cache_hit:
        yield "a second run on a filled cache"
