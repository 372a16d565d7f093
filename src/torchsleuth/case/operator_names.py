"""What the name of an operator alone tells: `cummin` for torch.cummin, aten.cummin.default and Tensor.cummin_."""

from __future__ import annotations

# `x.data = y`, as Dynamo writes it: both on x, the second on what the first gives.
SETS_DATA, LOWERS_VERSION = "torch.Tensor.set_", "torchsleuth.torch_api.names.lower_version"


def bare(target: str) -> str:
    words = target.replace("::", ".").split(".")
    if "ops" in words or words[0] == "aten":
        start = words.index("ops") + 2 if "ops" in words else 1
        words = words[start : start + 1] or words[-1:]
    return words[-1].strip("_")


# What may look at the memory of its first argument; too many is no harm.
VIEWS = frozenset(
    "view reshape transpose permute unsqueeze squeeze expand contiguous getitem getattr detach t mT T real imag to "
    "flatten unflatten chunk split movedim swapaxes view_as expand_as alias narrow select slice as_strided unbind "
    "diagonal unfold split_with_sizes tensor_split hsplit vsplit ravel type float int long view_as_real "
    "view_as_complex requires_grad data adjoint mH H moveaxis swapdims broadcast_to dsplit unsafe_chunk "
    "unsafe_split".split()
)

# What may hand back its first argument itself: where there is nothing to drop, to move or to convert.
HANDS_BACK = frozenset(
    "dropout dropout1d dropout2d dropout3d alpha_dropout feature_dropout feature_alpha_dropout double half bfloat16 "
    "bool short char byte type_as cpu cuda resolve_conj resolve_neg identity atleast_1d atleast_2d atleast_3d".split()
)

# What only looks at memory in another way, or asks for a size, and gives no kernel.
NO_KERNEL = frozenset(
    "view reshape transpose permute unsqueeze squeeze expand contiguous getitem getattr size dim numel detach clone t "
    "flatten unflatten chunk split movedim swapaxes view_as expand_as item dropout alias stride narrow to".split()
)

# What makes a tensor out of nothing, for others to compute with.
MAKERS = frozenset(
    "full full_like zeros zeros_like ones ones_like empty empty_like empty_strided new_zeros new_ones new_full arange "
    "iota tensor scalar_tensor lift lift_fresh lift_fresh_copy eye linspace clone copy".split()
)


def computes(target: str) -> bool:
    """Whether more than memory is looked at, moved or filled; marks of functorch's levels are none of these."""
    return bare(target) not in VIEWS | NO_KERNEL | MAKERS and "functorch" not in target
