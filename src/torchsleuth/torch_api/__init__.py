"""Every private torch name that torchsleuth uses, with what differs between versions.

Supported: torch 2.11 to the newest.  Names are looked up when they are needed, never at import, so that importing this
file costs nothing and a name that moved breaks one function here and nothing else.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import importlib
import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from types import CodeType, FunctionType
from typing import Any

import torch

# --- operators seen one by one --------------------------------------------------------------------------------------


def dispatch_mode() -> Any:
    """The class of modes that see every operator below autograd."""
    return importlib.import_module("torch.utils._python_dispatch").TorchDispatchMode


def written_arguments(operator: Any) -> tuple[int, ...]:
    """Places of the arguments that an operator writes, by its schema."""
    arguments = operator._schema.arguments
    return tuple(i for i, a in enumerate(arguments) if a.alias_info is not None and a.alias_info.is_write)


def modes_off() -> Any:
    """A context in which operators reach no mode."""
    return importlib.import_module("torch.utils._python_dispatch")._disable_current_modes()


def reads_bits(operator: Any) -> bool:
    """Whether it takes the bits of a float for something else."""
    return operator is torch.ops.aten.view.dtype


# --- names of functions -------------------------------------------------------------------------------------------

_SEARCHED = (
    "torch",
    "torch.nn.functional",
    "torch._C._nn",
    "torch.special",
    "torch.linalg",
    "torch.fft",
    "torch._C._linalg",
    "torch._C._special",
    "torch._C._fft",
    "torch._C._sparse",
    "torch._C._nested",
    "torch.sparse",
    "torch.nested",
    "torch.functional",
    "torch._VF",
    "torch._C",
    "torch._C._functorch",
    "torch._C._autograd",
    "torch._functorch.predispatch",
    "torch.amp.autocast_mode",
    "torch.fx.experimental.symbolic_shapes",
    "torch.Tensor",
    "torch._C.TensorBase",
    "operator",
    "math",
    "builtins",
)


@functools.cache
def _functions_by_id() -> dict[int, str]:
    found: dict[int, str] = {}
    for scope in _SEARCHED:
        holder = resolve(scope)
        for name in dir(holder):
            if name.startswith("__") and scope not in ("torch.Tensor", "torch._C.TensorBase"):
                continue
            value = getattr(holder, name, None)
            if callable(value):
                plain = name if scope == "builtins" else f"{scope}.{name}"
                found.setdefault(id(value), plain)
    return found


def qualified_name(function: Any) -> str | None:
    """The dotted name under which `resolve` finds `function` again, or None."""
    if isinstance(function, torch._ops.OpOverload):
        return f"torch.ops.{function._schema.name.replace('::', '.')}.{function._overloadname}"
    if isinstance(function, torch._ops.HigherOrderOperator):
        return f"torch.ops.higher_order.{function.__name__}"
    if isinstance(function, torch._ops.OpOverloadPacket):
        return "torch.ops." + function._qualified_op_name.replace("::", ".")
    known = _functions_by_id().get(id(function))
    if known and resolve(known) is function:
        return known
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if not module or not name or "<" in name:
        return None
    dotted = f"{module}.{name}"
    try:
        return dotted if resolve(dotted) is function else None
    except (ImportError, AttributeError):
        return None


def resolve(dotted: str) -> Any:
    """The object of a dotted name; raises AttributeError or ImportError.  Only call it with names that are allowed."""
    if "." not in dotted:
        return (
            getattr(importlib.import_module("builtins"), dotted)
            if dotted not in ("torch", "operator", "math", "builtins")
            else importlib.import_module(dotted)
        )
    parts = dotted.split(".")
    if parts[:3] == ["torch", "ops", "higher_order"]:
        importlib.import_module("torch._higher_order_ops")
    value: Any = importlib.import_module(parts[0])
    for i, part in enumerate(parts[1:], start=2):
        try:
            value = getattr(value, part)
        except AttributeError:
            value = importlib.import_module(".".join(parts[:i]))
    return value


# --- values in graphs ---------------------------------------------------------------------------------------------


def is_symbolic(value: object) -> bool:
    return isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool))


def expression_of(value: Any) -> int | float | bool | str:
    """A plain number, or the text of a symbolic one's expression."""
    if not is_symbolic(value):
        return value  # type: ignore[no-any-return]
    node = value.node
    constant = node.maybe_as_int() if isinstance(value, torch.SymInt) else None
    return constant if constant is not None else str(node.expr)


