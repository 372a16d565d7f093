"""Of wrong numbers: less to compare, a plainer backward, inputs that make the error plain."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from torchsleuth.case.effects import writes_by_index
from torchsleuth.case.model import Case, Storage, Tensor
from torchsleuth.case.program import CannotRender, observed
from torchsleuth.reduce.edit import is_floating
from torchsleuth.reduce.passes.inputs import _changed

_MOST_ELEMENTS = 64  # that stand in a script as a literal


def one_result(case: Case) -> Iterator[Case]:
    """Of all that a caller can see, only one thing."""
    if case.check is None or case.check.only:
        return
    try:
        names = observed(case)
    except CannotRender:
        return
    if len(names) > 1:
        for name in names:
            yield replace(case, check=replace(case.check, only=(name,)))


def plain_tangents(case: Case) -> Iterator[Case]:
    if case.check is not None and case.phase.backward and case.check.tangents != "ones":
        yield replace(case, check=replace(case.check, tangents="ones"))


def made_inputs(case: Case) -> Iterator[Case]:
    """Ones, zeros, counted or few plain elements instead of random ones; made instead of read.

    What only compiles is asked for no numbers but whole ones: places and lengths forbid smaller sizes.
    """
    storages = list(case.storages)
    written_by_index = writes_by_index(case.graph)

    def made(tensor: Tensor, fill: str) -> Tensor:
        if "zero" in tensor.flags or _shared(case, tensor) or (case.phase.compiling and is_floating(tensor.dtype)):
            return tensor
        if _order(tensor.fill) <= _order(fill) and not case.storages[tensor.storage].kept:
            return tensor  # no plainer than what it is
        if fill in ("ones", "zeros") and tensor.distinct and written_by_index:
            return tensor  # one place, many times: which of the values stays there is nobody's promise
        if fill == "nan" and not tensor.nans:
            return tensor
        if fill == "literal" and not (0 < len(tensor.literal) == math.prod(tensor.shape) <= _MOST_ELEMENTS):
            return tensor
        storages.append(Storage(0))  # memory of its own for each
        return replace(tensor, fill=fill, storage=len(storages) - 1)

    for fill in _FILLS:
        for simpler in _changed(case, lambda t, fill=fill: made(t, fill)):  # type: ignore[misc]
            yield replace(simpler, storages=tuple(storages))


_FILLS = ("ones", "zeros", "arange", "", "nan", "literal")  # plainest first; "" is random


def _order(fill: str) -> int:
    return _FILLS.index(fill) if fill in _FILLS else len(_FILLS)


def _shared(case: Case, tensor: Tensor) -> bool:
    """Tensors in one memory are views of it: what fills them is not theirs alone."""
    if not case.storages[tensor.storage].kept and case.storages[tensor.storage].nbytes == 0:
        return False
    return sum(isinstance(v, Tensor) and v.storage == tensor.storage for v in case.inputs) > 1
