"""Which operators round, which only move values about, and which choose among equals."""

from __future__ import annotations

from typing import Any

import torch

from torchsleuth.operators.names import name_of

# What these give is one of the values they got, or is given by the program exactly.
_EXACT = frozenset(
    """
    _conj _neg_view abs alias all amax amin any arange argwhere as_strided bitwise_and bitwise_not bitwise_or
    bitwise_xor broadcast_to cat ceil chunk clamp clamp_max clamp_min clone conj conj_physical constant_pad_nd
    contiguous copy copy_ detach diagonal diagonal_scatter embedding empty empty_like empty_strided eq expand eye
    fill fill_ flip floor fmax fmin full full_like gather ge glu_jvp gt hardtanh index index_copy index_fill
    index_put index_put_ index_select isfinite isinf isnan le lift_fresh logical_and logical_not logical_or
    logical_xor lt masked_fill masked_fill_ masked_scatter masked_select max maximum min minimum narrow ne neg
    new_empty new_full new_ones new_zeros nonzero ones ones_like permute pixel_shuffle relu relu_ repeat reshape
    resolve_conj resolve_neg roll round scatter select select_scatter sgn sign signbit slice slice_scatter split
    split_with_sizes squeeze stack t threshold threshold_backward trace transpose tril triu trunc unbind unfold
    unsqueeze view view_as_complex view_as_real where zero_ zeros zeros_like
    """.split()
)
# Among equal elements they may take any.
_CHOOSING = frozenset(
    """
    sort topk argmax argmin median nanmedian mode kthvalue argsort unique _unique2 unique_dim unique_consecutive
    cummax cummin max_pool1d max_pool2d max_pool3d max_pool2d_with_indices max_pool3d_with_indices
    adaptive_max_pool2d adaptive_max_pool3d fractional_max_pool2d fractional_max_pool3d
    """.split()
)


# The same of whole numbers, where "the first of them" is not promised either.
_FREE_AMONG_EQUALS = frozenset("sort argsort topk kthvalue median nanmedian".split())


def rounds(operator: Any, dtype: torch.dtype | None) -> bool:
    """Whether what it gives is rounded; `dtype` is what it was asked to give."""
    name = name_of(operator).name
    if name in ("_to_copy", "to", "convert_element_type"):
        return dtype in (torch.float16, torch.bfloat16)
    return name not in _EXACT and name not in _CHOOSING


def chooses(operator: Any) -> bool:
    name = name_of(operator).name
    return name in _CHOOSING or (name in ("max", "min") and "dim" in str(operator))


def free_among_equals(operator: Any, stable: bool | None) -> bool:
    """Whether the places it gives may be those of any of several equal elements; `stable` as the program asked."""
    return name_of(operator).name in _FREE_AMONG_EQUALS and not stable
