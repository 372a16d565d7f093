"""Does an operator write to and share only the memory that its schema says?

torch.compile believes the schema: an argument that is not marked as written may be read later, kept for the backward or
shared; a result that is not marked as an alias may be overwritten.  What is marked and does not happen is harmless.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from torchsleuth import torch_api
from torchsleuth.backends.mismatches import WrongSchema
from torchsleuth.backends.operator_mode import OperatorMode
from torchsleuth.backends.where import here

# torch's own, that are so on purpose: the first four share memory that their callers give up; the others write running
# statistics in training.
_KNOWN = frozenset(
    "aten::_unsafe_view aten::unsafe_split aten::unsafe_split_with_sizes aten::lift_fresh "
    "aten::native_batch_norm aten::cudnn_batch_norm aten::miopen_batch_norm".split()
)


class SchemaCheck(OperatorMode):
    """Raises `WrongSchema` at the first operator that does what its schema does not say.

    A context manager by itself: `with SchemaCheck(): model(x)` checks what runs in eager.
    """

    def checked(self, operator: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        if operator.name().partition(".")[0] in _KNOWN:
            return operator(*args, **kwargs)
        with torch_api.modes_off(), torch.no_grad():
            before = [_Before.of(*each) for each in _arguments(operator, args, kwargs)]
        result = operator(*args, **kwargs)
        with torch_api.modes_off(), torch.no_grad():
            difference = _writes(before) or _shares(before, list(_results(operator, result)))
        if difference:
            said = f"the kernel {difference}; the schema does not say so: {torch_api.schema_text(operator)}"
            raise WrongSchema(str(operator), said, here())
        return result


@dataclass(frozen=True)
class _Tensor:
    name: str
    sets: frozenset[str]  # letters of the annotation
    value: torch.Tensor

    def may_alias(self, other: _Tensor) -> bool:
        wild = "*" in self.sets | other.sets and bool(self.sets) and bool(other.sets)
        return wild or bool(self.sets & other.sets)


@dataclass(frozen=True)
class _Before:
    """One tensor among the arguments as it was before the call."""

    argument: _Tensor
    written: bool
    geometry: tuple[Any, ...]
    memory: tuple[int, int]
    bits: torch.Tensor | None  # of those that must not change

    @staticmethod
    def of(argument: _Tensor, written: bool) -> _Before:
        value = argument.value
        return _Before(argument, written, _geometry(value), _memory(value), None if written else _bits(value))


def _arguments(operator: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Iterator[tuple[_Tensor, bool]]:
    for i, argument in enumerate(torch_api.signature(operator)[0]):
        value = args[i] if i < len(args) else kwargs.get(argument.name)
        info = argument.alias_info
        for tensor in _tensors(value):
            yield _Tensor(argument.name, torch_api.alias_sets(info), tensor), info is not None and info.is_write


def _results(operator: Any, result: Any) -> Iterator[_Tensor]:
    returns = torch_api.signature(operator)[1]
    values = [result] if len(returns) == 1 else list(result or ())
    for i, (said, value) in enumerate(zip(returns, values, strict=False)):
        name = "result" if len(returns) == 1 else f"result {i}"
        for tensor in _tensors(value):
            yield _Tensor(name, torch_api.alias_sets(said.alias_info), tensor)


def _tensors(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in torch_api.flat(value) if isinstance(leaf, torch.Tensor)]


def _writes(before: Sequence[_Before]) -> str:
    written = [one.memory for one in before if one.written]
    for one in before:
        if one.written:
            continue
        value, name = one.argument.value, one.argument.name
        if _geometry(value) != one.geometry:
            return f"changes the shape or strides of its argument {name!r}"
        # What overlaps a written argument changes with it, and the schema need not say so.
        if any(_overlap(one.memory, other) for other in written) or one.bits is None:
            continue
        if not torch.equal(_bits(value), one.bits):
            return f"writes to its argument {name!r}"
    return ""


def _shares(before: Sequence[_Before], results: Sequence[_Tensor]) -> str:
    for i, result in enumerate(results):
        for one in before:
            if _overlap(_memory(result.value), one.memory) and not result.may_alias(one.argument):
                return f"gives memory of its argument {one.argument.name!r} as {result.name}"
        for other in results[:i]:
            if _overlap(_memory(result.value), _memory(other.value)) and not result.may_alias(other):
                return f"gives the same memory twice, as {other.name} and {result.name}"
    return ""


def _geometry(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tuple(tensor.shape), tensor.stride(), tensor.storage_offset()


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    """Compared as bytes: a nan equals itself, and minus zero is not zero."""
    plain = tensor.detach().resolve_conj().resolve_neg()
    return plain.reshape(-1).clone().contiguous().view(torch.uint8)


def _memory(tensor: torch.Tensor) -> tuple[int, int]:
    """First address, and the one past the last; empty where there is no memory."""
    begin = tensor.data_ptr() if tensor.numel() else 0
    steps = sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))
    return begin, begin + (steps + 1) * tensor.element_size() if begin else 0


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return max(one[0], other[0]) < min(one[1], other[1])
