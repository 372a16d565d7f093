"""Eager in its own precision, with every rounded result moved by a unit or so in the last place.

How far this moves what comes out is how far two runs of the same kernels may be apart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from torchsleuth import torch_api
from torchsleuth.referee.rounding import rounds

_UNIT = 2.0**-22  # twice what rounding does to float32
_SOME_UNITS = 2.0**-19
_WIDE = (torch.float32, torch.float64, torch.complex64, torch.complex128)
_NARROW = (torch.float16, torch.bfloat16)


class Nudged(torch_api.dispatch_mode()):  # type: ignore[misc]
    """Narrow dtypes are left alone: they are moved by what is wide before it is cast to them.

    Not where results are moved `far`: by some units, and narrow ones in their own last place.
    """

    def __init__(self, seed: int, *, far: bool = False) -> None:
        super().__init__()
        self._seed = seed
        self._units = dict.fromkeys(_WIDE, _SOME_UNITS if far else _UNIT)
        if far:
            self._units |= {dtype: torch.finfo(dtype).eps for dtype in _NARROW}
        self._draws: dict[torch.device, torch.Generator] = {}

    def __torch_dispatch__(
        self,
        operator: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        given = kwargs or {}
        found = operator(*args, **given)
        written = torch_api.written_arguments(operator)
        if written or not rounds(operator, given.get("dtype")):
            return found
        return _each(found, self._moved)

    def _moved(self, tensor: torch.Tensor) -> torch.Tensor:
        if tensor.dtype not in self._units or tensor.layout is not torch.strided or not tensor.numel():
            return tensor
        draw = self._draws.get(tensor.device)
        if draw is None:
            draw = self._draws[tensor.device] = torch.Generator(tensor.device).manual_seed(self._seed)
        signs = torch.randint(0, 2, tensor.shape, device=tensor.device, generator=draw, dtype=torch.int8)
        factor = 1 + self._units[tensor.dtype] * (2 * signs - 1).to(torch.float32)
        moved = tensor * (factor if tensor.dtype in _NARROW else factor.to(tensor.real.dtype))
        return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device).copy_(moved)


def _each(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, (list, tuple)):
        return type(value)(_each(one, change) for one in value)
    return value
