"""What two runs show, side by side: which values are compared, which differ at first sight, which cannot be read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch

from torchsleuth.referee import verdict
from torchsleuth.referee.report import Report, Unread, is_result
from torchsleuth.referee.values import NotCompared, Seen
from torchsleuth.referee.verdict import Difference

Pair = tuple[Seen | None, Seen | None]


def paired(first: Sequence[Seen], got: Sequence[Seen]) -> list[Pair]:
    left, right = by_path(first), by_path(got)
    return [(left.get(p), right.get(p)) for p in dict.fromkeys([*left, *right])]


def by_path(shown: Sequence[Seen]) -> dict[str, Seen]:
    """A path that is met again (two keys with one text) gets a number, so that no value takes another's place."""
    found: dict[str, Seen] = {}
    turns: Counter[str] = Counter()
    for one in shown:
        turns[one.path] += 1
        path = one.path if turns[one.path] == 1 else f"{one.path} #{turns[one.path]}"
        found[path] = one if path == one.path else replace(one, path=path)
    return found


def sorted_out(pairs: Sequence[Pair]) -> tuple[list[Pair], Report]:
    """Pairs that differ at first sight, and a Report of how many were compared and which could not be."""
    suspects: list[Pair] = []
    unread: list[Unread] = []
    read: list[str] = []
    for e, c in pairs:
        both = e is not None and c is not None
        path = (e or c or Seen("", None)).path
        if e is not None and c is not None and isinstance(e.value, NotCompared) and e.value == c.value:
            unread.append(Unread(path, e.value.kind, e.value.reason))
            continue
        try:
            alike = both and _alike(e, c)
        except (NotImplementedError, RuntimeError, TypeError) as error:  # a dtype that torch cannot compare
            unread.append(Unread(path, _dtype_of(e), type(error).__name__))
            continue
        if not alike:
            suspects.append((e, c))
        if (e is not None and e.counts) or (c is not None and c.counts):
            read.append(path)
    results = sum(map(is_result, read))
    strides = tuple(_other_strides(pairs))
    return suspects, Report(compared=len(read), strides=strides, not_compared=tuple(unread), results_compared=results)


def _alike(e: Seen | None, c: Seen | None) -> bool:
    return e is not None and c is not None and e.kind == c.kind and verdict.alike(e.value, c.value)


def _dtype_of(e: Seen | None) -> str:
    value = e.value if e is not None else None
    return str(value.dtype) if isinstance(value, torch.Tensor) else type(value).__name__


def _other_strides(pairs: Sequence[Pair]) -> Iterator[Difference]:
    """Of what is given back: inputs are the caller's own, and nobody promises an order of gradients."""
    for e, c in pairs:
        if e is None or c is None or e.stride is None or c.stride is None or not is_result(e.path):
            continue
        shape = e.value.shape
        counts = [dim for dim, size in enumerate(shape) if size > 1]
        if c.value.shape == shape and e.value.numel() and any(e.stride[d] != c.stride[d] for d in counts):
            text = f"compiled gives strides {list(c.stride)}, eager {list(e.stride)}"
            yield Difference(e.path, "stride", text, 1.0)