def hint_of(value: Any) -> int | float | bool | None:
    """The number that a symbolic value stood for when it was traced, or None if nobody knows (unbacked)."""
    if not is_symbolic(value):
        return value  # type: ignore[no-any-return]
    node = value.node
    return node.hint if node.has_hint() else None


def is_fake(tensor: torch.Tensor) -> bool:
    from torch._subclasses.fake_tensor import FakeTensor

    return isinstance(tensor, FakeTensor)


def is_zero_tensor(tensor: torch.Tensor) -> bool:
    return bool(tensor._is_zerotensor()) if tensor.layout is torch.strided else False


def make_zero_tensor(size: tuple[int, ...], dtype: torch.dtype, device: str) -> torch.Tensor:
    return torch._efficientzerotensor(size, dtype=dtype, device=device)


def is_wrapper_subclass(tensor: torch.Tensor) -> bool:
    from torch.utils._python_dispatch import is_traceable_wrapper_subclass

    return bool(is_traceable_wrapper_subclass(tensor))


def has_hooks(module: torch.nn.Module) -> bool:
    """Whether calling `module` runs more than its forward."""
    return bool(
        module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or module._backward_pre_hooks
    )


def version_of(tensor: torch.Tensor) -> int:
    # Inference tensors have no version counter and cannot be asked.
    return 0 if tensor.is_inference() else int(tensor._version)


def make_graph_module(root: torch.nn.Module, graph: torch.fx.Graph) -> torch.fx.GraphModule:
    """A GraphModule that prints its Python when it is first called: some graphs that compile cannot be printed."""
    from torch.fx import _lazy_graph_module as lazy

    with lazy._use_lazy_graph_module(True):
        return lazy._make_graph_module(root, graph)


def source_name(placeholder: torch.fx.Node) -> str:
    """How Dynamo reaches an input from the frame: L['self']._modules['fc']._parameters['weight']."""
    source = getattr(placeholder, "_dynamo_source", None)
    if source is None:
        argument = placeholder.meta.get("grapharg")
        source = getattr(argument, "source", None)
    name = getattr(source, "name", "")
    return str(name() if callable(name) else name)


# --- where a graph compiles ---------------------------------------------------------------------------------------


def compile_id() -> str:
    from torch._guards import CompileContext

    found = CompileContext.current_compile_id()
    return str(found) if found is not None else ""


def forward_metadata() -> Any:
    """AOTAutograd's analysis of the graph being compiled (which inputs are mutated), or None."""
    from torch._guards import TracingContext

    context = TracingContext.try_get()
    return getattr(context, "fw_metadata", None)


def donated_inputs() -> list[int]:
    """Inputs of the backward being compiled that nobody reads after it: Inductor may write into them."""
    return list(getattr(forward_metadata(), "bw_donated_idxs", None) or ())


def config_modules() -> dict[str, Any]:

    return {
        name: importlib.import_module(name)
        for name in (
            "torch._dynamo.config",
            "torch._inductor.config",
            "torch._functorch.config",
            "torch.fx.experimental._config",
        )
    }


def changed_configs(module: Any) -> Iterator[tuple[str, Any]]:
    """Entries that differ from their default (an entry set through the environment counts as its default)."""
    for name, entry in module._config.items():
        if module._is_default(name) or getattr(entry, "alias", None) is not None:
            continue
        # An entry that was patched and put back is marked as set, to its default.
        value = getattr(module, name)
        if value != entry.default:
            yield name, value


