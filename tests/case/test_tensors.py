"""Families of tensors that share memory, described, saved and loaded: the same bits, seen in the same way."""

from __future__ import annotations

import errno
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings, strategies as st

from torchsleuth.case import checks, folder, tensors
from torchsleuth.case.model import Role, Storage, Tensor
from torchsleuth.errors import DamagedCase, OutputUnwritable

pytestmark = pytest.mark.filterwarnings("ignore:ComplexHalf support")

Draw = Callable[[st.SearchStrategy[Any]], Any]
quick = settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))

DTYPES = [
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16, torch.uint32,
    torch.uint64, torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.float8_e4m3fn, torch.float8_e5m2,
    torch.complex32, torch.complex64, torch.complex128,
]  # fmt: skip
PLENTY = 2**30


@st.composite
def views(draw: Draw, memory: torch.Tensor) -> torch.Tensor:
    """A window into `memory` (bytes): any dtype, offset and strides that fit, overlapping or not."""
    dtype = draw(st.sampled_from(DTYPES))
    room = memory.numel() // dtype.itemsize
    offset = draw(st.integers(0, room))
    shape = draw(st.lists(st.integers(0, 4), max_size=3))
    strides = draw(st.lists(st.integers(0, 9), min_size=len(shape), max_size=len(shape)))
    reach = offset + sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) + 1
    if 0 not in shape and reach > room:
        shape, strides, offset = [], [], min(offset, room - 1)
    made = torch.empty(0, dtype=dtype).set_(memory.untyped_storage(), offset, shape, strides)
    if dtype.is_complex and draw(st.booleans()):
        made = made.conj()
    if draw(st.integers(0, 5)) == 0 and (dtype.is_floating_point or dtype.is_complex) and dtype.itemsize > 1:
        made = torch._neg_view(made)
    return made


@st.composite
def families(draw: Draw) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    for _ in range(draw(st.integers(1, 3))):
        size = draw(st.integers(16, 200))
        bits = draw(st.binary(min_size=size, max_size=size))
        memory = torch.frombuffer(bytearray(bits), dtype=torch.uint8).clone()
        found += [draw(views(memory)) for _ in range(draw(st.integers(1, 3)))]
    odd = draw(
        st.lists(st.sampled_from(["scalar", "empty", "zero", "parameter", "leaf", "product", "expanded"]), max_size=3)
    )
    for kind in odd:
        found.append(
            {
                "scalar": lambda: torch.tensor(3.5),
                "empty": lambda: torch.empty(0, 3),
                "zero": lambda: torch._efficientzerotensor((2, 3)),
                "parameter": lambda: torch.nn.Parameter(torch.randn(2, 3)),
                "leaf": lambda: torch.randn(2, requires_grad=True),
                "product": lambda: torch.randn(2, requires_grad=True) * 2,
                "expanded": lambda: torch.randn(2, 1).expand(2, 5),
            }[kind]()
        )
    return draw(st.permutations(found))


def bits_of(tensor: torch.Tensor) -> list[int]:
    """The bytes of the elements as they are stored, in order; conj and neg bits apart."""
    plain = tensor.detach()
    plain = torch._neg_view(plain) if plain.is_neg() else plain
    plain = plain.conj() if plain.is_conj() else plain
    whole = torch.empty(plain.shape, dtype=plain.dtype)
    return whole.copy_(plain).flatten().view(torch.uint8).tolist() if plain.numel() else []


def reloaded(
    given: list[torch.Tensor], folder: Path, cap: int = PLENTY
) -> tuple[tensors.Described, list[torch.Tensor]]:
    described = tensors.describe(given, look=True)
    storages = tensors.save(described, folder, cap)
    return described, tensors.load(folder, described.tensors, storages)


