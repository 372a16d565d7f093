"""Checks, while a script runs in eager, what torch's types promise and eager itself does not look at.

A reducer that drops statements and arguments soon arrives at tensors that no program could have: a jagged tensor whose
offsets are empty, a sparse tensor with an index beyond its size, a negative scale.  Eager may run them; what compiled
code does with them is no bug.  A script that makes one is invalid.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any


class BrokenInvariant(ValueError):
    """A tensor that no correct program makes."""


@contextlib.contextmanager
def checked() -> Iterator[None]:
    """Only the public functions that make such tensors are replaced, and only for a while."""
    import torch

    places: list[tuple[Any, str, Callable[..., None]]] = [
        (torch.nested, "nested_tensor_from_jagged", _check_jagged),
        (torch, "quantize_per_tensor", _check_scale),
        (torch, "quantize_per_channel", _check_scale),
        (torch, "bucketize", _check_boundaries),
        (torch, "searchsorted", _check_sorted),
    ]
    found = [(owner, name, check) for owner, name, check in places if hasattr(owner, name)]
    originals = [getattr(owner, name) for owner, name, _ in found]
    with torch.sparse.check_sparse_tensor_invariants():
        try:
            for (owner, name, check), original in zip(found, originals, strict=True):
                setattr(owner, name, _checking(original, check))
            yield
        finally:
            for (owner, name, _), original in zip(found, originals, strict=True):
                setattr(owner, name, original)


def _checking(function: Callable[..., Any], check: Callable[..., None]) -> Callable[..., Any]:
    @functools.wraps(function)
    def checks_first(*given: Any, **named: Any) -> Any:
        try:
            check(*given, **named)
        except BrokenInvariant:
            raise
        except Exception:  # called in a wrong way, which the function itself says, or with tensors without values
            pass
        return function(*given, **named)

    return checks_first


def _check_jagged(
    values: Any, offsets: Any = None, lengths: Any = None, jagged_dim: int | None = None, **rest: Any
) -> None:
    size = values.shape[(jagged_dim or 1) - 1]  # the values lack the dimension of the batch
    if offsets is None:
        if lengths is not None:
            _require(bool((lengths >= 0).all()), "a length of a jagged tensor is negative")
            _require(int(lengths.sum()) <= size, "the lengths of a jagged tensor are more than its values")
        return
    _require(not offsets.is_floating_point(), "the offsets of a jagged tensor are no integers")
    _require(offsets.dim() == 1 and offsets.numel() >= 1, "a jagged tensor has no offsets")
    _require(int(offsets[0]) == 0, "the offsets of a jagged tensor do not begin at 0")
    _require(bool((offsets.diff() >= 0).all()), "the offsets of a jagged tensor go down")
    _require(int(offsets[-1]) <= size, "the offsets of a jagged tensor go beyond its values")
    if lengths is not None:
        _require(bool((lengths >= 0).all()), "a length of a jagged tensor is negative")
        _require(bool((lengths <= offsets.diff()).all()), "a length of a jagged tensor goes beyond its part")


def _check_scale(input: Any, scales: Any = None, *given: Any, scale: Any = None, **named: Any) -> None:
    found = scales if scales is not None else scale
    if found is None:
        return
    smallest = float(found.min()) if hasattr(found, "min") else float(found)
    _require(smallest > 0, "the scale of a quantised tensor is not above 0")


def _check_boundaries(input: Any, boundaries: Any, *given: Any, **named: Any) -> None:
    _require(bool((boundaries.diff() >= 0).all()), "the boundaries of bucketize are not sorted")


def _check_sorted(sorted_sequence: Any, *given: Any, sorter: Any = None, **named: Any) -> None:
    if sorter is None:
        _require(bool((sorted_sequence.diff() >= 0).all()), "the sequence of searchsorted is not sorted")


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise BrokenInvariant(otherwise)