def allowed_to_break(error: BaseException) -> bool:
    """Whether Dynamo may turn this backend exception into a graph break: then it is no failure."""
    from torch._dynamo import output_graph

    kinds = getattr(output_graph, "exceptions_allowed_to_be_fallback", ())
    if isinstance(kinds, type):
        kinds = (kinds,)
    return isinstance(error, tuple(kinds)) or type(error).__name__ in (
        "SkipFrame",
        "TensorifyScalarRestartAnalysis",
        "RestartAnalysis",
    )


def suppresses_errors() -> bool:
    import torch._dynamo.config as config

    return bool(config.suppress_errors)


def negative_view(tensor: torch.Tensor) -> torch.Tensor:
    return torch._neg_view(tensor)


# --- backends and operators ---------------------------------------------------------------------------------------


def backend_parts(backend: Any) -> tuple[str, Any, dict[str, Any], str | None]:
    """(registered name or "", the function, options, mode) of what Dynamo calls with a graph."""
    from torch._dynamo.backends import registry

    function = backend
    options: dict[str, Any] = {}
    mode: str | None = None
    if isinstance(backend, torch._TorchCompileInductorWrapper):
        return backend.compiler_name, backend, dict(backend.config), None
    if isinstance(backend, torch._TorchCompileWrapper):
        function = backend.compiler_fn
        options = dict(backend.kwargs.get("options") or {})
        mode = backend.kwargs.get("mode")
    for name, known in registry._COMPILER_FNS.items():
        if known is function:
            return name, function, options, mode
    return "", function, options, mode


_TORCH_NAMESPACES = {
    "aten", "prims", "prim", "higher_order", "inductor", "inductor_prims", "mkldnn", "mkl", "onednn", "quantized",
    "quantized_decomposed", "c10d", "_c10d_functional", "_c10d_functional_autograd", "_dtensor", "_quantized", "sparse",
    "rngprims", "debugprims", "symm_mem", "profiler", "streams", "_inductor_test",
    "xnnpack", "fsdp", "mtia", "bn", "aoti",
    "torch_attn", "flex_lib", "mkldnn_prepacked", "static_runtime", "cuda", "export", "image",
}  # fmt: skip


def is_foreign_operator(target: str) -> bool:
    """Whether torch.ops.NS.NAME belongs to a namespace that torch does not bring."""
    return target.split(".")[2] not in _TORCH_NAMESPACES


def is_float_argument(placeholder: torch.fx.Node) -> bool:
    """Whether this 0-d tensor input is a Python float of the user's (Dynamo passes it so under dynamic shapes)."""
    argument = placeholder.meta.get("grapharg")
    return bool(getattr(argument, "pass_arg_as_tensor", False)) and placeholder.meta["example_value"].ndim == 0


# --- what hooks need ----------------------------------------------------------------------------------------------


def unwrap_backend(wrapper: Any) -> Any:
    """What torch.compile was given, behind Dynamo's own wrapper."""
    return getattr(wrapper, "_torchdynamo_orig_backend", wrapper)


def is_control_flow(error: BaseException) -> bool:
    """Exceptions by which Dynamo talks to itself and the caller of a frame: not failures."""
    return type(error).__name__ in (
        "SkipFrame",
        "RestartAnalysis",
        "TensorifyScalarRestartAnalysis",
        "SpeculationRestartAnalysis",
    )


def copy_call_marks(compiled: Any, wrapper: Any) -> None:
    """Attributes by which Dynamo and AOTAutograd recognise compiled functions."""
    for mark in ("_boxed_call", "_torchdynamo_orig_callable"):
        if hasattr(compiled, mark):
            setattr(wrapper, mark, getattr(compiled, mark))


