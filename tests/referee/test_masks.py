"""Block masks: what is listed must be what the function says, or eager and compiled code differ by right."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

from torchsleuth.backends.refereed import torchsleuth
from torchsleuth.referee.masks import disagrees

Q = torch.linspace(-9, 9, 256 * 16).sin().reshape(1, 1, 256, 16)


def causal(b: Any, h: Any, q: Any, k: Any) -> Any:
    return q >= k


def arguments(mask: BlockMask, rows: int, columns: int) -> list[Any]:
    query, key = torch.empty(1, 1, rows, 1), torch.empty(1, 1, columns, 1)
    return [query, key, key, None, mask.as_tuple(), 1.0, {}, (), ()]


@settings(deadline=None, max_examples=25)
@given(st.integers(1, 300), st.integers(1, 300), st.integers(0, 40), st.sampled_from([16, 64, 128]), st.data())
def test_what_torch_makes_of_a_function_agrees(rows: int, columns: int, window: int, block: int, data: Any) -> None:
    by_head = data.draw(st.booleans())

    def near(b: Any, h: Any, q: Any, k: Any) -> Any:
        return (q - k).abs() <= window + h * 30

    made = create_block_mask(near, None, 2 if by_head else None, rows, columns, device="cpu", BLOCK_SIZE=block)
    assert not disagrees(arguments(made, rows, columns))


def test_no_block_mask_agrees_with_any_function() -> None:
    one, zero = torch.ones(1, 1, 1, dtype=torch.int32), torch.zeros(1, 1, 1, 1, dtype=torch.int32)
    all_partly = BlockMask.from_kv_blocks(one, zero, BLOCK_SIZE=1 << 30, mask_mod=causal)
    assert not disagrees(arguments(all_partly, 200, 300))


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [
        ("kv_num_blocks", (0, 0, 1), 0),  # a block that the function sees is left out
        ("full_kv_indices", (0, 0, 1, 0), 1),  # one is said to be full that is not, and listed twice
        ("kv_indices", (0, 0, 0, 0), 7),  # there are not so many
        ("q_num_blocks", (0, 0, 0), 0),  # the lists for the backward
    ],
)
def test_other_blocks_do_not(name: str, place: tuple[int, ...], value: int) -> None:
    mask = create_block_mask(causal, None, None, 256, 256, device="cpu")
    getattr(mask, name)[place] = value
    assert disagrees(arguments(mask, 256, 256))


def test_the_referee_calls_neither_side_wrong() -> None:
    blocks = torch.tensor([[[1, 1]]], dtype=torch.int32), torch.tensor([[[[0, 1], [1, 0]]]], dtype=torch.int32)
    apart = BlockMask.from_kv_blocks(*blocks, BLOCK_SIZE=128, mask_mod=lambda b, h, q, k: q >= 0)

    def attend(q: torch.Tensor) -> torch.Tensor:
        return flex_attention(q, q, q, block_mask=apart)

    torch._dynamo.reset()
    with torch.no_grad():
        compiled = torch.compile(attend, backend=torchsleuth)(Q)  # raises where the referee calls it wrong
        eager = torch.nn.functional.scaled_dot_product_attention(Q, Q, Q)
    assert not torch.allclose(compiled, eager, atol=0.1)
