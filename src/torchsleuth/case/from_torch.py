"""FX graphs as Dynamo and AOTAutograd leave them, into plain data.

Runs inside the user's program, so it reads and never changes: no node, tensor or module is touched, and nothing is
kept of what it was given.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import torch

from torchsleuth import torch_api
from torchsleuth.case import allowed, constructors, user_kernels
from torchsleuth.case.caller import is_torchs
from torchsleuth.case.expressions import MOST_BITS
from torchsleuth.case.graph_text import UNKNOWN_FUNCTION
from torchsleuth.case.ir import Arg, Graph, Made, Name, Node, Op, Ref, Source, Unknown, Value
from torchsleuth.case.reached import reached
from torchsleuth.errors import DamagedCase, UnsafeGraph

# Meta that changes how a node compiles: checkpoint's tags, partitioner hints, stream and region annotations.
_TAGS = (
    "recompute",
    "ac_graph_id",
    "has_backward_hook",
    "partitioner_tag",
    "from_node_seed",
    "custom",
    "quantization_tag",
)
# Meta of a body that changes how it runs, and that nothing in the graph says again.
_BODY_META = ("_checkpoint_context_fn", "nested_region_config", "local_map_kwargs")
NO_ROOTS: Mapping[str, str] = MappingProxyType({})
_STACK_LINE = re.compile(r'File "([^"]+)", line (\d+), in (.+)')


class Tensors:
    """Collects tensors of a graph's attributes; equal objects get one index."""

    def __init__(self) -> None:
        self.kept: list[torch.Tensor] = []
        self._index: dict[int, int] = {}

    def index(self, tensor: torch.Tensor) -> int:
        if id(tensor) not in self._index:
            self._index[id(tensor)] = len(self.kept)
            self.kept.append(tensor)
        return self._index[id(tensor)]


def graph_of(module: torch.fx.GraphModule, tensors: Tensors, roots: Mapping[str, str] = NO_ROOTS) -> Graph:
    # Freezing puts what it folded before the inputs; as text, inputs come first, and nothing minds.
    nodes = tuple(_node(n, roots) for n in sorted(module.graph.nodes, key=lambda n: n.op != "placeholder"))
    bodies: dict[str, Graph] = {}
    kept: dict[str, int] = {}
    modules: dict[str, str] = {}
    unknown: dict[str, str] = {}
    for node in module.graph.nodes:
        if node.op not in ("get_attr", "call_module"):
            continue
        path = str(node.target)
        if path in bodies or path in kept or path in modules or path in unknown:
            continue
        value = _attribute(module, path)
        if isinstance(value, torch.fx.GraphModule):
            bodies[path] = graph_of(value, tensors, roots)
            for key in _BODY_META:
                if value.meta.get(key) is not None:
                    unknown[f"{path}.{key}"] = _what(value.meta[key])
        elif isinstance(value, torch.Tensor):
            kept[path] = tensors.index(value)
        elif isinstance(value, torch.nn.Module) and (text := constructor(value)):
            modules[path] = text
            for name, part in [*value.named_parameters(), *value.named_buffers()]:
                kept[f"{path}.{name}"] = tensors.index(part)
        else:
            unknown[path] = _what(value)
    return Graph(nodes, bodies, kept, modules, unknown)


def constructor(module: torch.nn.Module) -> str:
    """How to make a layer of torch.nn again, or nothing: a subclass, one that holds others, one with hooks."""
    name = type(module).__name__
    hooked = torch_api.has_hooks(module)
    if getattr(torch.nn, name, None) is not type(module) or any(True for _ in module.children()) or hooked:
        return ""
    try:
        read = constructors.read(f"torch.nn.{name}({module.extra_repr()})")
    except DamagedCase:
        return ""
    return constructors.show(replace(read, training=module.training))


def _attribute(module: torch.nn.Module, path: str) -> Any:
    value: Any = module
    for part in path.split("."):
        value = getattr(value, part)
    return value


def _node(node: torch.fx.Node, roots: Mapping[str, str]) -> Node:
    target = node.target
    if node.op == "call_function":
        name = torch_api.qualified_name(target) or UNKNOWN_FUNCTION + getattr(target, "__name__", type(target).__name__)
    else:
        name = str(target)
    return Node(
        node.name,
        Op(node.op),
        name,
        tuple(argument(a) for a in node.args),
        {k: argument(v) for k, v in _keywords(node).items()},
        value_of(node),
        source_of(node, roots),
        {k: argument(_plain(node.meta[k])) for k in _TAGS if node.meta.get(k) is not None},
    )


def _keywords(node: torch.fx.Node) -> Mapping[str, Any]:
    """What a call of the user's own kernel holds by number, by value."""
    called = torch_api.kernel_call(node)
    if called is None:
        return node.kwargs
    rest = {k: v for k, v in node.kwargs.items() if k not in ("kernel_idx", "constant_args_idx")}
    given: Any = node.kwargs.get("kwargs", {})
    sizes = {k: elements for k, v in given.items() if (elements := _elements(v)) is not None}
    kernel = user_kernels.label(called.name, called.number)
    return {"kernel": kernel, "constants": called.constants, "choices": list(called.choices), "sizes": sizes, **rest}


