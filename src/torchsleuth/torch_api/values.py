"""Values that graphs hold: symbolic sizes, fake tensors, tensors of odd kinds."""

from __future__ import annotations

import contextlib
from typing import Any

import torch

_ELEMENTS = 2**20  # read at once


def is_symbolic(value: object) -> bool:
    return isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool))


def expression_of(value: Any) -> int | float | bool | str:
    """A plain number, or the text of a symbolic one's expression."""
    if not is_symbolic(value):
        return value  # type: ignore[no-any-return]
    node = value.node
    constant = node.maybe_as_int() if isinstance(value, torch.SymInt) else None
    return constant if constant is not None else str(node.expr)


def hint_of(value: Any) -> int | float | bool | None:
    """The number that a symbolic value stood for when it was traced, or None if nobody knows (unbacked)."""
    if not is_symbolic(value):
        return value  # type: ignore[no-any-return]
    node = value.node
    return node.hint if node.has_hint() else None


def is_fake(tensor: torch.Tensor) -> bool:
    from torch._subclasses.fake_tensor import FakeTensor

    return isinstance(tensor, FakeTensor)


def is_zero_tensor(tensor: torch.Tensor) -> bool:
    return bool(tensor._is_zerotensor()) if tensor.layout is torch.strided else False


def make_zero_tensor(size: tuple[int, ...], dtype: torch.dtype, device: str) -> torch.Tensor:
    return torch._efficientzerotensor(size, dtype=dtype, device=device)


def is_wrapper_subclass(tensor: torch.Tensor) -> bool:
    from torch.utils._python_dispatch import is_traceable_wrapper_subclass

    return bool(is_traceable_wrapper_subclass(tensor))


def wrapped_tensors(tensor: torch.Tensor) -> tuple[str, ...]:
    """The attributes of a traceable wrapper subclass that hold the tensors it is made of."""
    return tuple(str(name) for name in tensor.__tensor_flatten__()[0])  # type: ignore[attr-defined]


def quantization_of(tensor: torch.Tensor) -> dict[str, Any]:
    """By which scale and zero point a quantized tensor's integers are read: the method's name, what it gives."""
    per_tensor = tensor.qscheme() in (torch.per_tensor_affine, torch.per_tensor_symmetric)
    names = ("q_scale", "q_zero_point") if per_tensor else ("q_per_channel_scales", "q_per_channel_zero_points")
    return {name: getattr(tensor, name)() for name in names}


def digest(tensor: torch.Tensor) -> tuple[object, ...]:
    """Changes with any bit of a dense tensor's memory; its version alone does not tell of writes through `.data`."""
    from torch.utils._python_dispatch import _disable_current_modes

    plain = type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.layout is torch.strided
    if not plain or tensor.is_meta or tensor.is_quantized:
        return (id(tensor), version_of(tensor))
    with _disable_current_modes():
        own = tensor.detach().resolve_conj().resolve_neg()
        real = torch.view_as_real(own) if own.is_complex() else own
        whole = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[real.element_size()]
        found: list[object] = [tensor.dtype, tensor.shape]
        for part in real.reshape(-1).split(_ELEMENTS):
            # The sum of running sums tells of elements that change places; squares, of changes that cancel in a sum:
            # a step of an optimizer moves the bits of three elements by d, -2d and d soon enough.
            bits = part.view(whole).to(torch.int64)
            running = bits.cumsum(0)
            sums = (running[-1:].sum(), running.sum(), (bits * bits).sum(), (bits * running).sum())
            found.append(tuple(int(one) for one in sums))
        return tuple(found)


def has_hooks(module: torch.nn.Module) -> bool:
    """Whether calling `module` runs more than its forward."""
    return bool(
        module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or module._backward_pre_hooks
    )


def version_of(tensor: torch.Tensor) -> int:
    # Inference tensors have no version counter and cannot be asked.
    return 0 if tensor.is_inference() else int(tensor._version)


def takes_any_gradient(leaf: torch.Tensor) -> None:
    """Its gradient keeps the dtype that it comes with."""
    leaf.grad_dtype = None


def make_graph_module(root: torch.nn.Module, graph: torch.fx.Graph) -> torch.fx.GraphModule:
    """A GraphModule that prints its Python when it is first called: some graphs that compile cannot be printed."""
    from torch.fx import _lazy_graph_module as lazy

    with lazy._use_lazy_graph_module(True):
        return lazy._make_graph_module(root, graph)


def source_name(placeholder: torch.fx.Node) -> str:
    """How Dynamo reaches an input from the frame: L['self']._modules['fc']._parameters['weight']."""
    source = getattr(placeholder, "_dynamo_source", None)
    if source is None:
        argument = placeholder.meta.get("grapharg")
        source = getattr(argument, "source", None)
    name = getattr(source, "name", "")
    return str(name() if callable(name) else name)


def holding(module: torch.nn.Module, tensors: dict[str, torch.Tensor]) -> contextlib.AbstractContextManager[None]:
    """The module with these in the place of its own parameters and buffers, tied ones together."""
    from torch.nn.utils import stateless

    found: contextlib.AbstractContextManager[None] = stateless._reparametrize_module(module, tensors, tie_weights=True)
    return found
