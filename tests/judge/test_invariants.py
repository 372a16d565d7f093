"""What eager accepts, and no correct program makes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from torchsleuth.judge.invariants import BrokenInvariant, checked

VALUES = torch.ones(6, 3)


def jagged(offsets: list[float], lengths: list[int] | None = None) -> Callable[[], object]:
    def make() -> object:
        kept = None if lengths is None else torch.tensor(lengths)
        whole = torch.tensor(offsets) if offsets else torch.tensor([])
        return torch.nested.nested_tensor_from_jagged(VALUES, whole, kept)

    return make


def sparse(index: int) -> Callable[[], object]:
    return lambda: torch.sparse_coo_tensor(torch.tensor([[0, index]]), torch.ones(2), (3,)).to_dense()


BROKEN: dict[str, Callable[[], object]] = {
    "no offsets": jagged([]),
    "offsets that are no integers": jagged([0.0]),
    "offsets that go down": jagged([0, 5, 3]),
    "offsets beyond the values": jagged([0, 7]),
    "offsets that begin later": jagged([2, 4]),
    "lengths beyond their part": jagged([0, 2, 6], [3, 1]),
    "an index beyond the size": sparse(9),
    "rows of a sparse matrix that go down": lambda: torch.sparse_csr_tensor(
        torch.tensor([0, 2, 1]), torch.tensor([0, 1]), torch.ones(2), (2, 2)
    ),
    "a scale of 0": lambda: torch.quantize_per_tensor(VALUES, 0.0, 0, torch.quint8),
    "a scale below 0": lambda: torch.quantize_per_tensor(VALUES, scale=-1.0, zero_point=0, dtype=torch.quint8),
    "boundaries that are not sorted": lambda: torch.bucketize(VALUES, torch.tensor([3.0, 1.0])),
    "a sequence that is not sorted": lambda: torch.searchsorted(torch.tensor([3.0, 1.0]), torch.ones(2)),
}
SOUND: dict[str, Callable[[], object]] = {
    "a jagged tensor": jagged([0, 2, 6]),
    "a jagged tensor with lengths": jagged([0, 2, 6], [1, 4]),
    "a sparse tensor": sparse(2),
    "a scale": lambda: torch.quantize_per_tensor(VALUES, 0.5, 0, torch.quint8),
    "sorted boundaries": lambda: torch.bucketize(VALUES, torch.tensor([1.0, 3.0])),
    "a sequence with its order": lambda: torch.searchsorted(
        torch.tensor([3.0, 1.0]), torch.ones(2), sorter=torch.tensor([1, 0])
    ),
}


@pytest.mark.parametrize("what", BROKEN)
def test_what_breaks_an_invariant_is_refused(what: str) -> None:
    with checked(), pytest.raises((BrokenInvariant, RuntimeError)):
        BROKEN[what]()


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
@pytest.mark.parametrize("what", SOUND)
def test_what_keeps_them_runs(what: str) -> None:
    with checked():
        SOUND[what]()


def test_a_tensor_without_values_is_left_to_the_function() -> None:
    with checked():
        assert torch.bucketize(VALUES.to("meta"), torch.ones(2, device="meta")).is_meta


def test_afterwards_all_is_as_it_was() -> None:
    before = torch.nested.nested_tensor_from_jagged, torch.bucketize
    with checked():
        assert torch.bucketize is not before[1]
    assert (torch.nested.nested_tensor_from_jagged, torch.bucketize) == before
    sparse(9)
