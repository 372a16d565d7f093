"""The block mask of flex_attention, and the function that it was made of.

Eager computes with the function alone; compiled code skips the blocks that are not listed, and does not ask the
function about those that are listed as full.  Where the two say different things, so do eager and compiled code, and
nobody is to blame for it but who made the mask.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

DISAGREES = "the blocks of a block mask are not what its function says; eager goes by this, compiled code by those"
_MOST = 2**28  # elements of a mask that are worth looking at


def disagrees(args: Sequence[Any]) -> bool:
    """Of what flex_attention was called with.  What cannot be told is taken to agree."""
    query, key, blocks, sees = args[0], args[1], args[4], args[-1]
    lists, (q_block, k_block, function) = blocks[2:10], blocks[-3:]
    if not isinstance(lists[0], torch.Tensor) or not isinstance(q_block, int) or not isinstance(k_block, int):
        return False
    batch, heads = lists[0].shape[:2]
    rows, columns = query.shape[-2], key.shape[-2]
    if batch * heads * rows * columns > _MOST:
        return False
    wanted = _mask(function, sees, (batch, heads, rows, columns), query.device)
    q_block, k_block = min(q_block, rows), min(k_block, columns)
    return _other_than(wanted, q_block, k_block, lists[:4]) or _other_than(
        wanted.transpose(-1, -2), k_block, q_block, lists[4:]
    )


def _mask(function: Any, sees: Sequence[Any], shape: Sequence[int], device: torch.device) -> torch.Tensor:
    """What the function says of every place: bool, of `shape`."""
    call = function
    for dims in ((None, None, None, 0), (None, None, 0, None), (None, 0, None, None), (0, None, None, None)):
        call = torch.vmap(call, in_dims=(*dims, *[None] * len(sees)))
    found: torch.Tensor = call(*(torch.arange(n, device=device) for n in shape), *sees)
    return found.expand(shape)


def _other_than(wanted: torch.Tensor, rows: int, columns: int, lists: Sequence[Any]) -> bool:
    counts, indices, full_counts, full_indices = lists
    if not isinstance(counts, torch.Tensor):
        return False
    some, whole = _by_block(wanted, rows, columns)
    partly, fully = _listed(counts, indices, some), _listed(full_counts, full_indices, some)
    if partly is None or fully is None:
        return True
    return bool(((some & (partly + fully == 0)) | (~whole & (fully > 0)) | (partly + fully > 1)).any())


def _by_block(wanted: torch.Tensor, rows: int, columns: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Of each block: whether anything in it is seen, and whether all is."""
    pad = (0, -wanted.shape[-1] % columns, 0, -wanted.shape[-2] % rows)

    def blocks(beyond: bool) -> torch.Tensor:
        padded = torch.nn.functional.pad(wanted.to(torch.uint8), pad, value=beyond).bool()
        split = padded.unflatten(-1, (-1, columns)).unflatten(-3, (-1, rows))
        inside: torch.Tensor = split.transpose(-2, -3).flatten(-2)
        return inside

    return blocks(False).any(-1), blocks(True).all(-1)


def _listed(counts: Any, indices: Any, like: torch.Tensor) -> torch.Tensor | None:
    """How often each block is in the lists; None where they name blocks that there are not."""
    found = torch.zeros(like.shape, dtype=torch.int64, device=like.device)
    if not isinstance(counts, torch.Tensor):
        return found
    if counts.shape != like.shape[:-1] or indices.shape[:-1] != like.shape[:-1]:
        return None
    taken = torch.arange(indices.shape[-1], device=like.device) < counts[..., None]
    places = indices.long()
    if bool((taken & ((places < 0) | (places >= like.shape[-1]))).any()) or bool((counts > indices.shape[-1]).any()):
        return None
    return found.scatter_add(-1, places.clamp(0, like.shape[-1] - 1), taken.long())
