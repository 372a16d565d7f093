"""Tensors by storage: which memory each looks into, and the bytes of that memory.

Aliasing, strides and offsets are kept because the storage is, once, whoever looks into it.  Of a storage only the part
that some input reaches is kept when the whole is large: a view of a big cache costs what the view covers.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from torchsleuth import torch_api
from torchsleuth.case.checks import reach
from torchsleuth.case.files import replacing
from torchsleuth.case.folder import TENSORS
from torchsleuth.case.model import Role, Storage, Tensor
from torchsleuth.errors import DamagedCase

WHOLE_UP_TO = 64 * 2**20  # a storage up to this size is kept whole: as_strided in a graph may reach all of it
_WIDEST = 16  # bytes of the widest element
_INTEGERS = {f"torch.{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
_REALS = {"torch.float64", "torch.float32", "torch.float16", "torch.bfloat16"}
LITERAL_UP_TO = 64  # elements
_DISTINCT_UP_TO = 2**16  # elements that are looked at for this
LOOK_UP_TO = 2**22  # elements; ranges of larger tensors are not looked at while the program runs


@dataclass(frozen=True)
class Described:
    tensors: tuple[Tensor, ...]
    storages: tuple[Storage, ...]
    memory: Mapping[int, tuple[torch.UntypedStorage, int, int]]  # number -> storage, first byte, last byte


def describe(tensors: Sequence[torch.Tensor], *, look: bool) -> Described:
    """Descriptions of `tensors`, and the memory behind them; `look` reads value ranges."""
    numbers: dict[tuple[str, int], int] = {}
    found: list[Tensor] = []
    spans: dict[int, tuple[torch.UntypedStorage, int, int]] = {}
    for tensor in tensors:
        odd = _oddity(tensor)
        if odd:
            found.append(_odd_tensor(tensor, odd, _new_number(numbers, tensor)))
            continue
        if torch_api.is_zero_tensor(tensor):  # it has no memory, not even an address
            found.append(_plain_tensor(tensor, _new_number(numbers, tensor), look))
            continue
        storage = tensor.untyped_storage()
        # Empty storages share the null address without sharing memory.
        key = (str(tensor.device), storage.data_ptr() or -id(tensor))
        number = numbers.setdefault(key, len(numbers))
        begin, end = _extent(tensor)
        begin -= begin % _WIDEST  # so that the offset of every dtype counts whole elements from there
        _, low, high = spans.get(number, (storage, begin, end))
        spans[number] = (storage, min(low, begin), max(high, end))
        found.append(_plain_tensor(tensor, number, look))
    spans = {n: (s, 0, s.nbytes()) if s.nbytes() <= WHOLE_UP_TO else (s, b, e) for n, (s, b, e) in spans.items()}
    based = tuple(
        t if t.unknown or t.storage not in spans else replace(t, offset=t.offset - spans[t.storage][1] // _width(t))
        for t in found
    )
    storages = tuple(Storage(spans[n][2] - spans[n][1] if n in spans else 0) for n in range(len(numbers)))
    return Described(based, storages, spans)


def _new_number(numbers: dict[tuple[str, int], int], tensor: torch.Tensor) -> int:
    return numbers.setdefault(("odd", id(tensor)), len(numbers))


def _oddity(tensor: torch.Tensor) -> str:
    if tensor.layout is not torch.strided:
        return str(tensor.layout)
    if tensor.is_nested:
        return "nested tensor"
    if tensor.is_quantized:
        return f"quantized tensor, {tensor.qscheme()}"
    if torch_api.is_wrapper_subclass(tensor):
        return f"{type(tensor).__module__}.{type(tensor).__qualname__}"
    return ""


def _odd_tensor(tensor: torch.Tensor, what: str, number: int) -> Tensor:
    shape = tuple(int(torch_api.hint_of(s) or 0) for s in tensor.shape) if not tensor.is_nested else ()
    stride = _contiguous(shape)
    return Tensor(
        str(tensor.dtype), shape, stride, 0, str(tensor.device), number, tensor.requires_grad, tensor.is_leaf,
        role_of(tensor), unknown=what,
    )  # fmt: skip


def _contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    stride, step = [], 1
    for size in reversed(shape):
        stride.append(step)
        step *= max(size, 1)
    return tuple(reversed(stride))


def _plain_tensor(tensor: torch.Tensor, number: int, look: bool) -> Tensor:
    flags = [
        n
        for n, on in (("conj", tensor.is_conj()), ("neg", tensor.is_neg()), ("zero", torch_api.is_zero_tensor(tensor)))
        if on
    ]
    low, high = _range(tensor) if look else (None, None)
    return Tensor(
        str(tensor.dtype), tuple(tensor.shape), tuple(tensor.stride()), int(tensor.storage_offset()),
        str(tensor.device), number, tensor.requires_grad, tensor.is_leaf, role_of(tensor), tuple(flags), low, high,
        literal=_elements(tensor) if look else (), distinct=look and _distinct(tensor),
        nans=look and low is None and _holds_nan(tensor),
    )  # fmt: skip


def role_of(tensor: torch.Tensor) -> Role:
    return Role.PARAMETER if isinstance(tensor, torch.nn.Parameter) else Role.ARGUMENT


def _elements(tensor: torch.Tensor) -> tuple[int | float | bool, ...]:
    """The elements of a tensor that is small enough to stand in a script."""
    if not 0 < tensor.numel() <= LITERAL_UP_TO or tensor.is_complex() or torch_api.is_zero_tensor(tensor):
        return ()
    if tensor.device.type == "meta" or tensor.is_quantized:
        return ()
    return tuple(tensor.detach().cpu().reshape(-1).tolist())


def _distinct(tensor: torch.Tensor) -> bool:
    """Whether it may say where to write, each place once: what is written twice is nobody's promise."""
    if tensor.dtype not in (torch.int32, torch.int64) or tensor.dim() != 1 or tensor.device.type == "meta":
        return False
    if not 1 < tensor.numel() <= _DISTINCT_UP_TO or torch_api.is_zero_tensor(tensor):
        return False
    return int(tensor.detach().cpu().unique().numel()) == tensor.numel()


