"""The expression that a script makes an input by gives a tensor that looks as the description says."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings, strategies as st

from torchsleuth.case.model import Role, Tensor
from torchsleuth.case.program import values

pytestmark = pytest.mark.filterwarnings("ignore:ComplexHalf support")

Draw = Callable[[st.SearchStrategy[Any]], Any]
quick = settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
DTYPES = {
    str(d): d
    for d in (
        torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16, torch.uint32,
        torch.uint64, torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.float8_e4m3fn,
        torch.float8_e5m2, torch.complex32, torch.complex64, torch.complex128,
    )
}  # fmt: skip


@st.composite
def strided(draw: Draw, dtype: str) -> Tensor:
    shape = tuple(draw(st.lists(st.integers(0, 4), max_size=4)))
    kind = draw(st.sampled_from(["contiguous", "permuted", "expanded", "any"]))
    plain = values.contiguous_stride(shape)
    if kind == "permuted":
        order = draw(st.permutations(range(len(shape))))
        inner = values.contiguous_stride(tuple(shape[d] for d in order))
        stride = tuple(inner[order.index(d)] for d in range(len(shape)))
    elif kind == "expanded":
        stride = tuple(0 if draw(st.booleans()) else s for s in plain)
    else:
        stride = tuple(draw(st.integers(0, 12)) for _ in shape) if kind == "any" else plain
    return Tensor(dtype, shape, stride, draw(st.integers(0, 5)))


@st.composite
def described(draw: Draw) -> Tensor:
    dtype = draw(st.sampled_from(sorted(DTYPES)))
    tensor = draw(strided(dtype))
    real = DTYPES[dtype]
    if real.is_floating_point or real.is_complex:
        wants = draw(st.booleans())
        tensor = replace(tensor, requires_grad=wants, leaf=draw(st.booleans()) if wants else True)
    if draw(st.integers(0, 3)) == 0:
        tensor = replace(tensor, role=Role.PARAMETER, leaf=True) if real.is_floating_point else tensor
    if not (real.is_floating_point or real.is_complex or real is torch.bool):
        bounds = torch.iinfo(real)
        low = draw(st.integers(bounds.min, bounds.max))
        high = draw(st.integers(low, bounds.max))
        low, high = min(low, 2**63 - 2), min(high, 2**63 - 2)  # torch.randint goes no further
        if draw(st.booleans()):
            high = min(high, low + draw(st.integers(0, 12))) if draw(st.booleans()) else high
            tensor = replace(tensor, low=low, high=high, distinct=draw(st.booleans()))
    flags = [f for f in ("conj", "neg") if draw(st.integers(0, 5)) == 0]
    if real.is_complex:
        tensor = replace(tensor, flags=tuple(flags))
    return tensor


def is_dense(tensor: Tensor) -> bool:
    """Whether a copy keeps its strides."""
    return torch.empty(0).set_(
        torch.empty(2000).untyped_storage(), 0, tensor.shape, tensor.stride
    ).clone().stride() == (tensor.stride)


def made(tensor: Tensor) -> torch.Tensor:
    value = eval(values.made(tensor), {"torch": torch})
    assert isinstance(value, torch.Tensor)
    return value


def same_strides(tensor: Tensor, value: torch.Tensor) -> bool:
    """Strides of sizes 0 and 1 are never used; everything else is."""
    if 0 in tensor.shape:
        return True
    return all(n == 1 or a == b for n, a, b in zip(tensor.shape, tensor.stride, value.stride(), strict=True))


@given(tensor=described())
@quick
def test_a_made_tensor_looks_as_described(tensor: Tensor) -> None:
    # What a script makes as a result (not a leaf) is a copy, and loses flags and strides: tested below.
    assume(tensor.leaf or (not tensor.flags and is_dense(tensor)))
    value = made(tensor)
    assert str(value.dtype) == tensor.dtype
    assert tuple(value.shape) == tensor.shape
    assert str(value.device) == tensor.device
    assert same_strides(tensor, value)
    assert value.requires_grad == tensor.requires_grad
    assert value.is_leaf == (tensor.leaf or not tensor.requires_grad)
    assert isinstance(value, torch.nn.Parameter) == (tensor.role is Role.PARAMETER)
    assert (value.is_conj(), value.is_neg()) == ("conj" in tensor.flags, "neg" in tensor.flags)


@given(tensor=described())
@quick
def test_made_integers_stay_in_their_range(tensor: Tensor) -> None:
    assume(tensor.low is not None and tensor.high is not None and 0 not in tensor.shape)
    value = made(tensor)
    assert tensor.low is not None
    assert tensor.high is not None
    numbers = value.flatten().tolist()
    assert tensor.low <= min(numbers)
    assert max(numbers) <= tensor.high


@given(data=st.data())
@quick
def test_windows_into_shared_memory_look_as_described(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(["torch.float32", "torch.float64", "torch.int64", "torch.bool", "torch.float16"]))
    family = [data.draw(strided(dtype)) for _ in range(data.draw(st.integers(2, 4)))]
    memory = eval(values.storage(family), {"torch": torch})
    for tensor in family:
        value = eval(values.view(tensor, "memory", dtype), {"torch": torch, "memory": memory})
        assert str(value.dtype) == dtype
        assert tuple(value.shape) == tensor.shape
        assert value.stride() == tensor.stride
        assert value.storage_offset() == tensor.offset
        assert value.untyped_storage().data_ptr() == memory.untyped_storage().data_ptr()


RESULT = Tensor("torch.complex64", (2, 3), (3, 1), requires_grad=True, leaf=False)


@pytest.mark.parametrize(
    "tensor",
    [
        Tensor("torch.int64", (10,), (1,), low=0, high=9),
        Tensor("torch.float32", (2, 3), (3, 1)),
        Tensor("torch.float32", (3, 2), (1, 3)),
        Tensor("torch.float32", (2, 3), (4, 1), offset=5),
        Tensor("torch.float32", (), ()),
    ],
)
def test_what_lies_behind_a_view_is_there(tensor: Tensor) -> None:
    for room in (0, 20):
        made = eval(values.made(tensor, room), {"torch": torch})
        assert (made.shape, made.stride(), made.storage_offset()) == (tensor.shape, tensor.stride, tensor.offset)
        assert made.untyped_storage().nbytes() // made.itemsize == max(room, values.span(tensor))


def test_a_result_keeps_its_flags() -> None:
    assert made(replace(RESULT, flags=("conj",))).is_conj()


def test_a_result_keeps_its_strides() -> None:
    assert made(replace(RESULT, dtype="torch.float32", stride=(0, 1))).stride() == (0, 1)


def test_a_zero_tensor_is_one_again() -> None:
    value = made(Tensor("torch.float64", (2, 3), (0, 0), flags=("zero",)))
    assert value._is_zerotensor()
    assert value.dtype is torch.float64


def test_spans_reach_to_the_last_element() -> None:
    assert values.span(Tensor("torch.float32", (2, 3), (10, 2), 5)) == 5 + 10 + 4 + 1
    assert values.span(Tensor("torch.float32", (), (), 7)) == 8
    assert values.span(Tensor("torch.float32", (0, 3), (3, 1), 7)) == 7
    assert math.prod((2, 3)) == values.span(Tensor("torch.float32", (2, 3), (3, 1)))


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (0, 2, "torch.randperm(3)"),
        (0, 9, "torch.randperm(10)[:3]"),
        (4, 9, "(torch.randperm(6)[:3] + 4)"),
        (0, 1, "torch.randint(0, 2, (3,))"),  # as it is after sizes were made smaller: there are no three of them
    ],
)
def test_places_that_were_distinct_stay_so(low: int, high: int, text: str) -> None:
    places = Tensor("torch.int64", (3,), (1,), low=low, high=high, distinct=True)
    assert values.made(places) == text
    assert values.made(replace(places, distinct=False)) == f"torch.randint({low}, {high + 1}, (3,))"