def boxed(function: Callable[..., Any]) -> Callable[..., Any]:
    made: Callable[..., Any] = importlib.import_module("functorch.compile").make_boxed_func(function)
    return made


def is_cacheable_compiler(compiler: Any) -> bool:
    """Inductor's compilers, which AOTAutograd's cache knows by their class."""
    from torch._functorch._aot_autograd.schemas import SerializableAOTDispatchCompiler

    return isinstance(compiler, SerializableAOTDispatchCompiler)


def is_backward_code(code: Any) -> bool:
    kwargs = getattr(code, "fx_kwargs", None) or {}
    return bool(kwargs.get("is_backward"))


def unboxed(value: Any) -> Any:
    """The plain value of Inductor's boxed booleans."""
    return value.value if type(value).__name__ in ("BoxedBool", "BoxedDeviceIndex") else value


def symbols_of(module: torch.fx.GraphModule) -> dict[str, dict[str, Any]]:
    """Symbols of the graph's shape environment: what each stood for, and the range it was known to lie in."""
    for node in module.graph.nodes:
        value = node.meta.get("val")
        mode = getattr(value, "fake_mode", None)
        environment = getattr(mode, "shape_env", None)
        if environment is None:
            continue
        # The older name still exists where the newer does, and warns when it is touched.
        newer = hasattr(environment, "backed_var_to_val")
        known = environment.backed_var_to_val if newer else environment.var_to_val
        found = {}
        for symbol, hint in known.items():
            bounds = environment.var_to_range.get(symbol)
            found[str(symbol)] = {"value": int(hint), "low": _bound(bounds, "lower"), "high": _bound(bounds, "upper")}
        return found
    return {}


def _bound(bounds: Any, side: str) -> int | None:
    try:
        return int(getattr(bounds, side))
    except (AttributeError, TypeError, OverflowError, ValueError):
        return None


# --- carrying and planting ----------------------------------------------------------------------------------------

Compiler = Callable[..., Any]


def custom_op_functions(qualified: str) -> tuple[FunctionType, ...]:
    """The Python functions registered for `ns::name` by `torch.library.custom_op` or `triton_op`, the kernel first."""
    definitions = importlib.import_module("torch._library.custom_ops").OPDEFS
    found = definitions.get(qualified)
    if found is None:
        return ()
    parts = [found._init_fn, *found._backend_fns.values(), found._abstract_fn, found._backward_fn]
    parts += [found._setup_context_fn, found._vmap_fn]
    return tuple(part for part in parts if isinstance(part, FunctionType))


def aot_eager_with(
    gm: torch.fx.GraphModule, inputs: Sequence[Any], forward: Compiler, backward: Compiler
) -> Callable[..., Any]:
    """What the backend `aot_eager` does, with `forward` and `backward` called on its two graphs first."""
    debugging = importlib.import_module("torch._dynamo.backends.debugging")

    def then_run(change: Compiler) -> Compiler:
        return lambda graph, example: debugging.boxed_nop(change(graph), example)

    compiled: Callable[..., Any] = debugging.aot_eager(
        gm, inputs, fw_compiler=then_run(forward), bw_compiler=then_run(backward)
    )
    return compiled


