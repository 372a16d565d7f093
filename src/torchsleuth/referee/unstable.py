"""What rounding decides is not free: it may go the ways that rounding takes it, and no others.

A code that is 39 or 40 by the last bit of a float is not wrong as either; it is wrong as 0.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from torchsleuth.referee.verdict import Difference, References, comparable, doubles, first_of, moves_much, rms

_SPREADS = 10.0  # how many times as far as the nudged runs lie apart


def far_out(
    path: str, eager: torch.Tensor, compiled: torch.Tensor, given: References, more: Sequence[object] = ()
) -> Difference | None:
    """Elements that move under a nudge, where compiled lies far from wherever they went, and eager does not.

    As a whole: of single elements, some are always met that happened to move little.
    """
    if eager.dtype is torch.bool or not comparable(given.exact, eager):
        return None
    r = doubles(given.exact)
    runs = [r, *(doubles(p) for p in (*given.nudged, *more) if comparable(p, eager))]
    low, high = torch.stack(runs).amin(0), torch.stack(runs).amax(0)
    e, c = doubles(eager), doubles(compiled)
    least = moves_much(r, given.nudge) if eager.dtype.is_floating_point or eager.dtype.is_complex else 0.0
    counted = (high - low > least) & low.isfinite() & high.isfinite() & e.isfinite() & c.isfinite()
    if not bool(counted.any()):
        return None
    spread = rms((high - low)[counted])
    away = torch.where(counted, _outside(c, low, high), torch.zeros_like(c))
    apart, own = rms(away[counted]), rms(_outside(e, low, high)[counted])
    if not apart > _SPREADS * (spread + own):
        return None
    place = first_of(away == away.max())
    line = (
        f"at {list(place)} compiled gives {c[place].item():.6g}, eager {e[place].item():.6g}, float64 "
        f"{r[place].item():.6g}; rounding only moves it between {low[place].item():.6g} and {high[place].item():.6g}"
    )
    scale = rms(r[counted])
    unit = scale or 1.0
    return Difference(path, "values", line, apart / unit, own / unit, scale)


def _outside(value: torch.Tensor, low: torch.Tensor, high: torch.Tensor) -> torch.Tensor:
    return (low - value).clamp(min=0) + (value - high).clamp(min=0)
