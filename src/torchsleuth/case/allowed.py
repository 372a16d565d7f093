"""Which names a graph text may hold.

A graph names operators; a text that names anything else is refused before anything is imported.  The rules go by the
shape of the dotted name: known operator namespaces, and single functions listed one by one.  "Starts with torch." is
no rule: torch.load, torch.hub and torch.os.system start so too.
"""

from __future__ import annotations

import re

from torchsleuth.errors import UnsafeGraph

_WORD = r"[A-Za-z_]\w*"

# Namespaces in which every name is an operator (or harmless), one more word allowed behind them.
_NAMESPACES = (
    "torch._C._nn",
    "torch._C._fft",
    "torch._C._linalg",
    "torch._C._special",
    "torch._C._sparse",
    "torch._C._nested",
    "torch._C._functorch",
    "torch._C._VariableFunctions",
    "torch._C._distributed_c10d",
    "torch._VF",
    "torch.nn.functional",
    "torch.functional",
    "torch.special",
    "torch.linalg",
    "torch.fft",
    "torch.sparse",
    "torch.nested",
    "torch.signal.windows",
    "torch._functorch.predispatch",
    "torch._functorch.vmap",
    "torch._functorch.eager_transforms",
    "torch._prims",
    "torch._refs",
    "torch._higher_order_ops.prim_hop_base",
    "torch.fx.experimental.symbolic_shapes",
    "torch.distributed._functional_collectives",
    "torch.autograd.forward_ad",
    "torch._decomp.decompositions",
)
_OPERATOR_SCOPE = ("torch.ops", "torch._ops.ops")
_NOT_OPERATORS = {"load_library", "import_module", "loaded_libraries"}

# Functions that Dynamo puts into graphs and that live among things a graph has no business with.
_FUNCTIONS = {
    "torch.Size",
    "torch._C._log_api_usage_once",
    "torch.amp.autocast_mode._enter_autocast",
    "torch.amp.autocast_mode._exit_autocast",
    "torch._C._set_grad_enabled",
    "torch._C._functions.DelayedError",
    "torch._C._autograd._saved_tensors_hooks_disable",
    "torch._C._autograd._saved_tensors_hooks_enable",
    "torch._C._autograd._saved_tensors_hooks_get_disabled_error_message",
    "torch._C._autograd._unsafe_set_version_counter",
    "torch._C._autograd._get_data_attr",
    "torch._C._set_fwd_grad_enabled",
    "torch._C._is_fwd_grad_enabled",
    "torch._C._enter_dual_level",
    "torch._C._exit_dual_level",
    "torch._C.set_autocast_enabled",
    "torch._C._are_functorch_transforms_active",
    "torch._C._set_deterministic_algorithms",
    "torch._C._group_tensors_by_device_and_dtype",
    "torch._C._ImperativeEngine.queue_callback",
    "torch._C._disabled_torch_function_impl",
    "torch._C._linalg_utils",
    "torch.random.fork_rng",
    "torch.autograd._functions.utils.maybe_copy",
    "torch.autograd.grad",
    "torch.autograd.function._SingleLevelFunction",
    "torch._dynamo._trace_wrapped_higher_order_op.ModIndex.apply",
    "torch._dynamo._trace_wrapped_higher_order_op.mod_index",
    "torch._dynamo.utils.get_fake_value",
    "torch._dynamo.utils.wrapper_create_c10d_function",
    "torch._dynamo.variables.misc.trampoline_autograd_fwd",
    "torch._dynamo.external_utils.call_hook_from_backward_state",
    "torch._utils._get_device_index",
    "torch.cuda.synchronize",
    "torch.cuda.current_stream",
    "torch.nn.init._no_grad_uniform_",
    "torch.utils.checkpoint.checkpoint",
}
_NOT_TENSOR_FUNCTIONS = {
    "load", "save", "compile", "from_file", "import_ir_module", "import_ir_module_from_buffer", "parse_ir", "fork",
    "wait", "set_default_device", "set_default_dtype", "set_default_tensor_type", "set_printoptions", "thread_safe_generator",
    "get_file_path", "prepare_multiprocessing_environment", "classproperty", "typename", "frombuffer", "from_dlpack",
    "init_num_threads", "set_vital", "read_vitals", "merge_type_from_type_comment", "unify_type_list", "storage",
}  # fmt: skip
_BUILTINS = {
    "abs",
    "bool",
    "divmod",
    "float",
    "getattr",
    "int",
    "len",
    "max",
    "min",
    "pow",
    "round",
    "sum",
    "iter",
    "next",
}
_NOT_MATHS = {"attrgetter", "itemgetter", "methodcaller", "call"}
_DUNDERS = {
    f"__{name}__"
    for stem in ("add sub mul truediv floordiv mod pow matmul and or xor lshift rshift").split()
    for name in (stem, f"r{stem}", f"i{stem}")
} | {
    f"__{n}__"
    for n in "eq ne lt le gt ge neg pos abs invert getitem setitem len bool int float index contains get set".split()
}
_NOT_METHODS = {
    "tofile",
    "share_memory_",
    "register_hook",
    "register_post_accumulate_grad_hook",
    "storage",
    "untyped_storage",
    "module_load",
}

