"""What a run shows: tensors and plain values, each with the path by which a reader finds it; nothing is left out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from torchsleuth import torch_api
from torchsleuth.referee.structure import Item, Sort, kind_of, walk


@dataclass(frozen=True)
class NotCompared:
    """A value that cannot be looked into, or whose numbers cannot be read."""

    kind: str
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.kind}: {self.reason}" if self.reason else self.kind


@dataclass(frozen=True)
class Holder:
    """An object whose parts stand beside it: of itself, only its type is compared."""

    kind: str
    is_empty: bool = False


@dataclass(frozen=True)
class Repeated:
    """The object that is found at `path`, met again inside of itself."""

    path: str


@dataclass(frozen=True)
class Seen:
    path: str  # out["logits"][0]
    value: Any  # a tensor that nobody writes any more, a plain value, or one of the classes above
    stride: tuple[int, ...] | None = None  # of the tensor as it was given
    kind: str = ""  # of a tensor that is no plain one: its layout or its class
    is_aside: bool = False  # compared, but not told as one of the values compared

    @property
    def counts(self) -> bool:
        """Whether comparing it compares a value, not the type of what holds values alone."""
        return not (self.is_aside or self.is_holder or isinstance(self.value, (NotCompared, Repeated)))

    @property
    def is_holder(self) -> bool:
        return isinstance(self.value, Holder) and not self.value.is_empty


def flatten(value: Any, path: str, *, copied: bool = True, holders: bool = False) -> Iterator[Seen]:
    """Yield what is compared of `value`, and NotCompared for what cannot be.

    Not `copied` is what nobody writes any more: it may be large.  With `holders` the types of containers and objects
    are compared, too; compiled graphs may return a list for a tuple.
    """
    for item in walk(value, path):
        if item.sort is not Sort.HOLDER or holders:
            yield from seen_of(item, copied=copied)


def seen_of(item: Item, *, copied: bool = True) -> Iterator[Seen]:
    """What is compared of one item of `walk`."""
    if item.sort is Sort.TENSOR:
        yield from _of_tensor(item.value, item.path, item.kind, copied)
    else:
        yield Seen(item.path, _shown(item))


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """All tensors in `value` as they are, those inside of nested and sparse ones as dense ones with a gradient."""
    for item in walk(value, ""):
        if item.sort is Sort.TENSOR:
            yield from _dense_parts(item.value)


def _dense_parts(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    if tensor.is_nested:
        yield from tensor.unbind()
    elif tensor.layout is not torch.strided:
        yield tensor.to_dense()
    else:
        yield tensor


def _shown(item: Item) -> Any:
    if item.sort is Sort.HOLDER:
        return Holder(item.kind, item.is_empty)
    if item.sort is Sort.REPEATED:
        return Repeated(item.value)
    return NotCompared(item.kind, item.value) if item.sort is Sort.OPAQUE else torch_api.hint_of(item.value)


def _of_tensor(tensor: torch.Tensor, path: str, kind: str, copied: bool) -> Iterator[Seen]:
    """A tensor that is no plain one is compared by the plain ones that it is made of."""
    try:
        found = list(_plain_parts(tensor, path, kind, copied))
    except (NotImplementedError, RuntimeError, TypeError, ValueError) as error:
        # Layouts and subclasses refuse operators with errors of these types: no copy of it can be made.
        first = (str(error).splitlines() or [""])[0][:100]
        found = [Seen(path, NotCompared(kind or _kind_of_tensor(tensor), f"{type(error).__name__}: {first}"))]
    yield from found


def _plain_parts(tensor: torch.Tensor, path: str, kind: str, copied: bool) -> Iterator[Seen]:
    kind = kind or _kind_of_tensor(tensor)
    if tensor.is_meta or torch_api.is_fake(tensor):
        yield Seen(path, NotCompared(kind, "it has no numbers"))
    elif tensor.is_nested:
        yield Seen(path, Holder(kind, is_empty=tensor.size(0) == 0))
        for i, part in enumerate(tensor.detach().unbind()):
            yield from _plain_parts(part, f"{path}[{i}]", "", copied)
    elif torch_api.is_wrapper_subclass(tensor):
        yield Seen(path, Holder(kind))
        for name in torch_api.wrapped_tensors(tensor):
            yield from _of_tensor(getattr(tensor, name), f"{path}.{name}", "", copied)
    elif tensor.is_quantized:
        yield Seen(path, kept(tensor.int_repr()), None, kind)
        for name, value in torch_api.quantization_of(tensor).items():
            yield from flatten(value, f"{path}.{name}()")
    else:
        stride = tuple(tensor.stride()) if tensor.layout is torch.strided else None
        yield Seen(path, kept(tensor) if copied else plain(tensor), stride, kind)


def _kind_of_tensor(tensor: torch.Tensor) -> str:
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer):
        return kind_of(tensor)
    if tensor.is_nested:
        return f"nested tensor ({str(tensor.layout).removeprefix('torch.')})"
    if tensor.is_meta:
        return "meta tensor"
    if tensor.is_quantized:
        return f"{str(tensor.dtype).removeprefix('torch.')} tensor"
    return "" if tensor.layout is torch.strided else f"{str(tensor.layout).removeprefix('torch.')} tensor"


def kept(tensor: torch.Tensor) -> torch.Tensor:
    """A copy: what compiled code returns may be overwritten by its next call."""
    return plain(tensor).clone()


def plain(tensor: torch.Tensor) -> torch.Tensor:
    """Without gradients, lazy bits or a layout or class of its own."""
    dense = tensor.detach() if tensor.layout is torch.strided else tensor.detach().to_dense()
    if type(dense) is not torch.Tensor:
        dense = dense.as_subclass(torch.Tensor)
    return dense.resolve_conj().resolve_neg()
