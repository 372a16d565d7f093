"""Inputs as expressions: made from sizes, or read from a data file beside the script."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from torchsleuth.case.model import Role, Tensor
from torchsleuth.case.program.statements import CannotRender

_FLOATS = {"torch.float32", "torch.float64", "torch.float16", "torch.bfloat16", "torch.complex64", "torch.complex128"}
_REALS = _FLOATS - {"torch.complex64", "torch.complex128"}
_PLACES = {"torch.int32", "torch.int64"}  # what tensors are indexed with
_MOST_PERMUTED = 2**20  # numbers of which some are taken
_BITS = {"torch.bool": 8, "torch.float32": 32, "torch.float64": 64, "torch.float16": 16, "torch.bfloat16": 16}


def shared_storages(tensors: Sequence[Tensor]) -> set[int]:
    counts = Counter(t.storage for t in tensors if not t.unknown and "zero" not in t.flags)
    return {number for number, count in counts.items() if count > 1}


def contiguous_stride(shape: tuple[int, ...]) -> tuple[int, ...]:
    stride, step = [], 1
    for size in reversed(shape):
        stride.append(step)
        step *= max(size, 1)
    return tuple(reversed(stride))


def is_contiguous(tensor: Tensor) -> bool:
    if 0 in tensor.shape:
        return True
    plain = contiguous_stride(tensor.shape)
    return all(n == 1 or a == b for n, a, b in zip(tensor.shape, tensor.stride, plain, strict=True))


def span(tensor: Tensor) -> int:
    """Elements of memory that the tensor reaches, from the start of its storage."""
    if 0 in tensor.shape:
        return tensor.offset
    return tensor.offset + 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride, strict=True))


def made(tensor: Tensor, room: int = 0) -> str:
    """An expression for a tensor like this one that shares memory with nobody, of which there are `room` elements."""
    if "zero" in tensor.flags:
        return _finished(f"torch._efficientzerotensor({_sizes(tensor.shape)}{_options(tensor)})", tensor)
    if tensor.unknown == "torch.sparse_coo":
        return _finished(f"{_fresh(tensor, tensor.shape)}.to_sparse()", tensor)
    if tensor.unknown:
        raise CannotRender(f"an input is a {tensor.unknown}, which was not kept")
    roomy = room > span(tensor)
    if roomy and tensor.stride == (1,) and not tensor.offset:
        return _finished(f"{_fresh(tensor, (room,))}[:{tensor.shape[0]}]", tensor)
    if is_contiguous(tensor) and not (tensor.offset or roomy):
        return _finished(_fresh(tensor, tensor.shape), tensor)
    permuted = None if tensor.offset or roomy else _permutation(tensor)
    if permuted is not None:
        shape, order = permuted
        return _finished(f"{_fresh(tensor, shape)}.permute({', '.join(map(str, order))})", tensor)
    memory = _fresh(tensor, (max(room, span(tensor)),))
    return _finished(f"{memory}.as_strided({tensor.shape!r}, {tensor.stride!r}{_offset(tensor)})", tensor)


def _permutation(tensor: Tensor) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Shape and order such that a contiguous tensor of that shape, permuted so, is strided like this one."""
    order = sorted(range(len(tensor.shape)), key=lambda d: (-tensor.stride[d], d))
    shape = tuple(tensor.shape[d] for d in order)
    plain = contiguous_stride(shape)
    if any(tensor.stride[d] != plain[i] for i, d in enumerate(order)):
        return None
    return shape, tuple(order.index(d) for d in range(len(order)))


def storage(tensors: Sequence[Tensor]) -> str:
    """An expression for the memory that several tensors look into."""
    first = tensors[0]
    width = _BITS.get(first.dtype, 64)
    most = max(math.ceil(span(t) * _BITS.get(t.dtype, 64) / width) for t in tensors)
    lows = [t.low for t in tensors if t.low is not None]
    highs = [t.high for t in tensors if t.high is not None]
    whole = Tensor(
        first.dtype, (most,), (1,), device=first.device, low=min(lows, default=None), high=max(highs, default=None)
    )
    return _fresh(whole, whole.shape)


def view(tensor: Tensor, of: str, dtype: str) -> str:
    cast = "" if tensor.dtype == dtype else f".view({tensor.dtype})"
    return _finished(f"{of}{cast}.as_strided({tensor.shape!r}, {tensor.stride!r}{_offset(tensor)})", tensor)


def _offset(tensor: Tensor) -> str:
    return f", {tensor.offset}" if tensor.offset else ""


def loaded(tensor: Tensor, name: str) -> str:
    """An expression for the tensor kept under `name` in the data file."""
    if "zero" in tensor.flags:
        return made(tensor)
    moved = f'data["{name}"]' if tensor.device == "cpu" else f'data["{name}"].to("{tensor.device}")'
    return _finished(moved, tensor)


