"""What rounding decides is not free: it may go the ways that rounding takes it, and no others.

A code that is 39 or 40 by the last bit of a float is not wrong as either; it is wrong as 0.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from torchsleuth.referee.blocks import InParts, Largest, Rms, blocks, element, shape_of, size_of, unravel
from torchsleuth.referee.verdict import Difference, References, comparable, moves_much

_SPREADS = 10.0  # how many times as far as the nudged runs lie apart


def far_out(
    path: str, eager: torch.Tensor, compiled: torch.Tensor, given: References, more: Sequence[object] = ()
) -> Difference | None:
    """Elements that move under a nudge, where compiled lies far from wherever they went, and eager does not.

    As a whole: of single elements, some are always met that happened to move little.
    """
    if eager.dtype is torch.bool or not comparable(given.exact, eager):
        return None
    runs = [p for p in (*given.nudged, *more) if isinstance(p, (torch.Tensor, InParts)) and comparable(p, eager)]
    floating = eager.dtype.is_floating_point or eager.dtype.is_complex
    unstable, size = (moves_much(given.nudge), size_of(given.exact)) if floating else (0.0, 0.0)
    spread, apart, own, scale, worst = Rms(), Rms(), Rms(), Rms(), Largest()
    between = (0.0, 0.0)
    for start, (e, c, *others) in blocks(eager, compiled, given.exact, *runs):
        r, stacked = others[0], torch.stack(others)
        low, high = stacked.amin(0), stacked.amax(0)
        counted = high - low > unstable * (r.abs() + size)
        counted &= low.isfinite() & high.isfinite() & e.isfinite() & c.isfinite()
        spread.add((high - low)[counted])
        away = torch.where(counted, _outside(c, low, high), torch.zeros_like(c))
        apart.add(away[counted])
        own.add(_outside(e, low, high)[counted])
        scale.add(r[counted])
        if worst.add(start, away):
            between = float(low[worst.place - start]), float(high[worst.place - start])
    if not apart.value > _SPREADS * (spread.value + own.value):
        return None
    place = unravel(worst.place, shape_of(eager))
    line = (
        f"at {list(place)} compiled gives {element(compiled, place):.6g}, eager {element(eager, place):.6g}, float64 "
        f"{element(given.exact, place):.6g}; rounding only moves it between {between[0]:.6g} and {between[1]:.6g}"
    )
    unit = scale.value or 1.0
    return Difference(path, "values", line, apart.value / unit, own.value / unit, scale.value)


def _outside(value: torch.Tensor, low: torch.Tensor, high: torch.Tensor) -> torch.Tensor:
    return (low - value).clamp(min=0) + (value - high).clamp(min=0)
