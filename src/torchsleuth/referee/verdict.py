"""Is compiled wrong?  Error against float64 decides: wrong is what is worse than eager by more than precision explains.

An element counts only where eager agrees with the reference, and where a nudge of the inputs by less than rounding does
does not already change the answer: ties in comparisons, sorting and routing go either way.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from torchsleuth.referee.blocks import (
    Counted,
    InParts,
    Largest,
    Rms,
    blocks,
    element,
    is_complex,
    shape_of,
    size_of,
    unravel,
)
from torchsleuth.referee.values import Holder, NotCompared, Repeated

_TIMES_EAGER = 10.0  # compiled code sums in another order, and is not called wrong for it
_ROUNDINGS = 10.0
ROUNDING = "no more than rounding explains"
_TIE = "a comparison of floats that rounding decides, or a choice among equals"
_ALL_ROUNDING = "nothing but rounding is left in it"
BY_ROUNDING = (ROUNDING, _TIE, _ALL_ROUNDING)
_LAST_PLACES = 100.0  # that the same kernels may be apart, where nothing makes them differ
_COMPARED_WHOLE = {torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.complex64, torch.complex128}
_MOST_TEXT = 200  # characters of a value in a message
_UNSTABLE = 1e-2  # of its size: what moves so far under a nudge says nothing


@dataclass(frozen=True)
class Difference:
    path: str
    how: str  # values, nan, dtype, shape, type
    text: str  # one line of numbers
    compiled_error: float = 0.0  # RMS against float64, relative to its size
    eager_error: float = 0.0
    scale: float = 0.0  # RMS of the values themselves
    excused: str = ""  # why it does not count


@dataclass(frozen=True)
class References:
    """One output by float64: as it is, and nudged both ways."""

    exact: Any
    nudged: Sequence[Any] = ()
    nudge: float = 0.0
    borrows: bool = False  # whether the runs that made them did with the inputs as they are


def alike(eager: Any, compiled: Any) -> bool:
    """Whether nobody needs a reference to call them the same."""
    if not isinstance(eager, torch.Tensor) or not isinstance(compiled, torch.Tensor):
        return type(eager) is type(compiled) and _same_plain(eager, compiled)
    if eager.dtype != compiled.dtype or eager.shape != compiled.shape:
        return False
    if not eager.dtype.is_floating_point and not eager.dtype.is_complex:
        return bool(torch.equal(eager, compiled))
    if eager.dtype in _COMPARED_WHOLE and torch.equal(eager, compiled):
        return True  # most are, and this takes no memory
    apart, size = Rms(), Rms()
    for _, (e, c) in blocks(eager, compiled):
        both = e.isfinite()
        same = (both & c.isfinite()) | (e == c) | (e.isnan() & c.isnan())
        if not bool(same.all()):
            return False
        apart.add((e - c)[both])
        size.add(e[both])
    return apart.value <= 2 * _epsilon(eager.dtype) * size.value


def plain_difference(path: str, eager: Any, compiled: Any) -> Difference | None:
    """What needs no reference: another type, shape or dtype."""
    if not isinstance(eager, torch.Tensor) or not isinstance(compiled, torch.Tensor):
        if _of_other_types(eager, compiled):
            return Difference(path, "type", f"compiled gives {_what(compiled)}, eager {_what(eager)}")
        if isinstance(eager, (float, complex)):
            return _unequal_floats(path, eager, compiled)
        return None if _same_plain(eager, compiled) else _unequal(path, eager, compiled)
    if eager.shape != compiled.shape:
        return Difference(path, "shape", f"compiled gives {_size(compiled)}, eager {_size(eager)}")
    if eager.dtype != compiled.dtype:
        return Difference(path, "dtype", f"compiled gives {compiled.dtype}, eager {eager.dtype}")
    return None


def _of_other_types(eager: Any, compiled: Any) -> bool:
    if isinstance(eager, (Holder, NotCompared, Repeated)):
        return bool(eager != compiled)
    return type(eager) is not type(compiled)


def judge(path: str, eager: torch.Tensor, compiled: torch.Tensor, references: References | None) -> Difference | None:
    """Tensors of one shape and dtype that are not alike."""
    if references is None or not comparable(references.exact, eager):
        return _without_reference(path, eager, compiled)
    if eager.dtype.is_floating_point or eager.dtype.is_complex:
        return _floats(path, eager, compiled, references)
    return _whole_numbers(path, eager, compiled, references)


def _whole_numbers(path: str, eager: torch.Tensor, compiled: torch.Tensor, given: References) -> Difference | None:
    stable = torch.ones_like(eager, dtype=torch.bool)
    for other in given.nudged:
        if comparable(other, eager):
            stable &= other == given.exact
    differ = eager != compiled
    wrong = differ & (eager == given.exact) & stable
    count = int(wrong.sum())
    place = first_of(wrong if count else differ)
    line = (
        f"{count or int(differ.sum())} of {eager.numel()} elements differ; at {list(place)} compiled gives "
        f"{compiled[place].item()}, eager {eager[place].item()}, float64 {given.exact[place].item()}"
    )
    if count:
        return Difference(path, "values", line, count / eager.numel())
    return Difference(path, "values", line, excused=_TIE)


def _floats(path: str, eager: torch.Tensor, compiled: torch.Tensor, given: References) -> Difference | None:
    near = [other for other in given.nudged if comparable(other, eager)]
    limit = 0.99 * torch.finfo(eager.dtype).max
    unstable, size = moves_much(given.nudge), size_of(given.exact)
    other_class, finite_in_one = Counted(), Counted()
    scale, worse, own, moved = Rms(), Rms(), Rms(), [Rms() for _ in near]
    worst = Largest()
    for start, (e, c, r, *others) in blocks(eager, compiled, given.exact, *near):
        stable = torch.ones_like(e, dtype=torch.bool)
        much = unstable * (r.abs() + size)
        for p in others:
            stable &= (p.isfinite() == r.isfinite()) & ~((p - r).abs() > much)
        agrees = (e.isfinite() == r.isfinite()) & (e.isnan() == r.isnan()) & ~(r.isfinite() & (r.abs() > limit))
        unlike = (c.isnan() != e.isnan()) | (c.isinf() != e.isinf()) | (e.isinf() & (c != e))
        other_class.add(start, stable & agrees & unlike)
        finite_in_one.add(start, e.isfinite() != c.isfinite())
        counted = stable & e.isfinite() & c.isfinite() & r.isfinite()
        scale.add(r[counted])
        worse.add((c - r)[counted])
        own.add((e - r)[counted])
        for total, p in zip(moved, others, strict=True):
            total.add((p - r)[counted])
        worst.add(start, torch.where(counted, (c - r).abs(), torch.zeros_like(e)))
    if other_class.count:
        line = f"{other_class.count} of {math.prod(shape_of(eager))} elements; " + _at(
            other_class.place, "g", compiled=compiled, eager=eager, float64=given.exact
        )
        return Difference(path, "nan", line, 1.0)
    sides = Difference(
        path, "nan", _at(finite_in_one.place, "g", compiled=compiled, eager=eager, float64=given.exact),
        excused="float64 sides with compiled, not with eager",
    )  # fmt: skip
    if not scale.count:
        return (
            sides if finite_in_one.count else Difference(path, "values", "all of it is rounding", excused=_ALL_ROUNDING)
        )
    noise = max((m.value for m in moved), default=0.0) * (2.0**-23 / given.nudge if given.nudge else 0.0)
    explained = _TIMES_EAGER * max(own.value, noise) + _ROUNDINGS * _epsilon(eager.dtype) * scale.value
    unit = scale.value or 1.0
    line = f"RMS error against float64: compiled {worse.value:.3g}, eager {own.value:.3g}; worst " + _at(
        worst.place, ".6g", compiled=compiled, eager=eager, float64=given.exact
    )
    found = Difference(path, "values", line, worse.value / unit, own.value / unit, scale.value)
    if worse.value > explained:
        return found
    return sides if finite_in_one.count else replace(found, excused=ROUNDING)


def moves_much(nudge: float) -> float:
    """How far an element may move under a nudge and still say something, in sizes of its own and of all together."""
    return max(_UNSTABLE, 8 * nudge)


def beyond(path: str, eager: torch.Tensor, compiled: torch.Tensor, moved: Sequence[Any]) -> Difference | None:
    """Of the same kernels: more apart than eager is from itself, moved in the last place."""
    near = [other for other in moved if comparable(other, eager)]
    if not near or not eager.dtype.is_floating_point:
        return None
    scale, apart, noises, worst = Rms(), Rms(), [Rms() for _ in near], Largest()
    for start, (e, c, *others) in blocks(eager, compiled, *near):
        counted = e.isfinite() & c.isfinite()
        scale.add(e[counted])
        apart.add((c - e)[counted])
        for total, p in zip(noises, others, strict=True):
            total.add((p - e)[counted])
        worst.add(start, torch.where(counted, (c - e).abs(), torch.zeros_like(e)))
    noise = max(n.value for n in noises)
    if not apart.value > _TIMES_EAGER * noise + _LAST_PLACES * _epsilon(eager.dtype) * scale.value:
        return None
    line = (
        f"RMS difference from eager {apart.value:.3g}, where the same kernels may be {noise:.3g} apart; worst "
        + _at(worst.place, ".6g", compiled=compiled, eager=eager)
    )
    unit = scale.value or 1.0
    return Difference(path, "values", line, apart.value / unit, noise / unit, scale.value)


def _without_reference(path: str, eager: torch.Tensor, compiled: torch.Tensor) -> Difference:
    """Only what no rounding explains counts: there is nothing to measure rounding by."""
    if not (eager.dtype.is_floating_point or eager.dtype.is_complex):
        differ = eager != compiled
        place = first_of(differ)
        line = (
            f"{int(differ.sum())} of {eager.numel()} elements differ; at {list(place)} compiled gives "
            f"{compiled[place].item()}, eager {eager[place].item()}"
        )
        return Difference(path, "values", line, float(differ.double().mean()))
    apart, scale, nans, worst = Rms(), Rms(), Counted(), Largest()
    near_overflow = torch.finfo(eager.dtype).max / 2  # rounding alone takes what is larger to infinity
    for start, (e, c) in blocks(eager, compiled):
        both = e.isfinite() & c.isfinite()
        apart.add((e - c)[both])
        scale.add(e[both])
        unlike = (e.isinf() | c.isinf()) & (e != c) & (torch.where(e.isinf(), c, e).abs() < near_overflow)
        unlike |= e.isinf() & c.isinf() & (e != c)
        nans.add(start, (e.isnan() != c.isnan()) | unlike)
        worst.add(start, torch.where(both, (c - e).abs(), torch.zeros_like(e)))
    if nans.count:
        return Difference(path, "nan", _at(nans.place, "g", compiled=compiled, eager=eager), 1.0)
    unit = scale.value or 1.0
    line = (
        f"RMS difference from eager {apart.value:.3g} at a size of {scale.value:.3g}, without a float64 reference; "
        "worst " + _at(worst.place, ".6g", compiled=compiled, eager=eager)
    )
    loose = max(1e-3, 30 * _epsilon(eager.dtype))
    return Difference(path, "values", line, apart.value / unit, excused="" if apart.value > loose * unit else ROUNDING)


def comparable(reference: Any, eager: torch.Tensor | InParts) -> bool:
    return (
        isinstance(reference, (torch.Tensor, InParts))
        and reference.shape == eager.shape
        and is_complex(reference) == is_complex(eager)
    )


def _epsilon(dtype: torch.dtype) -> float:
    return float(torch.finfo(dtype).eps)


def first_of(mask: torch.Tensor) -> tuple[int, ...]:
    return unravel(int(mask.flatten().to(torch.uint8).argmax()), mask.shape)


def _at(index: int, how: str, *, compiled: torch.Tensor, **others: torch.Tensor | InParts) -> str:
    """What each has there: at [0, 3] compiled gives 1, eager 2."""
    if not compiled.numel():
        return "nowhere"
    place = unravel(index, shape_of(compiled))
    rest = "".join(f", {name} {element(value, place):{how}}" for name, value in others.items())
    return f"at {list(place)} compiled gives {element(compiled, place):{how}}{rest}"


def _same_plain(eager: Any, compiled: Any) -> bool:
    """Of one type.  A nan is the same as another nan, and as nothing else: as torch.testing has it with equal_nan."""
    if eager is compiled:
        return True
    if isinstance(eager, (float, complex)) and (eager != eager or compiled != compiled):
        return bool(eager != eager and compiled != compiled)
    return bool(eager == compiled)


def _unequal_floats(path: str, eager: Any, compiled: Any) -> Difference | None:
    e, c = (torch.tensor(v, dtype=torch.complex128) for v in (eager, compiled))
    if bool(e.isnan() != c.isnan()) or bool((e.isinf() | c.isinf()) & (e != c) & ~e.isnan()):
        return replace(_unequal(path, eager, compiled), how="nan")
    return None if torch.allclose(e, c, rtol=1e-5, equal_nan=True) else _unequal(path, eager, compiled)


def _unequal(path: str, eager: Any, compiled: Any) -> Difference:
    gives, others = _shortened(compiled), _shortened(eager)
    return Difference(path, "values", f"compiled gives {gives}, eager {others}", 1.0)


def _shortened(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}..."


def _what(value: Any) -> str:
    if isinstance(value, (Holder, NotCompared)):
        return f"a {value.kind}"
    if isinstance(value, Repeated):
        return f"{value.path} again"
    return f"a {type(value).__name__}" if not isinstance(value, torch.Tensor) else f"a tensor of {_size(value)}"


def _size(tensor: torch.Tensor) -> str:
    return str(list(tensor.shape))
