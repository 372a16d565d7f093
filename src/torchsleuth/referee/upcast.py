"""Eager in float64: every operator gets and gives float64 where the program had a narrower float.

Not a copy of the model cast to double: a cast inside the model (`x.half()`, autocast, `dtype=torch.float32`) would
bring the rounding back, and noise would be called a bug.  So the operators themselves are caught, below autograd and
autocast.  Random numbers are drawn in the program's own dtype, and so are the same as in the other runs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from torchsleuth import torch_api
from torchsleuth.referee import equals, masks, parts, rounding
from torchsleuth.referee.blocks import ELEMENTS
from torchsleuth.referee.bodies import SeesBodies, mapped

_NARROW = {torch.float32, torch.float16, torch.bfloat16}
_WIDE = {**dict.fromkeys(_NARROW, torch.float64), torch.complex64: torch.complex128, torch.complex32: torch.complex128}
_EPSILON = {torch.float16: 2.0**-10, torch.bfloat16: 2.0**-7, torch.float32: 2.0**-23}


class NoReference(Exception):
    """An operator looks at the bits of a float: there is no float64 run of it."""


class NotBorrowed(Exception):
    """A run cannot do with what belongs to somebody else: it needs copies of its own."""


LEAST_NUDGE = 2.0**-19  # and the most for what is summed up
_OF_ZERO = 1e-3  # how far a zero is moved, in nudges: ties are often between zeros
_active: list[Upcast] = []


def is_active() -> bool:
    """Whether a float64 run is under way: what is copied for it should be wide."""
    return bool(_active)


def borrower() -> Upcast | None:
    """The run under way, where it takes its inputs as they are, without a copy."""
    return _active[-1] if _active and _active[-1].borrows else None


class Upcast(SeesBodies):
    """`nudge` moves what an operator rounds, and what it chooses from, by about so much of its size.

    Inputs as such are exact and are not moved: a half that is rounded the wrong way is wrong.

    One that `borrows` widens what it is given where an operator needs it, and never all of it at once; NotBorrowed says
    that the run needs copies.
    """

    def __init__(self, nudge: float = 0.0, seed: int = 0, *, borrows: bool = False) -> None:
        super().__init__()
        self.borrows = borrows
        self._borrowed: set[int] = set()  # memories
        self.mixed: set[str] = set()  # operators that ran in the program's own precision
        self.coarsest = 2.0**-23  # rounding of the narrowest float that was seen
        self.disputed = ""  # why eager and compiled code may differ here by right
        self._nudge = nudge
        self._random = torch.Generator().manual_seed(seed)

    def __enter__(self) -> Upcast:
        _active.append(self)
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        _active.pop()
        super().__exit__(*error)

    def borrow(self, tensor: torch.Tensor) -> torch.Tensor:
        """The same memory, as an input of this run, with a gradient that is as wide as all else."""
        if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or tensor.layout is not torch.strided:
            raise NotBorrowed(type(tensor).__name__)
        with torch_api.modes_off():
            found = tensor.detach()
            if tensor.requires_grad:
                torch_api.takes_any_gradient(found.requires_grad_())
        self._borrowed |= _memories([found])
        return found

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if torch_api.is_higher_order(func):
            return self._with_bodies(func, args, kwargs)
        targets = _written(func, args)
        if self._borrowed:
            self._refuse_what_needs_copies(func, args, kwargs, targets)
        if torch.Tag.nondeterministic_seeded in func.tags:
            return self._draw(func, args, kwargs)
        if torch_api.reads_bits(func) and any(t.is_floating_point() for t in _tensors(args)):
            raise NoReference(str(func))
        wide_args = mapped(args, lambda v: self._wide(v, targets))
        if self._nudge and rounding.chooses(func):
            wide_args = mapped(wide_args, lambda v: self._nudged(v, _OF_ZERO))
        wide_kwargs = {k: mapped(v, lambda v: self._wide(v, targets)) for k, v in kwargs.items()}
        try:
            result = func(*wide_args, **wide_kwargs)
        except (RuntimeError, NotImplementedError, TypeError) as error:
            if "not implemented for" not in str(error) and "expected" not in str(error).lower():
                raise
            self.mixed.add(str(func))
            result = func(*mapped(args, _narrow), **{k: mapped(v, _narrow) for k, v in kwargs.items()})
        if self._borrowed and not self._borrowed.isdisjoint(_memories(args)):
            # A view of what was widened: who writes there means to write to what is borrowed.
            self._borrowed |= _memories(wide_args) & _memories([result])
        if self._nudge and equals.applies(func, wide_args, kwargs):
            steps = math.copysign(1.0, self._nudge) * self._step(wide_args[0])
            result = equals.chosen_otherwise(func, wide_args, wide_kwargs, result, steps)
        if self._nudge and rounding.rounds(
            func, next((d for d in kwargs.values() if isinstance(d, torch.dtype)), None)
        ):
            return self._moved(self._cancelled(func, wide_args, wide_kwargs, result), targets, _memories(wide_args))
        return mapped(result, self._entered)

    def _refuse_what_needs_copies(
        self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], targets: set[int]
    ) -> None:
        """Nothing is written to what is borrowed; and autocast would take it for narrow, as it does no copy."""
        asked = kwargs.get("dtype")
        narrower = torch_api.casts(func) and asked is not None and _EPSILON.get(asked, 0.0) > 2.0**-23
        touched = [t for t in _tensors(args) if narrower or id(t) in targets]
        if not self._borrowed.isdisjoint(_memories(touched)):
            raise NotBorrowed(str(func))

    def _with_bodies(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """A higher-order operator: what it is given is wide, and so is every operator of its bodies."""
        wide = mapped(args, self._entered)
        if not self._borrowed.isdisjoint(_memories(args)):
            self._borrowed |= _memories(wide)  # a body may write to what it is given
        result = self.run_with_bodies(func, wide, {k: mapped(v, self._entered) for k, v in kwargs.items()})
        if result is NotImplemented:
            raise NoReference(func.name())
        if func.name() == "flex_attention" and not self._nudge and masks.disagrees(args):
            self.disputed = masks.DISAGREES
        return result

    def _cancelled(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> Any:
        """Of a sum: moved by what the rounding of its parts does, which is in float32 whatever they are kept in."""
        sizes = parts.sizes(func, args, kwargs)
        if sizes is None:
            return result
        amount = math.copysign(min(abs(self._nudge), LEAST_NUDGE), self._nudge)
        several = isinstance(result, (tuple, list))
        moved = [
            r + amount * self._step(r) * size if r.dtype is torch.float64 and r.shape == size.shape else r
            for r, size in zip(result if several else (result,), sizes, strict=True)
        ]
        return tuple(moved) if several else moved[0]

    def _moved(self, result: Any, targets: set[int], given: set[int]) -> Any:
        """What was rounded, nudged; in place where it is nobody else's, or was written there."""

        def move(value: Any) -> Any:
            if isinstance(value, torch.Tensor) and id(value) in targets:
                return self._nudged(value, into=value) if value.is_floating_point() else value
            wide = self._entered(value)
            own = isinstance(wide, torch.Tensor) and wide.dtype is torch.float64 and _memories([wide]).isdisjoint(given)
            return self._nudged(wide, into=wide if own else None)

        return mapped(result, move)

    def _wide(self, value: Any, targets: set[int]) -> Any:
        if isinstance(value, torch.dtype):
            self._note(value)
            return _WIDE.get(value, value)
        if isinstance(value, torch.Tensor) and value.dtype in _WIDE and id(value) not in targets:
            self._note(value.dtype)
            return value.to(_WIDE[value.dtype])
        return value

    def _entered(self, value: Any) -> Any:
        """What an operator gives although all it got was wide: a constant, or a draw."""
        if isinstance(value, torch.Tensor) and value.dtype in _WIDE:
            self._note(value.dtype)
            return value.to(_WIDE[value.dtype])
        return value

    def _note(self, dtype: torch.dtype) -> None:
        self.coarsest = max(self.coarsest, _EPSILON.get(dtype, 0.0))

    def _nudged(self, tensor: Any, of_zero: float = 0.0, into: torch.Tensor | None = None) -> Any:
        if not isinstance(tensor, torch.Tensor) or not tensor.is_floating_point() or not tensor.numel():
            return tensor
        if tensor.numel() <= ELEMENTS or not tensor.is_contiguous():
            moved = self._nudged_part(tensor, of_zero)
            return moved if into is None else into.copy_(moved)
        into = torch.empty_like(tensor, dtype=torch.float64) if into is None else into
        for part, given in zip(into.view(-1).split(ELEMENTS), tensor.view(-1).split(ELEMENTS), strict=True):
            part.copy_(self._nudged_part(given, of_zero))
        return into

    def _nudged_part(self, tensor: torch.Tensor, of_zero: float) -> torch.Tensor:
        moved = self._step(tensor).mul_(self._nudge).mul_(tensor.abs().add_(of_zero)).add_(tensor)
        # A zero that is not moved keeps its sign: -0.0 + 0.0 is 0.0.
        return torch.where(tensor.isfinite() & (moved != tensor), moved, tensor)

    def _step(self, tensor: torch.Tensor) -> torch.Tensor:
        """From -1 to 1, for each element."""
        drawn = torch.rand(tensor.shape, generator=self._random, dtype=torch.float64).to(tensor.device)
        return drawn.mul_(2).sub_(1)

    def _draw(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        narrow_args = mapped(args, _narrow)
        result = func(*narrow_args, **{k: mapped(v, _narrow) for k, v in kwargs.items()})
        for given, used in zip(args, narrow_args, strict=True):
            if isinstance(given, torch.Tensor) and given is not used and id(given) in _written(func, args):
                given.copy_(used)
                return given
        return mapped(result, self._entered)


def _narrow(value: Any) -> Any:
    """What the program had, most likely: the dtypes themselves are gone by now."""
    if isinstance(value, torch.Tensor) and value.dtype is torch.float64:
        return value.to(torch.float32)
    if isinstance(value, torch.Tensor) and value.dtype is torch.complex128:
        return value.to(torch.complex64)
    return value


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [t for one in value for t in _tensors(one)]
    return []


def _memories(values: Sequence[Any]) -> set[int]:
    return {t.untyped_storage().data_ptr() for t in _tensors(values) if t.layout is torch.strided}


def _written(func: Any, args: Sequence[Any]) -> set[int]:
    """Arguments that the operator writes: they must stay the objects they are."""
    return {id(t) for place in torch_api.written_arguments(func) if place < len(args) for t in _tensors(args[place])}
