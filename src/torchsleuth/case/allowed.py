"""Which names a graph text may hold.

A graph names operators; a text that names anything else is refused before anything is imported.  The rules go by the
shape of the dotted name: known operator namespaces, and single functions listed one by one.  "Starts with torch." is
no rule: torch.load, torch.hub and torch.os.system start so too.

A higher-order operator calls what it is given, so a value is as dangerous as a function: no module may stand as a
value, and nothing that hands out functions by name (torch._import_dotted_name, getattr of a dunder) may be called.
"""

from __future__ import annotations

import re

from torchsleuth.case.operator_names import LOWERS_VERSION
from torchsleuth.errors import UnsafeGraph

_WORD = r"[A-Za-z_]\w*"

# Namespaces of operators, one more word allowed behind them; what else lives there is in _NOT_OPERATORS.
_NAMESPACES = (
    "torch._C._nn",
    "torch._C._fft",
    "torch._C._linalg",
    "torch._C._special",
    "torch._C._sparse",
    "torch._C._nested",
    "torch._C._functorch",
    "torch._C._VariableFunctions",
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
    "torch.distributed._functional_collectives",
    "torch.autograd.forward_ad",
    "torch._decomp.decompositions",
)
_SYMBOLIC_SHAPES = re.compile(
    r"torch\.fx\.experimental\.symbolic_shapes\."
    r"(?:guard|sym|is_concrete|statically_known|definitely|constrain|has_free|has_static|expect_true|cast_symbool)\w*"
)
_OPERATOR_SCOPE = ("torch.ops", "torch._ops.ops")
# Registered operators that read or write files, and attributes of the registry itself.
_NOT_REGISTERED = {
    "load_library", "import_module", "loaded_libraries", "save", "load", "from_file", "load_tensor", "read_file",
    "write_file", "py_impl", "py_functionalize_impl", "py_autograd_impl", "register_kernel", "decompose",
}  # fmt: skip
# Modules of operators import helpers too: those that take or make functions, or register things.
_NOT_OPERATORS = {
    "partial", "reduce", "wraps", "overload", "singledispatch", "make_fx", "exposed_in", "nullcontext", "lru_cache",
    "contextmanager", "dataclass", "cast", "chain", "product", "out_wrapper", "tree_map", "tree_map_", "tree_map_only",
    "boolean_dispatch", "handle_torch_function", "get_proxy_mode", "backend_impl", "is_functional_schema", "linearize",
    "functionalize", "lazy_dynamo_disallow", "as_sparse_gradcheck", "check_sparse_tensor_invariants", "type_casts",
    "backwards_not_supported", "_add_docstr", "_overload", "_jit_unused", "_wraps_without_dynamo_attrs", "_rebuild_njt",
    "_test_string_default", "elementwise_type_promotion_wrapper", "elementwise_unary_scalar_wrapper",
    "handle_noncontiguous_outputs",
}  # fmt: skip
_NOT_OPERATOR_PREFIXES = ("register_", "_make_elementwise", "_make_prim", "_make_reduction", "_make_var", "_make_alias",
    "_make_copy_from", "_make_inplace", "_make_r_binary")  # fmt: skip