def _holds_nan(tensor: torch.Tensor) -> bool:
    looked = str(tensor.dtype) in _REALS and 0 < tensor.numel() <= LOOK_UP_TO and tensor.device.type != "meta"
    return looked and not torch_api.is_zero_tensor(tensor) and bool(tensor.detach().isnan().any())


def _range(tensor: torch.Tensor) -> tuple[float | None, float | None]:
    """Smallest and largest value: made inputs must stay valid indices, and roots and logarithms defined."""
    if str(tensor.dtype) not in (*_INTEGERS, *_REALS):
        return None, None
    if (
        tensor.numel() == 0
        or tensor.numel() > LOOK_UP_TO
        or tensor.device.type == "meta"
        or torch_api.is_zero_tensor(tensor)
    ):
        return None, None
    if tensor.dtype is torch.uint64:  # torch finds no extremes of it, and int64 would wrap: shift it there and back
        shifted = tensor.detach().cpu().view(torch.int64) ^ torch.iinfo(torch.int64).min
        return int(shifted.min()) + 2**63, int(shifted.max()) + 2**63
    if tensor.is_floating_point():
        ends = [float(end) for end in torch.aminmax(tensor.detach())]
        return (ends[0], ends[1]) if all(map(math.isfinite, ends)) else (None, None)
    wide = tensor.detach().to("cpu", torch.int64)
    return int(wide.min()), int(wide.max())


def _width(tensor: Tensor) -> int:
    return int(torch_api.resolve(tensor.dtype).itemsize)


