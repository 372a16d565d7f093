"""Eager in its own precision, with every rounded result moved by a unit or so in the last place.

How far this moves what comes out is how far two runs of the same kernels may be apart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from torchsleuth import torch_api
from torchsleuth.referee import equals, parts
from torchsleuth.referee.bodies import SeesBodies
from torchsleuth.referee.rounding import rounds

_UNIT = 2.0**-22  # twice what rounding does to float32
_FAR = 16  # units in the last place
_WIDE = (torch.float32, torch.float64, torch.complex64, torch.complex128)
_NARROW = (torch.float16, torch.bfloat16)


class Nudged(SeesBodies):
    """Narrow dtypes are left alone: they are moved by what is wide before it is cast to them.

    Not where results are moved `far`: by some units, and narrow ones in their own last place.
    """

    def __init__(self, seed: int, *, far: bool = False, units: int = _FAR) -> None:
        """`units`: in the last place, how far results are moved; 0 moves none."""
        super().__init__()
        self._seed = seed
        self._far = far and units > 0
        self._units = dict.fromkeys(_WIDE, _UNIT)
        if far:
            self._units = {dtype: units * torch.finfo(dtype).eps for dtype in _WIDE}
            self._units |= {dtype: torch.finfo(dtype).eps for dtype in _NARROW}
        if far and not units:
            self._units = {}
        self._draws: dict[torch.device, torch.Generator] = {}

    def __torch_dispatch__(
        self,
        operator: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        given = kwargs or {}
        if torch_api.is_higher_order(operator):
            found = self.run_with_bodies(operator, args, given)
            return operator(*args, **given) if found is NotImplemented else found
        found = operator(*args, **given)
        if self._far and equals.applies(operator, args, given):
            return self._among_equals(operator, args, given, found)
        written = torch_api.written_arguments(operator)
        if written or not rounds(operator, given.get("dtype")):
            return found
        sizes = parts.sizes(operator, args, given) if self._far else None
        if sizes is not None and isinstance(found, torch.Tensor) and found.shape == sizes[0].shape:
            return self._moved(found, sizes[0])  # a sum is moved by what its parts round
        return _each(found, self._moved)

    def _among_equals(self, operator: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], found: Any) -> Any:
        """One way or the other changes the places, where there are equals at all."""
        steps = torch.rand(args[0].shape, device=args[0].device, generator=self._draw(args[0]), dtype=torch.float64)
        for way in (steps, -steps):
            other = equals.chosen_otherwise(operator, args, kwargs, found, way)
            if isinstance(other, tuple) and not torch.equal(other[1], found[1]):
                return other
        return found

    def _draw(self, tensor: torch.Tensor) -> torch.Generator:
        if tensor.device not in self._draws:
            self._draws[tensor.device] = torch.Generator(tensor.device).manual_seed(self._seed)
        return self._draws[tensor.device]

    def _moved(self, tensor: torch.Tensor, size: torch.Tensor | None = None) -> torch.Tensor:
        if tensor.dtype not in self._units or tensor.layout is not torch.strided or not tensor.numel():
            return tensor
        signs = torch.randint(0, 2, tensor.shape, device=tensor.device, generator=self._draw(tensor), dtype=torch.int8)
        real = torch.float32 if tensor.dtype in _NARROW else tensor.real.dtype
        moved = tensor + self._units[tensor.dtype] * (2 * signs - 1).to(real) * (tensor if size is None else size)
        return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device).copy_(moved)


def _each(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, (list, tuple)):
        return type(value)(_each(one, change) for one in value)
    return value
