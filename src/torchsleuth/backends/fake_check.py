"""Does the fake kernel of an operator describe what the real one gives?

torch.compile traces with fake tensors, which have a shape and no data; the shapes, dtypes and strides that fake kernels
(also called meta kernels) give are compiled in.  Here each operator runs both ways and the two are compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from torchsleuth import torch_api
from torchsleuth.backends.mismatches import WrongFakeKernel
from torchsleuth.backends.operator_mode import OperatorMode
from torchsleuth.backends.where import here

# torch's own, on CUDA: their random seeds come on another device than is said, and only their backward reads them.
_SEEDED = frozenset(
    "aten::_scaled_dot_product_flash_attention aten::_scaled_dot_product_efficient_attention "
    "aten::_scaled_dot_product_cudnn_attention aten::_flash_attention_forward "
    "aten::_efficient_attention_forward".split()
)


class FakeCheck(OperatorMode):
    """Raises `WrongFakeKernel` at the first operator whose fake kernel says something else.

    A context manager by itself: `with FakeCheck(): model(x)` checks what runs in eager, also where a wrong shape would
    let torch.compile fail before any backend sees the graph.
    """

    def checked(self, operator: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        call = torch_api.FakeCall.of(operator, args, kwargs)
        result = operator(*args, **kwargs)
        difference = _difference(call, (result, tuple(args), kwargs))
        if difference:
            raise WrongFakeKernel(str(operator), difference, here())
        return result


def _difference(call: torch_api.FakeCall, real: Any) -> str:
    try:
        said = (call.result(), call.args, call.kwargs)
    except torch_api.NoFakeAnswer:
        return ""
    except Exception as error:  # whatever a user's kernel raises, the real one did not
        text = str(error).partition("\n")[0]
        return f"the fake kernel raises {type(error).__name__}: {text}; the real one did not raise"
    places = zip(("result", "argument", "argument"), said, real, strict=True)
    seeded = call.operator.name().partition(".")[0] in _SEEDED
    for place, fakes, reals in places:
        for what, text in _differences(place, torch_api.flat(fakes), torch_api.flat(reals)):
            if not (seeded and what == "device"):
                return text
    return ""


def _differences(place: str, fakes: Sequence[Any], reals: Sequence[Any]) -> Iterator[tuple[str, str]]:
    """What differs, and the sentence that says it."""
    if len(fakes) != len(reals):
        yield "count", f"the fake kernel says {len(fakes)} results, the real one gave {len(reals)}"
        return
    for i, (fake, real) in enumerate(zip(fakes, reals, strict=True)):
        which = f"{place} {i}: " if place == "argument" or len(fakes) > 1 else ""
        if isinstance(fake, torch.Tensor) != isinstance(real, torch.Tensor):
            kinds = [type(value).__name__ for value in (fake, real)]
            yield "type", f"{which}the fake kernel says {kinds[0]}, the real one gave {kinds[1]}"
        elif isinstance(real, torch.Tensor):
            for what, said, seen in _facts(fake, real):
                yield what, f"{which}the fake kernel says {what} {said}, the real one gave {seen}"


def _facts(fake: torch.Tensor, real: torch.Tensor) -> Iterator[tuple[str, Any, Any]]:
    """What differs: name, by the fake kernel, by the real one."""
    if len(fake.shape) != len(real.shape) or not all(map(_same, fake.shape, real.shape)):
        yield "shape", _text(fake.shape), _text(real.shape)
    if fake.dtype != real.dtype:
        yield "dtype", fake.dtype, real.dtype
    if fake.device != real.device:
        yield "device", fake.device, real.device
    if fake.layout != real.layout:
        yield "layout", fake.layout, real.layout
    elif real.layout is torch.strided and len(fake.shape) == len(real.shape) and real.numel():
        # The step of a dimension of one element is never taken.
        steps = [(f, r) for f, r, size in zip(fake.stride(), real.stride(), real.shape, strict=True) if size > 1]
        if not all(_same(f, r) for f, r in steps):
            yield "stride", _text(fake.stride()), _text(real.stride())


def _same(said: Any, seen: int) -> bool:
    """A size that only the data decide is nobody's mistake."""
    known = torch_api.hint_of(said)
    return known is None or known == seen


def _text(sizes: Sequence[Any]) -> str:
    return str(tuple(torch_api.expression_of(size) for size in sizes))
