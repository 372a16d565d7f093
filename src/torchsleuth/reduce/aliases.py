"""ATen names of what the torch functions of a graph become: errors and kernels speak of those."""

from __future__ import annotations

from torchsleuth.operators.python_operators import IN_PLACE

_BECOMES = {
    "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d": "convolution",
    "linear matmul mm bmm addmm baddbmm": "mm bmm addmm baddbmm mul sum",
    "layer_norm": "native_layer_norm var_mean rsqrt",
    "group_norm": "native_group_norm var_mean rsqrt",
    "batch_norm": "native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_no_training "
    "_native_batch_norm_legit_functional",
    "max_pool1d max_pool2d max_pool3d": "max_pool2d_with_indices max_pool3d_with_indices "
    "_low_memory_max_pool_with_offsets",
    "adaptive_avg_pool2d": "_adaptive_avg_pool2d mean",
    "interpolate": "upsample_nearest2d upsample_bilinear2d upsample_bicubic2d _unsafe_index",
    "scaled_dot_product_attention": "_scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_flash_attention "
    "_scaled_dot_product_efficient_attention bmm _softmax",
    "dropout": "native_dropout bernoulli",
    "cross_entropy": "_log_softmax nll_loss_forward",
    "log_softmax": "_log_softmax",
    "softmax": "_softmax",
    "getitem": "slice select index _unsafe_index as_strided",
    "setitem": "index_put copy slice_scatter select_scatter fill",
    "to float half bfloat16 double type int long": "_to_copy convert_element_type",
    "truediv": "div",
    "floordiv": "div floor_divide",
    "invert": "bitwise_not logical_not",
    "and": "bitwise_and logical_and",
    "or": "bitwise_or logical_or",
    "masked_fill": "where",
    "std": "var sqrt",
    "norm": "linalg_vector_norm",
    "einsum": "bmm mm sum mul",
}

_ATEN: dict[str, frozenset[str]] = {
    name: frozenset(word.strip("_") for word in made.split())
    for names, made in _BECOMES.items()
    for name in names.split()
}


def aten_names(name: str) -> frozenset[str]:
    """All ATen names that a call of `name` (bare, without underscores around it) may show up under."""
    plain = IN_PLACE[name].strip("_") if name in IN_PLACE else name
    return frozenset({name, plain}) | _ATEN.get(plain, frozenset())
