"""Whether a float64 run computes what eager does: torch takes other ways through some operators while it is looked on.

Under any mode, and in the first call of compiled code, `linalg.pinv` of a complex matrix goes wrong in torch 2.13.  The
float64 run goes wrong with it, and so it sides with compiled code.  A run in eager's own precision tells: where merely
looking on makes eager's result the one of float64, the float64 run is none of what the program computes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from torchsleuth import torch_api
from torchsleuth.referee import verdict
from torchsleuth.referee.blocks import Rms, blocks
from torchsleuth.referee.bodies import SeesBodies
from torchsleuth.referee.values import Seen
from torchsleuth.referee.verdict import Difference, References

OF_SOMETHING_ELSE = "torch computes this otherwise where its operators are looked at, so there is no float64 reference"
_FAR = 1e-3  # of its size: nearer than that to float64, eager is what float64 is the reference of
_ROUNDINGS = 8.0
_NEARER = 0.1  # times as far from float64 as eager is


class LookedAt(SeesBodies):
    """Eager as it is, each operator seen and none changed."""

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        given = kwargs or {}
        found = self.run_with_bodies(func, args, given) if torch_api.is_higher_order(func) else NotImplemented
        return func(*args, **given) if found is NotImplemented else found


def judged_again(
    excused: Sequence[Difference],
    values: Mapping[str, tuple[Any, Any]],
    references: Mapping[str, References],
    eager: Callable[[], Sequence[Seen]],
) -> list[Difference]:
    """What is excused by a reference that is none is judged without."""
    doubtful = {
        one.path for one in excused
        if one.path in references and _far(values[one.path][0], references[one.path].exact)
    }  # fmt: skip
    if not doubtful:
        return list(excused)
    try:
        with LookedAt():
            looked_at = {s.path: s.value for s in eager() if s.path in doubtful}
    except Exception:  # a model may refuse to be looked at with any error of its own
        return list(excused)
    found: list[Difference] = []
    for one in excused:
        e, c = values.get(one.path, (None, None))
        if one.path in looked_at and _sides_with(references[one.path].exact, looked_at[one.path], e):
            without = verdict.judge(one.path, e, c, None)
            one = replace(without, text=f"{without.text} ({OF_SOMETHING_ELSE})") if without is not None else one
        found.append(one)
    return found


def _far(e: Any, exact: Any) -> bool:
    """Whether eager is further from its reference than rounding takes a well-behaved program."""
    if not isinstance(e, torch.Tensor) or not verdict.comparable(exact, e):
        return False
    if not (e.dtype.is_floating_point or e.dtype.is_complex):
        return isinstance(exact, torch.Tensor) and not torch.equal(e.to(exact.dtype), exact)
    limit = max(_FAR, _ROUNDINGS * float(torch.finfo(e.dtype).eps))
    apart, size, classes = _apart(e, exact)
    return classes > 0 or apart > limit * size


def _sides_with(exact: Any, seen: Any, e: torch.Tensor) -> bool:
    """Whether what eager gives while it is looked at is the reference's, and its own is not."""
    if not isinstance(seen, torch.Tensor) or seen.dtype != e.dtype or not verdict.comparable(exact, seen):
        return False
    if not (e.dtype.is_floating_point or e.dtype.is_complex):
        return int((seen != exact).sum()) < _NEARER * int((e != exact).sum())
    own, of_seen = _apart(e, exact), _apart(seen, exact)
    return (of_seen[0] < _NEARER * own[0] and of_seen[2] <= own[2]) or of_seen[2] < _NEARER * own[2]


def _apart(value: torch.Tensor, exact: Any) -> tuple[float, float, int]:
    """RMS of the distance and of the size, where both are finite; and how many elements are so in one alone."""
    apart, size, classes = Rms(), Rms(), 0
    for _, (v, r) in blocks(value, exact):
        both = v.isfinite() & r.isfinite()
        apart.add((v - r)[both])
        size.add(r[both])
        classes += int((v.isfinite() != r.isfinite()).sum())
    return apart.value, size.value, classes