# Functions that Dynamo puts into graphs and that live among things a graph has no business with.
_FUNCTIONS = {
    LOWERS_VERSION,
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
    "torch.nn.attention._backend_from_string",
    "torch.nn.attention._sdpa_kernel",
    "torch.utils.checkpoint.checkpoint",
}
_NOT_TENSOR_FUNCTIONS = {
    "load", "save", "compile", "from_file", "import_ir_module", "import_ir_module_from_buffer", "parse_ir", "fork",
    "wait", "thread_safe_generator", "parse_schema", "parse_type_comment",
    "get_file_path", "prepare_multiprocessing_environment", "classproperty", "typename", "frombuffer", "from_dlpack",
    "init_num_threads", "read_vitals", "merge_type_from_type_comment", "unify_type_list", "storage",
    "get_device_module", "use_deterministic_algorithms", "vitals_enabled",
    "profiler_allow_cudagraph_cupti_lazy_reinit_cuda12",
    "compiled_with_cxx11_abi", "dtype", "layout", "memory_format", "qscheme",
    "_as_tensor_fullprec", "_overload", "_running_with_deploy", "_sync", "_deprecated", "_disable_dynamo",
    "_enable_functionalization", "_disable_functionalization", "_mirror_autograd_meta_to",
}  # fmt: skip
_MODULES_OF_TORCH = frozenset(
    "_C _VF __config__ __future__ _appdirs _awaits _classes _compile _custom_op _custom_ops _decomp _dispatch "
    "_dynamo _environment _export _functorch _guards _higher_order_ops _inductor _jit_internal _lazy _library "
    "_linalg_utils _lobpcg _logging _lowrank _meta_registrations _namedtensor_internals _native _numpy "
    "_opaque_base _ops _prims _prims_common _python_dispatcher _refs _sources _streambase _strobelight "
    "_subclasses _tensor _tensor_docs _tensor_iterator _tensor_str _thread_safe_fork _torch_docs _utils "
    "_utils_internal _vendor _vmap_internals _weights_only_unpickler accelerator amp ao autograd backends bin "
    "builtins classes compiler contrib cpp cpu ctypes cuda distributed distributions export fft func functional "
    "functools futures fx glob hub importlib inspect jit library linalg masked math monitor mps mtia "
    "multiprocessing nativert nested nn numa onnx ops optim os overrides package platform profiler quantization "
    "quasirandom random return_types serialization signal sparse special storage sys testing textwrap threading "
    "torch torch_version types utils version warnings windows xpu".split()
)
# torch._import_dotted_name("os.system") is os.system: private words of torch's own machinery, by how they begin.
_NOT_TENSOR_PREFIXES = (
    "_import",
    "_load",
    "_preload",
    "_register",
    "_init",
    "_get_",
    "_is_device",
    "_warn",
    "_running",
)
_SETTERS = {"set_grad_enabled", "set_rng_state"}  # and those of autocast; others change the process, not a value
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
    for stem in ("add sub mul div truediv floordiv mod pow matmul and or xor lshift rshift").split()
    for name in (stem, f"r{stem}", f"i{stem}")
} | {
    f"__{n}__"
    for n in (
        "eq ne lt le gt ge neg pos abs invert getitem setitem len bool int float complex long nonzero index contains "
        "reversed get set is isnot not"
    ).split()
}
_NOT_METHODS = {
    "tofile",
    "share_memory_",
    "register_hook",
    "register_post_accumulate_grad_hook",
    "storage",
    "untyped_storage",
    "module_load",
    "numpy",  # an array has methods of its own, and some write files
    "dump",
    "dumps",
}

MAKERS = {
    "torch.device", "torch.Size", "torch.Generator", "torch.finfo", "torch.iinfo", "range", "frozenset",
    "set", "torch.Stream", "torch.cuda.Stream",
}  # fmt: skip
# No `torch.\w+` here: torch.os is a module.  Types of numbers, layouts, memory formats, schemes, members of enums.
_VALUES = re.compile(
    r"torch\.(?:(?:b?float|complex|q?u?int|bits)\d\w*|bool|bit|half|float|double|short|int|long|cfloat|cdouble|chalf"
    r"|strided|jagged|_mkldnn|sparse_(?:coo|csr|csc|bsr|bsc)|(?:per_channel|per_tensor)_\w+"
    r"|(?:legacy_)?contiguous_format|channels_last(?:_3d)?|preserve_format)"
    r"|torch\.(?:_C\.(?:\w+\.)?[A-Z_]\w*|nn\.attention\.SDPBackend|utils\.checkpoint\.CheckpointPolicy"
    r"|nn\.functional\.(?:ScalingType|SwizzleType))\.[A-Z]\w*"
)
_DTYPE = re.compile(r"torch\.(?:(?:b?float|complex|q?u?int|bits)\d\w*|bool)")
_ATTRIBUTE = re.compile(r"[A-Za-z]\w*|_version|_base|_grad|_grad_fn|_backward_hooks|_has_symbolic_sizes_strides")


