"""What a sum is made of: where large parts cancel, its rounding goes by their size and not by what is left of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from torchsleuth.operators.names import name_of

_SUMS = frozenset({"sum", "mean", "nansum", "cumsum"})
_SPREADS = frozenset({"var", "std", "var_mean", "std_mean"})
# Of one rounding of each part: a loop that adds them up one after the other, in a vector's lanes, is this far off.
_ADDED = 0.25


def sizes(operator: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[torch.Tensor, ...] | None:
    """For each result of an operator that adds, the size that its rounding goes by; None where that is the result's."""
    name = name_of(operator).name
    given = args[0] if args else None
    if not isinstance(given, torch.Tensor) or not given.is_floating_point():
        return None
    if name in _SUMS:
        return (_ADDED * operator(given.abs(), *args[1:], **kwargs),)
    if name not in _SPREADS:
        return None
    dim = args[1] if len(args) > 1 else kwargs.get("dim")
    over: dict[str, Any] = {"dim": dim, "keepdim": bool(kwargs.get("keepdim", False))}
    part = given.abs().mean(**over)
    # A spread is a difference from the mean: of numbers far from zero little is left, and it is squared.
    spread = part if name.startswith("std") else 2 * part * given.std(**over, correction=0)
    return tuple(_ADDED * size for size in ((spread, part) if name.endswith("_mean") else (spread,)))
