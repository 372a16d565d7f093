"""Places among equal elements, chosen otherwise: where "the first of them" is not promised, any of them is right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from torchsleuth.referee import rounding

_LEAST = 2.0**-40  # of its size: no two elements change places that are not equal
_OF_ZERO = 1e-300


def chosen_otherwise(
    operator: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any, steps: torch.Tensor
) -> Any:
    """`result` with other places; `steps`, from -1 to 1, say which of several equal elements come first.

    CUDA sorts equal elements as it likes, and compiled code does so too.
    """
    if not isinstance(result, (tuple, list)) or len(result) < 2:
        return result
    given = args[0]
    if given.dtype.is_floating_point:
        wide = given.to(torch.float64)
        near = torch.where(wide.isfinite(), wide + steps * (_LEAST * wide.abs() + _OF_ZERO), wide)
    else:
        near = given.to(torch.float64) + 0.25 * steps
    return (result[0], *operator(near, *args[1:], **kwargs)[1:])


def applies(operator: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    if not rounding.free_among_equals(operator, kwargs.get("stable")):
        return False
    return isinstance(args[0], torch.Tensor) and not args[0].dtype.is_complex and args[0].numel() > 1