def check_function(dotted: str, modules: frozenset[str] = frozenset()) -> str:
    """`dotted` if a graph may call it; `modules` are user modules that the Case names as needed."""
    if not _function_allowed(dotted) and not any(dotted.startswith(m + ".") for m in modules):
        raise UnsafeGraph(
            f"The graph text calls {dotted!r}, which is not an operator. Nothing was run; do not trust this Case."
        )
    return dotted


def _function_allowed(dotted: str) -> bool:
    if not re.fullmatch(rf"{_WORD}(?:\.{_WORD})*", dotted, re.ASCII):
        return False
    if dotted in _FUNCTIONS or dotted in _BUILTINS or _SYMBOLIC_SHAPES.fullmatch(dotted):
        return True
    scope, _, last = dotted.rpartition(".")
    for ops in _OPERATOR_SCOPE:
        if dotted.startswith(ops + "."):
            return _registered_allowed(dotted[len(ops) + 1 :].split("."))
    if scope in _NAMESPACES:
        return (
            not last.startswith("__")
            and not _is_class(last)
            and last not in _NOT_OPERATORS
            and not last.startswith(_NOT_OPERATOR_PREFIXES)
        )
    if scope in ("operator", "_operator", "math"):
        return not last.startswith("__") and last not in _NOT_MATHS
    if scope == "torch":
        return _tensor_function_allowed(last)
    if scope in (
        "torch.Tensor",
        "torch._C.TensorBase",
        "torch._tensor.Tensor",
        "torch.Tensor.data",
        "torch.Tensor.grad",
    ):
        return method_allowed(last)
    return False


def _registered_allowed(words: list[str]) -> bool:
    """namespace.operator or namespace.operator.overload."""
    if len(words) not in (2, 3) or _NOT_REGISTERED & set(words):
        return False
    namespace, operator, *overload = words
    is_dunder = operator.startswith("__") and operator.endswith("__")
    return (
        not namespace.startswith("__")
        and (not is_dunder or operator in _DUNDERS)
        and not any(w.startswith("__") for w in overload)
    )


def _tensor_function_allowed(word: str) -> bool:
    if word.startswith("__") or _is_class(word) or word in _NOT_TENSOR_FUNCTIONS or word in _MODULES_OF_TORCH:
        return False
    if word.startswith(("set_", "_set_")):
        return word in _SETTERS or word.startswith("set_autocast_")
    return not word.startswith(_NOT_TENSOR_PREFIXES)


def _is_class(word: str) -> bool:
    return word.lstrip("_")[:1].isupper()


def method_allowed(name: str) -> bool:
    return (not name.startswith("__") or name in _DUNDERS) and name not in _NOT_METHODS


def check_method(name: str) -> str:
    if not method_allowed(name):
        raise UnsafeGraph(f"The graph text calls the method {name!r}, which is not an operator. Nothing was run.")
    return name


def check_attribute(name: object) -> str:
    """`name` if `getattr` may read it: a property of a tensor, a size or a number."""
    if not isinstance(name, str) or not _ATTRIBUTE.fullmatch(name) or not method_allowed(name):
        raise UnsafeGraph(f"The graph text reads the attribute {name!r}, which no graph does. Nothing was run.")
    return name


def is_dtype(dotted: str) -> bool:
    return bool(_DTYPE.fullmatch(dotted))


def check_value(dotted: str) -> str:
    """`dotted` if it may stand as a value: a dtype, a layout, an enum member, an operator."""
    if dotted in ("inf", "nan") or _VALUES.fullmatch(dotted) or _function_allowed(dotted):
        return dotted
    raise UnsafeGraph(
        f"The graph text holds the name {dotted!r}, which is neither a constant nor an operator. Nothing was run."
    )
