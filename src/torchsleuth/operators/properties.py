"""What an operator does, read from its name.  Where a name leaves it open, the answer is the cautious one.

`_BASE_NAMES` is the table: base names (see `OperatorName.base`) by property.  Two properties follow from patterns
instead: torch ends the names of in-place operators with an underscore, and families of operators that draw random
numbers share a word.
"""

from __future__ import annotations

from enum import Enum, auto

from torchsleuth.operators.names import OperatorName, parse
from torchsleuth.operators.python_operators import IN_PLACE, ITEM_ASSIGNMENTS


class _Property(Enum):
    VIEW = auto()  # may return a view of its first argument
    MAY_RETURN_INPUT = auto()  # may return its first argument itself: nothing to drop, to move or to convert
    NO_KERNEL = auto()  # gives no kernel: another look at the same memory, a copy, or a size
    FACTORY = auto()  # makes a tensor that others compute with


_BASE_NAMES: dict[_Property, frozenset[str]] = {
    _Property.VIEW: frozenset(
        """
        view reshape transpose permute unsqueeze squeeze expand contiguous getitem getattr detach t mT T real imag to
        flatten unflatten chunk split movedim swapaxes view_as expand_as alias narrow select slice as_strided unbind
        diagonal unfold split_with_sizes tensor_split hsplit vsplit ravel type float int long view_as_real
        view_as_complex requires_grad data adjoint mH H moveaxis swapdims broadcast_to dsplit unsafe_chunk
        unsafe_split conj neg_view reshape_as reshape_alias matrix_H numpy_T linalg_diagonal values indices crow_indices
        col_indices ccol_indices row_indices grad_sum_to_size sum_to_size make_dual unpack_dual fw_primal slice_inverse
        ncf_view ncf_unsqueeze nested_get_values nested_view_from_buffer nested_view_from_jagged
        """.split()
    ),
    _Property.MAY_RETURN_INPUT: frozenset(
        """
        dropout dropout1d dropout2d dropout3d alpha_dropout feature_dropout feature_alpha_dropout double half bfloat16
        bool short char byte type_as cpu cuda resolve_conj resolve_neg identity atleast_1d atleast_2d atleast_3d
        positive coalesce pin_memory as_tensor lift_fresh sparse_broadcast_to autocast_to_full_precision
        autocast_to_reduced_precision
        """.split()
    ),
    _Property.NO_KERNEL: frozenset(
        """
        view reshape transpose permute unsqueeze squeeze expand contiguous getitem getattr size dim numel detach clone
        t flatten unflatten chunk split movedim swapaxes view_as expand_as item dropout alias stride narrow to
        """.split()
    ),
    _Property.FACTORY: frozenset(
        """
        full full_like zeros zeros_like ones ones_like empty empty_like empty_strided new_zeros new_ones new_full arange
        iota tensor scalar_tensor lift lift_fresh lift_fresh_copy eye linspace clone copy
        """.split()
    ),
}

_RANDOM_WORDS = (
    "rand", "dropout", "bernoulli", "normal", "multinomial", "uniform", "exponential", "poisson", "geometric", "cauchy",
    "rrelu", "fractional_max_pool", "scaled_dot",
)  # fmt: skip
_RANDOM_NAMES = frozenset(
    """
    lstm lstm_mps gru rnn_relu rnn_tanh cudnn_rnn miopen_rnn standard_gamma sample_dirichlet binomial
    flash_attention_forward efficient_attention_forward cudnn_attention_forward cudnn_attention_backward
    fused_sdp_choice nested_tensor_softmax_with_shape
    """.split()
)
_NOT_RANDOM = frozenset({"normalize"})  # which holds one of these words by accident
# Normalisation and observers that update running statistics.
_STATISTICS_WORDS = ("batch_norm", "instance_norm", "moving_avg_obs")
_WRITERS = frozenset(
    "swap_tensors set_data cummax_helper cummin_helper rrelu_with_noise record_stream retain_grad".split()
)
_WRITE_SEVERAL = ("_fused_", "_amp_")
_WRITE_BY_INDEX_WORDS = ("scatter", "index_put", "index_copy", "index_fill", "setitem", "put_")
# Namespaces whose operators write only what their names say.
_NAMED_FOR_WRITES = frozenset({"aten", "prims"})


def is_view(target: str) -> bool:
    """Whether it may return a view of its first argument."""
    return _has(target, _Property.VIEW)


def may_share_memory(target: str) -> bool:
    """Whether its result may share memory with its first argument: a view, or the argument itself."""
    return is_view(target) or _has(target, _Property.MAY_RETURN_INPUT)


def has_no_kernel(target: str) -> bool:
    """Whether it looks at memory in another way, copies it, or asks for a size."""
    return _has(target, _Property.NO_KERNEL)


def computes(target: str) -> bool:
    """Whether it does more than view, move or fill memory; functorch's level markers do not."""
    other = (_Property.VIEW, _Property.NO_KERNEL, _Property.FACTORY)
    return not any(_has(target, one) for one in other) and "functorch" not in target


def is_in_place(target: str) -> bool:
    """Whether its name says that it writes to its first argument."""
    found = parse(target)
    if found.is_python_operator or (found.name.startswith("__") and found.name.endswith("__")):
        return found.base in IN_PLACE or found.base in ITEM_ASSIGNMENTS
    return found.name.endswith("_")


def may_write(target: str) -> bool:
    """Whether it may write to an argument, judged by its name: what a custom operator does is not known."""
    found = parse(target)
    if found.namespace and found.namespace not in _NAMED_FOR_WRITES:
        return True  # a custom operator, or a higher-order one: its body may write
    if found.overload.endswith("out") or found.base in _WRITERS or found.name.startswith(_WRITE_SEVERAL):
        return True
    return is_in_place(target) or _holds(found, _STATISTICS_WORDS) or "inplace" in found.name


def may_write_several(target: str) -> bool:
    """Whether it may write to arguments after the first."""
    found = parse(target)
    if found.namespace and found.namespace not in (*_NAMED_FOR_WRITES, "higher_order"):
        return True
    if found.overload.endswith("out") or found.base in _WRITERS or found.name.startswith(_WRITE_SEVERAL):
        return True
    return _holds(found, _STATISTICS_WORDS)


def writes_by_index(target: str) -> bool:
    """Whether it may write where an index tensor says: two writes to one place happen in no fixed order."""
    return _holds(parse(target), _WRITE_BY_INDEX_WORDS)


def may_draw(target: str) -> bool:
    """Whether it may draw random numbers."""
    found = parse(target)
    return found.base in _RANDOM_NAMES or (found.base not in _NOT_RANDOM and _holds(found, _RANDOM_WORDS))


def _has(target: str, wanted: _Property) -> bool:
    return parse(target).base in _BASE_NAMES[wanted]


def _holds(operator: OperatorName, words: tuple[str, ...]) -> bool:
    return any(word in operator.name for word in words)