def _finished(text: str, tensor: Tensor) -> str:
    """With the bits that no bytes hold: conj, neg, a gradient."""
    if "conj" in tensor.flags:
        text = f"{text}.conj()"
    if "neg" in tensor.flags:
        text = f"torch._neg_view({text})"
    if tensor.role is Role.PARAMETER:
        return f"torch.nn.Parameter({text}{'' if tensor.requires_grad else ', requires_grad=False'})"
    if tensor.requires_grad:
        # A result of something, that asks for a gradient: a view keeps strides and flags, a clone would not.
        text = f"{text}.requires_grad_()" if tensor.leaf else f"{text}.requires_grad_()[...]"
    return text


def _fresh(tensor: Tensor, shape: tuple[int, ...]) -> str:
    if tensor.fill:
        return _filled(tensor, shape)
    if tensor.dtype in _FLOATS:
        if tensor.dtype in _REALS and tensor.low is not None and tensor.low >= 0 and tensor.high != 0:
            return f"torch.rand({_sizes(shape)}{_options(tensor)})"  # roots and logarithms want it so
        return f"torch.randn({_sizes(shape)}{_options(tensor)})"
    if tensor.dtype == "torch.bool" and tensor.low is not None and tensor.low == tensor.high:
        return f"torch.{'ones' if tensor.low else 'zeros'}({_sizes(shape)}{_options(tensor)})"
    if tensor.dtype == "torch.bool":
        return f"torch.randint(0, 2, {shape!r}{_options(tensor)})"
    if tensor.dtype.startswith("torch.float") or tensor.dtype.startswith("torch.complex"):
        source = "torch.complex64" if "complex" in tensor.dtype else "torch.float32"
        plain = Tensor(source, shape, (), device=tensor.device)
        return f"torch.randn({_sizes(shape)}{_options(plain)}).to({tensor.dtype})"
    low, high = _integer_range(tensor)
    options = _options(tensor, default="torch.int64")
    many = high - low + 1
    if tensor.distinct and tensor.dtype in _PLACES and len(shape) == 1 and shape[0] <= many <= _MOST_PERMUTED:
        some = f"torch.randperm({many}{options})" + (f"[:{shape[0]}]" if shape[0] < many else "")
        return f"({some} + {low})" if low else some
    return f"torch.randint({low}, {high + 1}, {shape!r}{options})"


def _filled(tensor: Tensor, shape: tuple[int, ...]) -> str:
    if tensor.fill == "literal" and len(tensor.literal) == math.prod(shape):
        return f"torch.tensor({_nested(tensor.literal, shape)}{_options(tensor, _literal_dtype(tensor))})"
    default = "torch.int64" if tensor.fill == "arange" else "torch.float32"
    if tensor.fill == "arange":
        plain = f"torch.arange({math.prod(shape)}{_options(tensor, default)})"
        return plain if len(shape) == 1 else f"{plain}.reshape({_sizes(shape)})"
    if tensor.fill == "nan":
        return f'torch.full({shape!r}, float("nan"){_options(tensor, default)})'
    if tensor.fill in ("ones", "zeros"):
        return f"torch.{tensor.fill}({_sizes(shape)}{_options(tensor, default)})"
    return _fresh(replace(tensor, fill=""), shape)


def _literal_dtype(tensor: Tensor) -> str:
    """What torch.tensor makes of these elements when it is not told."""
    kinds = {type(v) for v in tensor.literal}
    if kinds == {bool}:
        return "torch.bool"
    return "torch.int64" if kinds <= {bool, int} and kinds else "torch.float32"


def _nested(elements: Sequence[int | float | bool], shape: tuple[int, ...]) -> str:
    if not shape:
        return _element(elements[0])
    step = len(elements) // shape[0] if shape[0] else 0
    return f"[{', '.join(_nested(elements[i * step : (i + 1) * step], shape[1:]) for i in range(shape[0]))}]"


def _element(value: int | float | bool) -> str:
    return repr(value) if not isinstance(value, float) or math.isfinite(value) else f'float("{value}")'


def _integer_range(tensor: Tensor) -> tuple[int, int]:
    low = 0 if tensor.low is None else int(tensor.low)
    high = low if tensor.high is None else int(tensor.high)  # unknown: zeros are valid indices almost everywhere
    if high >= 2**63 - 1:
        high = 2**63 - 2
    return min(low, high), high


def _options(tensor: Tensor, default: str = "torch.float32") -> str:
    dtype = "" if tensor.dtype == default else f", dtype={tensor.dtype}"
    device = "" if tensor.device == "cpu" else f', device="{tensor.device}"'
    return dtype + device


def _sizes(shape: tuple[int, ...]) -> str:
    return ", ".join(map(str, shape)) if shape else "()"
