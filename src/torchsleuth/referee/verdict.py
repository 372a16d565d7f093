"""Is compiled wrong?  Error against float64 decides: wrong is what is worse than eager by more than precision explains.

An element counts only where eager agrees with the reference, and where a nudge of the inputs by less than rounding does
does not already change the answer: ties in comparisons, sorting and routing go either way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

_TIMES_EAGER = 10.0  # compiled code sums in another order, and is not called wrong for it
_ROUNDINGS = 10.0
ROUNDING = "no more than rounding explains"
_TIE = "a comparison of floats that rounding decides, or a choice among equals"
_ALL_ROUNDING = "nothing but rounding is left in it"
BY_ROUNDING = (ROUNDING, _TIE, _ALL_ROUNDING)
_LAST_PLACES = 100.0  # that the same kernels may be apart, where nothing makes them differ
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


def holds_nan(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return (value.is_floating_point() or value.is_complex()) and bool(doubles(value).isnan().any())
    return isinstance(value, (float, complex)) and value != value


def alike(eager: Any, compiled: Any) -> bool:
    """Whether nobody needs a reference to call them the same."""
    if not isinstance(eager, torch.Tensor) or not isinstance(compiled, torch.Tensor):
        return bool(eager is compiled or (type(eager) is type(compiled) and (eager == compiled or eager != eager)))
    if eager.dtype != compiled.dtype or eager.shape != compiled.shape:
        return False
    if not eager.dtype.is_floating_point and not eager.dtype.is_complex:
        return bool(torch.equal(eager, compiled))
    e, c = doubles(eager), doubles(compiled)
    same = (e == c) | (e.isnan() & c.isnan())
    if bool(same.all()):
        return True
    if bool((e.isfinite() != c.isfinite()).any()):
        return False
    both = e.isfinite()
    return bool(rms((e - c)[both]) <= 2 * _epsilon(eager.dtype) * rms(e[both]))


def plain_difference(path: str, eager: Any, compiled: Any) -> Difference | None:
    """What needs no reference: another type, shape or dtype."""
    if not isinstance(eager, torch.Tensor) or not isinstance(compiled, torch.Tensor):
        if isinstance(eager, torch.Tensor) or isinstance(compiled, torch.Tensor) or type(eager) is not type(compiled):
            return Difference(path, "type", f"compiled gives {_what(compiled)}, eager {_what(eager)}")
        if isinstance(eager, float):
            e, c = (torch.tensor(v, dtype=torch.float64) for v in (eager, compiled))
            return None if torch.allclose(e, c, rtol=1e-5, equal_nan=True) else _unequal(path, eager, compiled)
        return None if eager == compiled else _unequal(path, eager, compiled)
    if eager.shape != compiled.shape:
        return Difference(path, "shape", f"compiled gives {_size(compiled)}, eager {_size(eager)}")
    if eager.dtype != compiled.dtype:
        return Difference(path, "dtype", f"compiled gives {compiled.dtype}, eager {eager.dtype}")
    return None


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
    e, c, r = doubles(eager), doubles(compiled), doubles(given.exact)
    near = [doubles(other) for other in given.nudged if comparable(other, eager)]
    limit = 0.99 * torch.finfo(eager.dtype).max
    stable = torch.ones_like(e, dtype=torch.bool)
    much = moves_much(r, given.nudge)
    for p in near:
        stable &= (p.isfinite() == r.isfinite()) & ~((p - r).abs() > much)
    agrees = (e.isfinite() == r.isfinite()) & (e.isnan() == r.isnan()) & ~(r.isfinite() & (r.abs() > limit))
    other_class = stable & agrees & ((c.isnan() != e.isnan()) | (c.isinf() != e.isinf()) | (e.isinf() & (c != e)))
    if bool(other_class.any()):
        place = first_of(other_class)
        line = (
            f"{int(other_class.sum())} of {e.numel()} elements; at {list(place)} compiled gives {c[place].item():g}, "
            f"eager {e[place].item():g}, float64 {r[place].item():g}"
        )
        return Difference(path, "nan", line, 1.0)
    counted = stable & e.isfinite() & c.isfinite() & r.isfinite()
    scale = rms(r[counted])
    worse, own = rms((c - r)[counted]), rms((e - r)[counted])
    moved = max((rms((p - r)[counted]) for p in near), default=0.0)
    moved *= 2.0**-23 / given.nudge if given.nudge else 0.0
    explained = _TIMES_EAGER * max(own, moved) + _ROUNDINGS * _epsilon(eager.dtype) * scale
    unit = scale or 1.0
    if not bool(counted.any()):
        if bool((e.isfinite() != c.isfinite()).any()):
            return Difference(path, "nan", _classes(e, c, r), excused="float64 sides with compiled, not with eager")
        return Difference(path, "values", "all of it is rounding", excused=_ALL_ROUNDING)
    away = torch.where(counted, (c - r).abs(), torch.zeros_like(e))
    place = _unravel(int(away.argmax()), e.shape)
    line = (
        f"RMS error against float64: compiled {worse:.3g}, eager {own:.3g}; "
        f"worst at {list(place)}: compiled {c[place].item():.6g}, eager {e[place].item():.6g}, "
        f"float64 {r[place].item():.6g}"
    )
    if worse > explained:
        return Difference(path, "values", line, worse / unit, own / unit, scale)
    if bool((e.isfinite() != c.isfinite()).any()):
        return Difference(path, "nan", _classes(e, c, r), excused="float64 sides with compiled, not with eager")
    return Difference(path, "values", line, worse / unit, own / unit, scale, ROUNDING)


def moves_much(reference: torch.Tensor, nudge: float) -> torch.Tensor:
    """For each element: how far it may move under a nudge and still say something."""
    return max(_UNSTABLE, 8 * nudge) * (reference.abs() + rms(reference[reference.isfinite()]))


def beyond(path: str, eager: torch.Tensor, compiled: torch.Tensor, moved: Sequence[Any]) -> Difference | None:
    """Of the same kernels: more apart than eager is from itself, moved in the last place."""
    near = [doubles(other) for other in moved if comparable(other, eager)]
    if not near or not eager.dtype.is_floating_point:
        return None
    e, c = doubles(eager), doubles(compiled)
    counted = e.isfinite() & c.isfinite()
    scale, apart = rms(e[counted]), rms((c - e)[counted])
    noise = max(rms((other - e)[counted]) for other in near)
    if not apart > _TIMES_EAGER * noise + _LAST_PLACES * _epsilon(eager.dtype) * scale:
        return None
    away = torch.where(counted, (c - e).abs(), torch.zeros_like(e))
    place = _unravel(int(away.argmax()), e.shape)
    line = (
        f"RMS difference from eager {apart:.3g}, where the same kernels may be {noise:.3g} apart; "
        f"worst at {list(place)}: compiled {c[place].item():.6g}, eager {e[place].item():.6g}"
    )
    return Difference(path, "values", line, apart / (scale or 1.0), noise / (scale or 1.0), scale)


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
    e, c = doubles(eager), doubles(compiled)
    both = e.isfinite() & c.isfinite()
    error, scale = rms((e - c)[both]), rms(e[both])
    if bool((e.isnan() != c.isnan()).any()):
        return Difference(path, "nan", _classes(e, c, None), 1.0)
    away = torch.where(both, (c - e).abs(), torch.zeros_like(e))
    place = _unravel(int(away.argmax()), e.shape)
    line = (
        f"RMS difference from eager {error:.3g} at a size of {scale:.3g}, without a float64 reference; "
        f"worst at {list(place)}: compiled {c[place].item():.6g}, eager {e[place].item():.6g}"
    )
    loose = max(1e-3, 30 * _epsilon(eager.dtype))
    excused = "" if error > loose * (scale or 1.0) else ROUNDING
    return Difference(path, "values", line, error / (scale or 1.0), excused=excused)


def comparable(reference: Any, eager: torch.Tensor) -> bool:
    return isinstance(reference, torch.Tensor) and reference.shape == eager.shape


def doubles(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.dtype.is_complex:
        return torch.view_as_real(tensor.to(torch.complex128))
    return tensor.to(torch.float64)


def rms(tensor: torch.Tensor) -> float:
    return float(tensor.square().mean().sqrt()) if tensor.numel() else 0.0


def _epsilon(dtype: torch.dtype) -> float:
    return float(torch.finfo(dtype).eps)


def first_of(mask: torch.Tensor) -> tuple[int, ...]:
    return _unravel(int(mask.flatten().to(torch.uint8).argmax()), mask.shape)


def _unravel(index: int, shape: Sequence[int]) -> tuple[int, ...]:
    found: list[int] = []
    for size in reversed(shape):
        found.append(index % size)
        index //= size
    return tuple(reversed(found))


def _classes(e: torch.Tensor, c: torch.Tensor, r: torch.Tensor | None) -> str:
    place = first_of((e.isnan() != c.isnan()) | (e.isfinite() != c.isfinite()))
    reference = f", float64 {r[place].item():g}" if r is not None else ""
    return f"at {list(place)} compiled gives {c[place].item():g}, eager {e[place].item():g}{reference}"


def _unequal(path: str, eager: Any, compiled: Any) -> Difference:
    return Difference(path, "values", f"compiled gives {compiled!r}, eager {eager!r}", 1.0)


def _what(value: Any) -> str:
    return f"a {type(value).__name__}" if not isinstance(value, torch.Tensor) else f"a tensor of {_size(value)}"


def _size(tensor: torch.Tensor) -> str:
    return str(list(tensor.shape))