def _extent(tensor: torch.Tensor) -> tuple[int, int]:
    width = tensor.element_size()
    begin = int(tensor.storage_offset()) * width
    if tensor.numel() == 0:
        return begin, begin
    last = sum((int(n) - 1) * int(s) for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    return begin, begin + (last + 1) * width


def save(described: Described, folder: Path, cap: int) -> tuple[Storage, ...]:
    """Writes the bytes, smallest storages first, up to `cap` in all; the others keep a digest."""
    order = sorted(described.memory, key=lambda n: described.storages[n].nbytes)
    kept: dict[str, torch.Tensor] = {}
    storages = list(described.storages)
    total = 0
    for number in order:
        storage, begin, end = described.memory[number]
        nbytes = storages[number].nbytes
        if storage.device.type == "meta":
            continue
        total += nbytes
        raw = _bytes(storage, begin, end)
        if total <= cap:
            kept[f"storage_{number}"] = raw
            storages[number] = replace(storages[number], kept=True)
        else:
            storages[number] = replace(storages[number], digest=digest(raw))
    if kept:
        with replacing(folder / TENSORS) as temporary:
            _write(kept, temporary)
    return tuple(storages)


def _write(kept: Mapping[str, torch.Tensor], path: Path) -> None:
    """A safetensors file of bytes.  The library's own writer needs numpy, which a program need not have installed."""
    header: dict[str, object] = {}
    place = 0
    for name, raw in kept.items():
        header[name] = {"dtype": "U8", "shape": [raw.numel()], "data_offsets": [place, place + raw.numel()]}
        place += raw.numel()
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for raw in kept.values():
            file.write(_memory_of(raw))


def _memory_of(raw: torch.Tensor) -> ctypes.Array[ctypes.c_char]:
    """By address, for want of numpy; `raw` must outlive it."""
    return (ctypes.c_char * raw.numel()).from_address(raw.data_ptr())


def _bytes(storage: torch.UntypedStorage, begin: int, end: int) -> torch.Tensor:
    view = torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage, begin, (end - begin,), (1,))
    return view.to("cpu") if storage.device.type != "cpu" else view


def digest(raw: torch.Tensor) -> str:
    whole = raw.contiguous()
    return hashlib.blake2b(_memory_of(whole), digest_size=16).hexdigest()


def load(folder: Path, tensors: Sequence[Tensor], storages: Sequence[Storage]) -> list[torch.Tensor]:
    """The tensors of a Case, aliasing and strides as they were; zeros where the bytes were not kept."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        raw: dict[str, torch.Tensor] = load_file(str(folder / TENSORS)) if any(s.kept for s in storages) else {}
    except (OSError, SafetensorError) as error:
        raise DamagedCase(f"{folder / TENSORS} is damaged: {error}. Take a fresh capture.") from None
    needed: dict[int, int] = {}
    for tensor in tensors:
        if "zero" not in tensor.flags:
            needed[tensor.storage] = max(needed.get(tensor.storage, 0), reach(tensor))
    memory: dict[tuple[int, str], torch.UntypedStorage] = {}
    try:
        return [_load_one(t, _memory(t, storages, raw, needed, memory)) for t in tensors]
    except (RuntimeError, AssertionError, AttributeError, ImportError) as error:  # no such device or dtype
        raise DamagedCase(
            f"The tensors of {folder} cannot be made here: {error}. Use a machine like the first."
        ) from None


def _memory(
    tensor: Tensor,
    storages: Sequence[Storage],
    raw: Mapping[str, torch.Tensor],
    needed: Mapping[int, int],
    memory: dict[tuple[int, str], torch.UntypedStorage],
) -> torch.UntypedStorage | None:
    if "zero" in tensor.flags:
        return None
    key = (tensor.storage, tensor.device)
    if key not in memory:
        held = raw.get(f"storage_{tensor.storage}")
        if held is None:
            nbytes = storages[tensor.storage].nbytes if tensor.storage < len(storages) else 0
            held = torch.zeros(max(nbytes, needed[tensor.storage]), dtype=torch.uint8)
        elif needed[tensor.storage] > held.numel():
            raise DamagedCase("A tensor reaches past the end of its storage. Take a fresh capture.")
        # A copy: the file's bytes lie one after the other, at addresses that no allocator would give.
        memory[key] = held.to(tensor.device, copy=True).untyped_storage()
    return memory[key]


def _load_one(tensor: Tensor, memory: torch.UntypedStorage | None) -> torch.Tensor:
    dtype = torch_api.resolve(tensor.dtype)
    if memory is None:
        return torch_api.make_zero_tensor(tensor.shape, dtype, tensor.device)
    made = torch.empty(0, dtype=dtype, device=tensor.device).set_(memory, tensor.offset, tensor.shape, tensor.stride)
    if "conj" in tensor.flags:
        made = torch.conj(made)
    if "neg" in tensor.flags:
        made = torch_api.negative_view(made)
    return made