def copy_of_graph(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """The graph as it is now, to run in eager later: backends change the one they are given."""
    graph = torch.fx.Graph()
    graph.output(graph.graph_copy(module.graph, {}))
    return torch.fx.GraphModule(module, graph)


def compile_with_inductor(
    gm: torch.fx.GraphModule, inputs: Sequence[Any], options: dict[str, Any]
) -> Callable[..., Any]:
    compile_fx = importlib.import_module("torch._inductor.compile_fx").compile_fx
    compiled: Callable[..., Any] = compile_fx(gm, inputs, config_patches=options or None)
    return compiled


def inductor_with(
    gm: torch.fx.GraphModule, inputs: Sequence[Any], forward: Compiler, backward: Compiler
) -> Callable[..., Any]:
    """Inductor, with `forward` and `backward` called on the ATen graphs that reach its inner entry."""
    compile_fx = importlib.import_module("torch._inductor.compile_fx")

    def inner(graph: torch.fx.GraphModule, example: Sequence[Any], **kwargs: Any) -> Any:
        change = backward if kwargs.get("is_backward") else forward
        return compile_fx.compile_fx_inner(change(graph), example, **kwargs)

    # The cache of whole AOT results is keyed by the graph before `inner` sees it: a hit would skip the change.
    compiled: Callable[..., Any] = compile_fx.compile_fx(
        gm, inputs, inner_compile=inner, config_patches={"force_disable_caches": True}
    )
    return compiled


# --- debugging backends -------------------------------------------------------------------------------------------


def aot(
    gm: torch.fx.GraphModule, inputs: Sequence[Any], compiler: Compiler, *, min_cut: bool, decompositions: Any
) -> Callable[..., Any]:
    """AOTAutograd, its forward, backward and inference graphs handed to `compiler`, which gives boxed functions."""
    common = importlib.import_module("torch._dynamo.backends.common")
    partitioners = importlib.import_module("functorch.compile")
    partition = partitioners.min_cut_rematerialization_partition if min_cut else partitioners.default_partition
    compiled: Callable[..., Any] = common.aot_autograd(
        fw_compiler=compiler,
        bw_compiler=compiler,
        partition_fn=partition,
        decompositions=decompositions,
        keep_inference_input_mutations=True,
    )(gm, inputs)
    return compiled


def core_decompositions() -> dict[Any, Callable[..., Any]]:
    """To the core operators of ATen, as exported programs have them."""
    return dict(importlib.import_module("torch._decomp").core_aten_decompositions())


def inductor_decompositions() -> dict[Any, Callable[..., Any]]:
    return dict(importlib.import_module("torch._inductor.decomposition").select_decomp_table())


def traced_inputs(gm: torch.fx.GraphModule) -> list[Any]:
    """The fake tensors that Dynamo traced its graph with."""
    return [node.meta["example_value"] for node in gm.graph.nodes if node.op == "placeholder"]


@contextlib.contextmanager
def real_constants_allowed(inputs: Sequence[Any]) -> Iterator[None]:
    """Graphs hold constants as real tensors; a trace with the fake tensors `inputs` meets them."""
    modes = {id(value.fake_mode): value.fake_mode for value in inputs if hasattr(value, "fake_mode")}
    before = [(mode, mode.allow_non_fake_inputs) for mode in modes.values()]
    for mode, _ in before:
        mode.allow_non_fake_inputs = True
    try:
        yield
    finally:
        for mode, allowed in before:
            mode.allow_non_fake_inputs = allowed


def is_higher_order(operator: Any) -> bool:
    return isinstance(operator, torch._ops.HigherOrderOperator)


def decomposed(operator: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """What an operator that is only composed of others gives; NotImplemented where it has a kernel of its own."""
    return operator.decompose(*args, **kwargs)


def run_without_modes(operator: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The plain kernel of a higher-order operator, past the modes that are on: they see what it calls."""
    return operator.dispatch(torch._C.DispatchKey.CompositeExplicitAutograd, *args, **kwargs)


def invoke_subgraph(body: Callable[..., Any], name: str, operands: Sequence[Any]) -> Any:
    return importlib.import_module("torch._higher_order_ops.invoke_subgraph").invoke_subgraph(body, name, *operands)


def script(gm: torch.fx.GraphModule) -> Callable[..., Any]:
    """The graph by TorchScript; raises what TorchScript raises."""
    # Scripting reads the class: a lazy GraphModule has no forward of its own yet.
    plain = torch.fx.GraphModule(gm, copy.deepcopy(gm.graph))
    for node in plain.graph.nodes:
        if isinstance(node.target, torch._ops.OpOverload):
            node.target = node.target.overloadpacket  # TorchScript chooses the overload by the arguments
        value = node.meta.get("example_value", node.meta.get("val"))
        if node.op == "placeholder" and isinstance(value, torch.SymInt):
            node.type = int  # or it is taken for a tensor
    plain.recompile()
    before = torch._C._jit_set_autocast_mode(False)  # the graph has its casts already
    try:
        scripted: Callable[..., Any] = torch.jit.script(plain)
    finally:
        torch._C._jit_set_autocast_mode(before)
    return scripted


def signature(operator: Any) -> tuple[list[Any], list[Any]]:
    """Arguments and returns of an operator's schema; each has `name` and `alias_info`."""
    return list(operator._schema.arguments), list(operator._schema.returns)


def schema_text(operator: Any) -> str:
    return str(operator._schema)


def alias_sets(annotation: Any) -> frozenset[str]:
    """The letters of an annotation such as (a!) or (a -> *); none where there is none."""
    if annotation is None:
        return frozenset()
    # Of a list, Python is told only that there is an annotation: it may be any letter.
    return frozenset((*annotation.before_set, *annotation.after_set)) or frozenset("*")


class NoFakeAnswer(Exception):
    """The fake kernel cannot know: there is none, or the result depends on values."""


@dataclasses.dataclass(frozen=True)
class FakeCall:
    """A call of an operator with fake copies of its arguments; to be made before the real call changes them."""

    operator: Any
    args: Any
    kwargs: Any
    mode: Any

    @staticmethod
    def of(operator: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> FakeCall:
        fake_tensor = importlib.import_module("torch._subclasses.fake_tensor")
        symbolic_shapes = importlib.import_module("torch.fx.experimental.symbolic_shapes")
        # A mode of its own for each call: it remembers the tensors that it has seen, and they may change.
        mode = fake_tensor.FakeTensorMode(allow_fallback_kernels=False, shape_env=symbolic_shapes.ShapeEnv())

        def fake(value: Any) -> Any:
            return mode.from_tensor(value, static_shapes=True) if isinstance(value, torch.Tensor) else value

        tree_map = importlib.import_module("torch.utils._pytree").tree_map
        with modes_off():
            return FakeCall(operator, tree_map(fake, tuple(args)), tree_map(fake, dict(kwargs)), mode)

    def result(self) -> Any:
        fake_tensor = importlib.import_module("torch._subclasses.fake_tensor")
        unknown = (
            fake_tensor.DataDependentOutputException,
            fake_tensor.DynamicOutputShapeException,
            fake_tensor.UnsupportedOperatorException,
        )
        try:
            with modes_off(), self.mode:
                return self.operator(*self.args, **self.kwargs)
        except unknown as error:
            raise NoFakeAnswer(str(error)) from error


def register_backend(name: str, backend: Callable[..., Any]) -> None:
    """Make `torch.compile(backend=name)` find `backend`; a name that is taken stays as it is."""
    dynamo = importlib.import_module("torch._dynamo")
    if name not in dynamo.list_backends(exclude_tags=()):
        dynamo.register_backend(backend, name=name)


# --- what the doctor asks -----------------------------------------------------------------------------------------


def cpp_compiler() -> str:
    """The C++ compiler that Inductor will use; raises where it finds none."""
    found: str = importlib.import_module("torch._inductor.cpp_builder").get_cpp_compiler()
    return found


# --- what a trial switches ------------------------------------------------------------------------------------------


def probe_vector_instructions() -> None:
    """Find out once what each compilation asks: it takes a C++ compilation, 8 s, and is remembered in the process."""
    try:
        from torch._inductor.cpu_vec_isa import pick_vec_isa
    except ImportError as error:
        print(f"not warmed: vector instructions: {error}")
    else:
        pick_vec_isa()


def use_caches(folder: str) -> None:
    """From here on, this process keeps what it compiles below `folder`."""
    package = importlib.import_module("torch._dynamo.package")
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(folder, "inductor")
    os.environ["TRITON_CACHE_DIR"] = os.path.join(folder, "triton")
    # The one folder that torch works out at import; the others are read from the environment at each use.
    precompiled = getattr(package, "DynamoCache", None)
    if precompiled is not None and hasattr(precompiled, "path_prefix"):
        precompiled.path_prefix = os.path.join(folder, "inductor", "dynamo")


def draw_like_eager() -> None:
    """Compiled code draws the random numbers that eager draws."""
    vars(importlib.import_module("torch._inductor"))["config"].fallback_random = True


@contextlib.contextmanager
def drawing_like_eager() -> Iterator[None]:
    with importlib.import_module("torch._inductor.config").patch(fallback_random=True):
        yield


def switch_compilation(on: bool) -> None:
    """The variable, which a script may look at; the config, which was read from it when torch was imported; and the
    stance, because with the config alone fullgraph=True complains that nothing was compiled.
    """
    import torch._dynamo

    if on:
        os.environ.pop("TORCH_COMPILE_DISABLE", None)
    else:
        os.environ["TORCH_COMPILE_DISABLE"] = "1"
    torch._dynamo.config.disable = not on
    torch.compiler.set_stance("default" if on else "force_eager")


def forget_compilation() -> None:
    import torch._dynamo

    torch._dynamo.reset()


# --- what explaining needs ----------------------------------------------------------------------------------------


def on_trace(handler: logging.Handler) -> None:
    """`handler` gets every record of torch's structured trace: `record.metadata`, `record.payload`.

    To be said again now and then: torch._logging.set_logs takes all handlers off.
    """
    importlib.import_module("torch._logging._internal").trace_log.addHandler(handler)


def no_more_trace(handler: logging.Handler) -> None:
    importlib.import_module("torch._logging._internal").trace_log.removeHandler(handler)


def trace_formatter() -> logging.Formatter:
    """Makes the lines that a file below TORCH_TRACE holds."""
    made: logging.Formatter = importlib.import_module("torch._logging._internal").TorchLogsFormatter(trace=True)
    return made


def backend_named(backend: Any) -> Callable[..., Any]:
    """The function behind a registered name; what is a function already stays."""
    found: Callable[..., Any] = importlib.import_module("torch._dynamo").lookup_backend(backend)
    return found


def interned_trace_strings() -> dict[str, int]:
    """Strings that the trace names by number, because it wrote them out before."""
    return dict(importlib.import_module("torch._logging.structured").INTERN_TABLE)


def on_bytecode(hook: Callable[[CodeType, CodeType], CodeType | None]) -> Callable[[], None]:
    """`hook(code, generated)` may give other bytecode for what Dynamo generated from `code`; gives what ends that."""
    handle = importlib.import_module("torch._dynamo.convert_frame").register_bytecode_hook(hook)
    return handle.remove  # type: ignore[no-any-return]


def bytecode_is_kept() -> bool:
    """Whether what Dynamo generates is written to disk, to be used by other processes: then it must stay as it is."""
    config = importlib.import_module("torch._dynamo.config")
    return any(getattr(config, name, False) for name in ("caching_precompile", "strict_precompile"))


def counting(code: CodeType, cells: Any, slot: int, line: int | None = None) -> CodeType:
    """`code` that also does `cells[slot] += 1`: once when it is entered, or each time that it comes to `line`.

    The addition is made of plain instructions: a call would be one more frame for Dynamo to look at.
    """
    tools = importlib.import_module("torch._dynamo.bytecode_transformation")

    def added() -> list[Any]:
        make = tools.create_instruction
        where = [(make("LOAD_CONST", argval=cells), make("LOAD_CONST", argval=slot)) for _ in range(2)]
        one = make("LOAD_CONST", argval=1)
        return [*where[0], tools.create_binary_subscr(), one, _addition(make), *where[1], make("STORE_SUBSCR")]

    def change(instructions: list[Any], options: dict[str, Any]) -> None:
        places = _entries(instructions) if line is None else _starts_of(instructions, line)
        for place in reversed(places):
            old = instructions[place]
            new = added()
            kept = copy.copy(old)
            for extra in new:
                extra.starts_line = old.starts_line
            instructions[place : place + 1] = tools.overwrite_instruction(old, [*new, kept])

    # Dynamo remembers instructions by code object, and its own code may hold constants that cannot be hashed.
    stand_ins = {id(c): object() for c in code.co_consts if not _hashable(c)}
    plain = code.replace(co_consts=tuple(stand_ins.get(id(c), c) for c in code.co_consts)) if stand_ins else code
    changed: CodeType = tools.transform_code_object(plain, change)[0]
    back = {id(stand_ins[id(c)]): c for c in code.co_consts if id(c) in stand_ins}
    return changed.replace(co_consts=tuple(back.get(id(c), c) for c in changed.co_consts)) if back else changed


def _hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _addition(make: Callable[..., Any]) -> Any:
    return make("BINARY_OP", arg=0) if sys.version_info >= (3, 11) else make("BINARY_ADD")


def _entries(instructions: list[Any]) -> list[int]:
    """Where the body begins: after what sets up cells and the frame."""
    begin = [i for i, each in enumerate(instructions) if each.opname == "RESUME"]
    return [begin[0] + 1 if begin else 0]


_ENTERS = {"BEFORE_WITH", "BEFORE_ASYNC_WITH", "SETUP_WITH", "SETUP_ASYNC_WITH", "LOAD_SPECIAL"}


def _starts_of(instructions: list[Any], line: int) -> list[int]:
    """Where control comes to `line`: a `while` has its condition twice; leaving a `with` belongs to its line too."""
    runs: list[list[int]] = []
    before = None
    for i in range(_entries(instructions)[0], len(instructions)):
        each = instructions[i]
        here = getattr(each.positions, "lineno", None) if each.positions is not None else each.starts_line or before
        if here == line:
            runs.append([i]) if before != line else runs[-1].append(i)
        before = here
    entering = [run for run in runs if any(instructions[i].opname in _ENTERS for i in run)]
    return [run[0] for run in entering or runs]


def gave_up_silently(result: Any) -> bool:
    """Whether Dynamo's frame callback left a frame to eager because of an error that the trace does not tell."""
    return str(getattr(result, "skip_reason", None) or "").startswith("an error was suppressed")


def run_instead(code: CodeType, compile_id: Any) -> Any:
    """What Dynamo's frame callback returns so that `code` runs in place of the frame's own, without guards."""
    types = importlib.import_module("torch._dynamo.types")
    guards = importlib.import_module("torch._dynamo.guards")
    return types.wrap_guarded_code(types.GuardedCode(code, guards.GuardManagerWrapper(), compile_id))


# --- scripts that torch's own tools wrote -----------------------------------------------------------------------------


def read_repro_inputs(load_args: Callable[[Any], None], folder: str | None) -> list[Any]:
    """What the `load_args` of such a script describes: values from `folder`, or made."""
    from torch._dynamo.debug_utils import InputReader

    reader = InputReader(save_dir=folder)
    load_args(reader)
    return list(reader.args)


def replace_run_repro(function: Callable[..., None]) -> None:
    """Such a script imports `run_repro` when it is run: it then gets `function`."""
    import torch._dynamo.repro.after_aot as after_aot
    import torch._dynamo.repro.after_dynamo as after_dynamo

    vars(after_aot)["run_repro"] = function
    vars(after_dynamo)["run_repro"] = function


def flat(value: Any) -> list[Any]:
    """The leaves of nested outputs."""
    import torch.utils._pytree as pytree

    return list(pytree.tree_leaves(value))