MAKERS = {
    "torch.device", "torch.Size", "torch.Generator", "torch.finfo", "torch.iinfo", "range", "complex", "frozenset", "set",
    "torch.Stream", "torch.cuda.Stream",
}  # fmt: skip
_VALUES = re.compile(
    rf"torch\.[a-z]\w*|torch\._C\.[A-Z_]\w*\.{_WORD}|torch\.nn\.attention\.SDPBackend\.{_WORD}|torch\.memory_format\.{_WORD}"
)


def check_function(dotted: str, modules: frozenset[str] = frozenset()) -> str:
    """`dotted` if a graph may call it; `modules` are user modules that the Case names as needed."""
    if not _function_allowed(dotted) and not any(dotted.startswith(m + ".") for m in modules):
        raise UnsafeGraph(
            f"The graph text calls {dotted!r}, which is not an operator. Nothing was run; do not trust this Case."
        )
    return dotted


def _function_allowed(dotted: str) -> bool:
    if not re.fullmatch(rf"{_WORD}(?:\.{_WORD})*", dotted):
        return False
    if dotted in _FUNCTIONS or dotted in _BUILTINS:
        return True
    scope, _, last = dotted.rpartition(".")
    for ops in _OPERATOR_SCOPE:
        if dotted.startswith(ops + "."):
            rest = dotted[len(ops) + 1 :].split(".")
            return (
                len(rest) in (2, 3) and not _NOT_OPERATORS & set(rest) and not any(w.startswith("__") for w in rest[:1])
            )
    if scope in _NAMESPACES:
        return not last.startswith("__")
    if scope in ("operator", "_operator", "math"):
        return not last.startswith("__") and last not in _NOT_MATHS
    if scope == "torch":
        return not last.startswith("__") and last not in _NOT_TENSOR_FUNCTIONS and not last[0].isupper()
    if scope in (
        "torch.Tensor",
        "torch._C.TensorBase",
        "torch._tensor.Tensor",
        "torch.Tensor.data",
        "torch.Tensor.grad",
    ):
        return method_allowed(last)
    return False


def method_allowed(name: str) -> bool:
    return (not name.startswith("__") or name in _DUNDERS) and name not in _NOT_METHODS


def check_method(name: str) -> str:
    if not method_allowed(name):
        raise UnsafeGraph(f"The graph text calls the method {name!r}, which is not an operator. Nothing was run.")
    return name


def check_value(dotted: str) -> str:
    """`dotted` if it may stand as a value: a dtype, a layout, an enum member, an operator."""
    if dotted in ("inf", "nan") or _function_allowed(dotted):
        return dotted
    last = dotted.rpartition(".")[2]
    if not _VALUES.fullmatch(dotted) or last.startswith("__") or last in _NOT_TENSOR_FUNCTIONS:
        raise UnsafeGraph(
            f"The graph text holds the name {dotted!r}, which is neither a constant nor an operator. Nothing was run."
        )
    return dotted