@given(family=families())
@quick
def test_what_is_loaded_is_what_was_saved(family: list[torch.Tensor]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        described, loaded = reloaded(family, Path(folder))
    for before, said, after in zip(family, described.tensors, loaded, strict=True):
        assert after.dtype == before.dtype
        assert after.shape == before.shape
        assert after.stride() == before.stride() or torch._is_zerotensor(before)
        assert (after.is_conj(), after.is_neg()) == (before.is_conj(), before.is_neg())
        assert after._is_zerotensor() == before._is_zerotensor()
        assert bits_of(after) == bits_of(before)
        assert said.requires_grad == before.requires_grad
        assert said.leaf == before.is_leaf
        assert (said.role is Role.PARAMETER) == isinstance(before, torch.nn.Parameter)


@given(family=families(), data=st.data())
@quick
def test_a_write_through_one_shows_in_the_others_as_it_did(family: list[torch.Tensor], data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        _, loaded = reloaded(family, Path(folder))
    index = data.draw(st.integers(0, len(family) - 1))
    if family[index]._is_zerotensor() or not family[index].numel():
        return
    for group in (family, loaded):
        writer = group[index].detach()
        writer = torch._neg_view(writer) if writer.is_neg() else writer
        writer = writer.conj() if writer.is_conj() else writer
        element = writer.as_strided((), (), writer.storage_offset())
        element.copy_(torch.ones((), dtype=element.dtype))
    assert [bits_of(t) for t in loaded] == [bits_of(t) for t in family]


@given(family=families(), cap=st.integers(0, 300))
@quick
def test_the_cap_is_kept_and_the_rest_has_a_digest(family: list[torch.Tensor], cap: int) -> None:
    described = tensors.describe(family, look=False)
    with tempfile.TemporaryDirectory() as folder:
        storages = tensors.save(described, Path(folder), cap)
        loaded = tensors.load(Path(folder), described.tensors, storages)
    assert sum(s.nbytes for s in storages if s.kept) <= cap
    for number, storage in enumerate(storages):
        if number not in described.memory:
            assert storage == Storage(0)
            continue
        assert bool(storage.digest) is not storage.kept
        if not storage.kept:
            assert all(storage.nbytes >= s.nbytes for s in storages if s.kept)
    for said, after in zip(described.tensors, loaded, strict=True):
        if not storages[said.storage].kept and "zero" not in said.flags:
            assert not any(bits_of(after))


def test_a_digest_tells_bytes_apart(tmp_path: Path) -> None:
    def digest(value: float) -> str:
        [storage] = tensors.save(tensors.describe([torch.full((9,), value)], look=False), tmp_path, 0)
        return storage.digest

    assert digest(1.0) == digest(1.0) != digest(2.0)
    assert not (tmp_path / "tensors.safetensors").exists()


def test_of_a_large_storage_only_what_is_reached_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensors, "WHOLE_UP_TO", 1000)
    memory = torch.arange(4000, dtype=torch.int32)
    family = [
        memory[1001:1011],
        memory[1005:1021:3],
        memory.view(torch.uint8)[4003:4100],
        memory.view(torch.int64)[502:504],
    ]
    described, loaded = reloaded(family, tmp_path)
    [storage] = described.storages
    assert storage.nbytes < 200
    for before, after in zip(family, loaded, strict=True):
        assert torch.equal(before, after)
        assert before.stride() == after.stride()
    loaded[0][4] = -1
    assert loaded[1][0] == -1


@given(data=st.data())
@settings(quick, max_examples=60)
def test_any_windows_into_a_large_storage(data: st.DataObject) -> None:
    memory = torch.randint(0, 256, (3000,), dtype=torch.uint8)
    family = [data.draw(views(memory)) for _ in range(data.draw(st.integers(1, 4)))]
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setattr(tensors, "WHOLE_UP_TO", 100)
        _, loaded = reloaded(family, Path(folder))
    assert [bits_of(t) for t in loaded] == [bits_of(t) for t in family]
    assert [t.stride() for t in loaded] == [t.stride() for t in family]


def test_a_large_storage_is_small_when_its_view_is() -> None:
    memory = torch.empty(tensors.WHOLE_UP_TO // 4 + 100)
    described = tensors.describe([memory[5000:5004]], look=False)
    assert described.storages[0].nbytes <= 32
    assert described.tensors[0].offset < 4


@pytest.mark.parametrize(
    ("tensor", "low", "high"),
    [
        (torch.tensor([3, -5, 7]), -5, 7),
        (torch.tensor([3, 200], dtype=torch.uint8), 3, 200),
        (torch.tensor([2**63, 2**64 - 1], dtype=torch.uint64), 2**63, 2**64 - 1),
        (torch.tensor([1.5, -2.0]), -2.0, 1.5),
        (torch.tensor([1.5, float("inf")]), None, None),
        (torch.tensor([True]), None, None),
        (torch.empty(0, dtype=torch.int64), None, None),
        (torch.tensor([1], device="meta"), None, None),
    ],
)
def test_ranges_are_looked_at(tensor: torch.Tensor, low: int | None, high: int | None) -> None:
    [said] = tensors.describe([tensor], look=True).tensors
    assert (said.low, said.high) == (low, high)
    [unseen] = tensors.describe([tensor], look=False).tensors
    assert (unseen.low, unseen.high) == (None, None)


@pytest.mark.parametrize(
    ("tensor", "what"),
    [
        (torch.eye(3).to_sparse(), "torch.sparse_coo"),
        (torch.eye(3).to_sparse_csr(), "torch.sparse_csr"),
        (torch.quantize_per_tensor(torch.ones(3), 0.5, 1, torch.quint8), "quantized tensor, torch.per_tensor_affine"),
        (torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged), "torch.jagged"),
    ],
    ids=["sparse", "csr", "quantized", "jagged"],
)
def test_what_has_no_strided_bytes_is_named(tensor: torch.Tensor, what: str, tmp_path: Path) -> None:
    described = tensors.describe([tensor, torch.ones(2)], look=True)
    assert described.tensors[0].unknown == what
    assert tensors.save(described, tmp_path, PLENTY)[0] == Storage(0)


def test_the_name_of_a_dtype_tells_its_size() -> None:
    every = {getattr(torch, n) for n in dir(torch) if isinstance(getattr(torch, n), torch.dtype)}
    assert {str(d): checks.itemsize(str(d)) for d in every} == {str(d): d.itemsize for d in every}


def test_tensors_that_are_one_are_one_storage() -> None:
    x = torch.randn(4)
    described = tensors.describe([x, x, x[1:], x.clone(), x.detach()], look=False)
    assert [t.storage for t in described.tensors] == [0, 0, 0, 1, 0]
    empty = tensors.describe([torch.empty(0), torch.empty(0)], look=False)
    assert [t.storage for t in empty.tensors] == [0, 1]


def test_loaded_memory_is_aligned_and_apart_from_the_file(tmp_path: Path) -> None:
    family = [torch.ones(n, dtype=torch.uint8) for n in (1, 3, 5)] + [
        torch.ones(4),
        torch.ones(3, dtype=torch.complex128),
    ]
    described, loaded = reloaded(family, tmp_path)
    assert all(t.data_ptr() % 16 == 0 for t in loaded)
    for tensor in loaded:
        tensor.zero_()
    again = tensors.load(tmp_path, described.tensors, [Storage(s.nbytes, kept=True) for s in described.storages])
    assert all(bool(t.any()) for t in again)


@pytest.mark.parametrize("damage", [b"", b"x" * 7, b"\xff" * 64])
def test_a_damaged_file_is_said_to_be(tmp_path: Path, damage: bytes) -> None:
    (tmp_path / "tensors.safetensors").write_bytes(damage)
    with pytest.raises(DamagedCase, match="is damaged"):
        tensors.load(tmp_path, [Tensor("torch.uint8", (1,), (1,))], [Storage(1, kept=True)])


def test_a_tensor_that_reaches_past_its_storage(tmp_path: Path) -> None:
    described, _ = reloaded([torch.ones(4)], tmp_path)
    with pytest.raises(DamagedCase, match="past the end"):
        tensors.load(tmp_path, [Tensor("torch.float32", (2**40,), (1,))], [Storage(16, kept=True)])
    assert len(described.tensors) == 1


def test_what_was_not_kept_is_zeros_of_the_right_size(tmp_path: Path) -> None:
    [made] = tensors.load(tmp_path, [Tensor("torch.float32", (2, 3), (1, 5), 4)], [Storage(0)])
    assert made.shape == (2, 3)
    assert not made.any()


def test_a_disk_that_takes_no_more_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tensors, "_write", full)
    with pytest.raises(OutputUnwritable, match=r"No space left.*Free some space"):
        tensors.save(tensors.describe([torch.ones(2)], look=False), tmp_path, PLENTY)
    assert list(tmp_path.iterdir()) == []


