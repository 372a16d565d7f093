"""What a Case says, before it is believed: every text that will stand in a script as it is must be a plain word.

A Case that somebody sent becomes a script that is run.  Numbers and strings are printed as literals there; names of
nodes, attributes, dtypes, devices and configs are not, so each has a shape that it must keep to.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from torchsleuth.case import allowed, constructors, user_kernels
from torchsleuth.case.expressions import is_word
from torchsleuth.case.ir import Graph, Name, Node, Op, Value
from torchsleuth.case.model import Case, Code, Scalar, Storage, Surroundings, Tensor
from torchsleuth.errors import DamagedCase, UnsafeGraph

_PATH = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*", re.ASCII)
_PARAMETER = re.compile(r"\*{0,2}([A-Za-z_]\w*)", re.ASCII)
_WORD = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_NAME = re.compile(r"[\w.-]+")
_DEVICE = re.compile(r"[a-z][a-z0-9_]*(?::\d{1,4})?", re.ASCII)
_SIZE = re.compile(r"[\w\s+*/%(),.<>=!&|~-]+", re.ASCII)
_CONFIG = re.compile(r"torch(?:\.[A-Za-z_]\w*)+", re.ASCII)
_FUNCTIONS_OF_SIZES = {"ceiling", "floor", "log", "exp", "sqrt"}
_FLAGS = {"conj", "neg", "zero"}


def check_case(case: Case) -> None:
    if len(case.inputs) != len(case.graph.placeholders):
        raise DamagedCase(
            f"The graph takes {len(case.graph.placeholders)} inputs and the Case holds {len(case.inputs)}. "
            "Take a fresh capture."
        )
    check_graph(case.graph)
    for storage in case.storages:
        if storage.nbytes < 0:
            raise DamagedCase("A storage has less than no bytes. Take a fresh capture.")
    for value in (*case.inputs, *case.constants):
        if isinstance(value, Tensor):
            _check_tensor(value, case.storages)
        elif isinstance(value, Scalar) and value.symbol:
            _check_size(value.symbol)
    for graph in case.graph.all_graphs():
        if any(not 0 <= index < len(case.constants) for index in graph.tensors.values()):
            raise DamagedCase("The graph names a constant that the Case does not hold. Take a fresh capture.")
    _check_surroundings(case.surroundings)
    _check_context(case.context)


def check_graph(graph: Graph) -> None:
    for part in graph.all_graphs():
        for path in (*part.bodies, *part.tensors, *part.modules, *part.unknown):
            _plain(_PATH, path, "an attribute")
        for text in part.modules.values():
            constructors.read(text)
        for node in part.nodes:
            if not is_word(node.name):
                raise _odd(node.name, "a node")
            if node.op in (Op.GET_ATTR, Op.CALL_MODULE):
                _plain(_PATH, node.target, "an attribute")
            elif node.op is Op.PLACEHOLDER:
                _plain(_PARAMETER, node.target, "a parameter")
            for word in node.kwargs:
                _plain(_WORD, word, "an argument")
            if node.value:
                _check_value(node.value)


def check_call(node: Node) -> None:
    """Methods and properties are those of values: of a node, a constant, a dtype; never of a function or a module."""
    for problem in user_kernels.problems(node):
        raise UnsafeGraph(f"The graph text calls a Triton kernel, and {problem}. Nothing was run.")
    is_getattr = node.op is Op.CALL_FUNCTION and node.target == "getattr"
    if is_getattr and len(node.args) < 2:
        raise UnsafeGraph("The graph text reads an attribute without saying of what. Nothing was run.")
    if is_getattr:
        allowed.check_attribute(node.args[1])
    if is_getattr or node.op is Op.CALL_METHOD:
        on = node.args[0]
        if isinstance(on, Name) and not allowed.is_dtype(on.dotted):
            raise UnsafeGraph(f"The graph text reaches into {on.dotted}, which is no value. Nothing was run.")


def _check_value(value: Value) -> None:
    _check_dtype(value.dtype)
    _plain(_DEVICE, value.device, "a device")
    for size in (*value.shape, *(value.stride or ())):
        if isinstance(size, str):
            _check_size(size)


def _check_size(text: str) -> None:
    """An expression over symbols; what reads those (Python, sympy) would call whatever stands before a bracket."""
    calls = set(re.findall(r"([A-Za-z_]\w*)\s*\(", text))
    if (
        not _SIZE.fullmatch(text)
        or len(text) > 10_000
        or any(c[0] == "_" or (c[0].islower() and c not in _FUNCTIONS_OF_SIZES) for c in calls)
        or re.search(r"__|\)\s*\(|\.\s*[A-Za-z_]", text)
    ):
        raise _odd(text, "a size")


def _check_context(context: object) -> None:
    """What Inductor was told beside an ATen graph: words, numbers, and sizes."""
    if not isinstance(context, dict):
        return
    for part in ("kwargs", "output", "symbols"):
        rows = context.get(part) or {}
        if not isinstance(rows, dict):
            raise _odd(str(rows), part)
        for word in rows:
            _plain(_WORD, word, "an option")
    for text in _texts(context.get("output")):
        _check_size(text)


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _texts(part)
    elif isinstance(value, dict):
        yield from _texts(list(value.values()))


def _check_tensor(tensor: Tensor, storages: tuple[Storage, ...]) -> None:
    _check_dtype(tensor.dtype)
    _plain(_DEVICE, tensor.device, "a device")
    if not set(tensor.flags) <= _FLAGS:
        raise _odd(str(tensor.flags), "flags of a tensor")
    if len(tensor.shape) != len(tensor.stride) and not tensor.unknown:
        raise DamagedCase("A tensor has more sizes than strides. Take a fresh capture.")
    sizes = (*tensor.shape, *tensor.stride, tensor.offset)
    if any(not 0 <= s < 2**63 for s in sizes) or not 0 <= tensor.storage < max(1, len(storages)):
        raise DamagedCase("A tensor describes memory that no storage has. Take a fresh capture.")
    if any(not 0 <= d < len(tensor.shape) for d in tensor.dynamic):
        raise DamagedCase("A tensor has a symbolic size where it has no size. Take a fresh capture.")
    held = bool(storages) and storages[tensor.storage].kept and not tensor.unknown and "zero" not in tensor.flags
    if held and reach(tensor) > storages[tensor.storage].nbytes:
        raise DamagedCase("A tensor reaches past the end of its storage. Take a fresh capture.")


def reach(tensor: Tensor) -> int:
    """Bytes from the start of the storage to the end of the last element."""
    if 0 in tensor.shape:
        return 0
    last = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride, strict=True))
    return (tensor.offset + last + 1) * itemsize(tensor.dtype)


def itemsize(dtype: str) -> int:
    """Bytes of an element, by the name of its type: torch.bfloat16 has 2, torch.float8_e4m3fn 1."""
    digits = re.search(r"\d+", dtype)  # several to a byte, in quint4x2 and bits1x8, count as the byte
    return max(1, int(digits.group()) // 8) if digits else 1


def _check_surroundings(surroundings: Surroundings) -> None:
    backend = surroundings.backend
    _plain(_NAME, backend.name, "a backend") if backend.registered else None
    _plain(_NAME, backend.mode, "a mode") if backend.mode is not None else None
    for cast in surroundings.autocast:
        _plain(_DEVICE, cast.device, "a device")
        _check_dtype(cast.dtype)
    for module, entry, _ in surroundings.configs:
        _plain(_CONFIG, module, "a config")
        _plain(_PATH, entry, "a config")
    for name in surroundings.environment:
        _plain(_WORD, name, "an environment variable")
    for name, value in surroundings.switches.items():
        if name == "default_dtype":
            _check_dtype(str(value))
        elif not isinstance(value, (bool, int, float)):
            _plain(_WORD, str(value), "a switch")
    for code in codes(surroundings):
        for module in code.imports:
            _plain(_PATH, module, "a module")


def codes(surroundings: Surroundings) -> Iterable[Code]:
    """The user's own code that a Case brings."""
    yield from surroundings.code
    if surroundings.backend.code:
        yield surroundings.backend.code


def _check_dtype(dtype: str) -> None:
    if not allowed.is_dtype(dtype):
        raise _odd(dtype, "a dtype")


def _plain(shape: re.Pattern[str], text: str, what: str) -> None:
    if not shape.fullmatch(text):
        raise _odd(text, what)


def _odd(text: str, what: str) -> UnsafeGraph:
    return UnsafeGraph(
        f"The Case has {text[:80]!r} where {what} should stand. Nothing was run; do not trust this Case."
    )