def _elements(value: Any) -> int | None:
    """Of a tensor that is not dynamic."""
    known = value_of(value) if isinstance(value, torch.fx.Node) else None
    return known.elements if known is not None else None


def _plain(value: Any) -> Any:
    """Enums of tags (checkpoint's policy) by value: text holds numbers, not classes."""
    return value.value if hasattr(type(value), "__members__") else value


def argument(value: Any) -> Arg:
    if type(value) is int and value.bit_length() > MOST_BITS:
        return Unknown(f"an int of {value.bit_length()} bits")
    if value is None or value is Ellipsis or type(value) in (bool, int, float, complex, str):
        return value
    if isinstance(value, torch.fx.Node):
        return Ref(value.name)
    if isinstance(value, torch.Size):
        return Made("torch.Size", ([argument(v) for v in value],))
    if isinstance(value, slice):
        return slice(argument(value.start), argument(value.stop), argument(value.step))
    if isinstance(value, tuple):
        if hasattr(value, "_fields"):
            return Unknown(f"namedtuple {type(value).__name__}")
        return tuple(argument(v) for v in value)
    if isinstance(value, list):
        return [argument(v) for v in value]
    if isinstance(value, Mapping):
        try:
            return {argument(k): argument(v) for k, v in value.items()}
        except TypeError:  # a size or a slice as a key
            return Unknown("a dictionary with keys that text cannot hold")
    if isinstance(value, range):
        return Made("range", (value.start, value.stop, value.step))
    return _object(value)


def _object(value: Any) -> Arg:
    if isinstance(value, (torch.dtype, torch.layout)):
        return Name(str(value))
    if isinstance(value, torch.memory_format):
        return Name(str(value))
    if isinstance(value, torch.device):
        return Made("torch.device", (value.type,) if value.index is None else (value.type, value.index))
    if torch_api.is_symbolic(value):
        known = torch_api.expression_of(value)
        return Unknown(f"symbol {known}") if isinstance(known, str) else known
    if type(value).__module__ == "numpy" and hasattr(value, "item"):
        return argument(value.item())
    if hasattr(type(value), "__members__") and type(value).__module__.startswith("torch"):
        return _named(f"{type(value).__module__}.{type(value).__qualname__}.{value.name}", value)
    if callable(value):
        name = torch_api.qualified_name(value)
        if name:
            return _named(name, value)
    return Unknown(_what(value))


def _what(value: Any) -> str:
    if callable(value) and hasattr(value, "__qualname__"):
        return f"function {value.__module__}.{value.__qualname__}"
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _named(dotted: str, value: Any) -> Arg:
    """By its name, if that is one which may stand in a graph and finds `value` again."""
    try:
        if torch_api.resolve(allowed.check_value(dotted)) == value:
            return Name(dotted)
    except (UnsafeGraph, AttributeError, ImportError):
        pass
    return Unknown(dotted)


def value_of(node: torch.fx.Node) -> Value | None:
    value = node.meta.get("val", node.meta.get("example_value"))
    return describe(value) if isinstance(value, torch.Tensor) else None


def describe(tensor: torch.Tensor) -> Value:
    try:
        strided = tensor.layout is torch.strided and not tensor.is_nested
        stride = tuple(_size(s) for s in tensor.stride()) if strided else None
        shape = tuple(_size(s) for s in tensor.shape)
    except RuntimeError:  # some subclasses and nested tensors refuse to tell
        shape, stride = (), None
    return Value(str(tensor.dtype), shape, stride, str(tensor.device))


def _size(value: Any) -> int | str:
    found = torch_api.expression_of(value)
    return found if isinstance(found, str) else int(found)


def source_of(node: torch.fx.Node, roots: Mapping[str, str] = NO_ROOTS) -> Source | None:
    """`roots`: which module of the whole model each local of the compiled frame is, where that is known."""
    trace = node.meta.get("stack_trace") or node.stack_trace
    if not trace:  # of a container of torch's own that was compiled as it is, the module is all that is known
        module = _module_path(node, roots)
        return Source("", 0, module=module) if module else None
    lines = str(trace).splitlines()
    found = [(m, i) for i, line in enumerate(lines) if (m := _STACK_LINE.search(line))]
    # The innermost line that is not torch's own: a user looks for theirs, not for nn.Linear's.
    chosen = next((f for f in reversed(found) if not is_torchs(f[0].group(1))), found[-1] if found else None)
    if chosen is None:
        return None
    match, i = chosen
    code = lines[i + 1].strip() if i + 1 < len(lines) else ""
    return Source(match.group(1), int(match.group(2)), match.group(3), code, _module_path(node, roots))


def _module_path(node: torch.fx.Node, roots: Mapping[str, str]) -> str:
    stack = node.meta.get("nn_module_stack")
    if not stack:
        return ""
    last = list(stack.values())[-1]
    path = str(last[0] if isinstance(last, tuple) else last)
    name = reached(path)
    root, _, rest = name.partition(".")
    if path.startswith("L[") and root in roots:
        name = f"{roots[root]}.{rest}".strip(".") or name
    name = re.sub(r"\.(\d+)(?=\.|$)", r"[\1]", name)
    return re.sub(r"^fn\b", "model", name.removeprefix("self."))  # torch.compile wraps modules of torch's own as `fn`