def test_values_are_kept_where_there_is_no_numpy(tmp_path: Path) -> None:
    """In a process of its own: here numpy is long imported."""
    text = f"""
import sys, warnings
sys.modules["numpy"] = None
warnings.simplefilter("ignore")
import torch
from pathlib import Path
from torchsleuth.case import tensors
given = [torch.arange(6.0)[::2], torch.tensor([True, False]), torch.empty(0)]
described = tensors.describe(given, look=True)
storages = tensors.save(described, Path({str(tmp_path)!r}), 2**20)
loaded = tensors.load(Path({str(tmp_path)!r}), described.tensors, storages)
assert all(torch.equal(a, b) and a.stride() == b.stride() for a, b in zip(given, loaded)), loaded
print("same")
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "same", done.stderr


def test_the_file_is_one_that_the_library_reads(tmp_path: Path) -> None:
    from safetensors.torch import load_file

    described = tensors.describe([torch.arange(5, dtype=torch.uint8), torch.ones(3)], look=False)
    tensors.save(described, tmp_path, PLENTY)
    read = load_file(str(tmp_path / folder.TENSORS))
    assert read["storage_0"].tolist() == [0, 1, 2, 3, 4]
    assert torch.equal(read["storage_1"].view(torch.float32), torch.ones(3))


def test_a_tensor_with_a_nan_is_known_as_such() -> None:
    nan, inf = float("nan"), float("inf")
    given = [torch.tensor([1.0, nan]), torch.tensor([1.0, inf]), torch.ones(2), torch.ones(2, dtype=torch.int64)]
    assert [t.nans for t in tensors.describe(given, look=True).tensors] == [True, False, False, False]
    assert not any(t.nans for t in tensors.describe(given, look=False).tensors)


@pytest.mark.parametrize(
    ("tensor", "distinct"),
    [
        (torch.tensor([2, 0, 1]), True),
        (torch.tensor([9, 4], dtype=torch.int32), True),
        (torch.tensor([2, 0, 2]), False),
        (torch.tensor([2.0, 1.0]), False),
        (torch.tensor([3]), False),
        (torch.tensor([[0, 1], [2, 3]]), False),
        (torch.zeros(0, dtype=torch.int64), False),
    ],
)
def test_a_row_of_integers_without_a_double_is_known_as_such(tensor: torch.Tensor, distinct: bool) -> None:
    assert tensors.describe([tensor], look=True).tensors[0].distinct is distinct
    assert not tensors.describe([tensor], look=False).tensors[0].distinct
