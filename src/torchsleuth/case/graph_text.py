"""A graph as Python text that a person can read, and back.

    def forward(self, x: "f32[3, 4]", w: "f32[4, 4]"):
        # model.py:31 in forward (encoder.layers[0]): y = x @ w
        matmul: "f32[3, 4]" = operator.matmul(x, w)
        relu: "f32[3, 4]" = matmul.relu()
        return (relu,)

A call on a node is a method, on `self` a module, on anything else a function.  Bodies of higher-order operators follow
as functions of their own, named by attribute path.  What the text cannot hold (strides, tags, sources) stands in a
table beside it; `read` joins the two again, and the round trip is exact.
"""

from __future__ import annotations

import ast
import keyword
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from torchsleuth.case import allowed
from torchsleuth.case.expressions import dotted_name, read, show
from torchsleuth.case.ir import Arg, Graph, Node, Op, Source, Value
from torchsleuth.errors import DamagedCase, UnsafeGraph

_ROOTS = {"torch", "operator", "_operator", "math", "self", "unknown", "slice", "float", "complex", "range"}
_SHORT = {
    "torch.float32": "f32", "torch.float64": "f64", "torch.float16": "f16", "torch.bfloat16": "bf16",
    "torch.int64": "i64", "torch.int32": "i32", "torch.int16": "i16", "torch.int8": "i8", "torch.uint8": "u8",
    "torch.bool": "b8", "torch.complex64": "c64", "torch.complex128": "c128",
}  # fmt: skip


def write(graph: Graph) -> str:
    return "\n\n".join(_function(path, g) for path, g in _by_path("", graph)) + "\n"


def _by_path(path: str, graph: Graph) -> list[tuple[str, Graph]]:
    found = [(path, graph)]
    for name, body in graph.bodies.items():
        found += _by_path(f"{path}/{name}" if path else name, body)
    return found


def _function(path: str, graph: Graph) -> str:
    _check_names(graph)
    heading = f"# body: {path}\n" if path else ""
    parameters = ["self", *(f"{n.name}{_annotation(n)}{_default(n)}" for n in graph.placeholders)]
    lines = [f"{heading}def forward({', '.join(parameters)}):"]
    said: Source | None = None
    for node in graph.nodes:
        if node.op is Op.PLACEHOLDER:
            continue
        if node.source and node.source != said:
            said = node.source
            lines.append(f"    # {_place(said)}")
        lines.append(f"    {_statement(node)}")
    return "\n".join(lines)


def _check_names(graph: Graph) -> None:
    names = [n.name for n in graph.nodes]
    bad = [n for n in names if n in _ROOTS or not n.isidentifier() or keyword.iskeyword(n)]
    if bad or len(set(names)) != len(names):
        raise DamagedCase(f"Nodes with names that text cannot hold: {(bad or names)[:3]}. Please report this graph.")


def _place(source: Source) -> str:
    module = f" ({source.module})" if source.module else ""
    code = " ".join(source.code.split())
    return f"{source.file}:{source.line} in {source.function or '?'}{module}: {code}".rstrip(": ")


def _annotation(node: Node) -> str:
    return f': "{describe(node.value)}"' if node.value else ""


def describe(value: Value) -> str:
    short = _SHORT.get(value.dtype, value.dtype.removeprefix("torch."))
    device = "" if value.device == "cpu" else f" {value.device}"
    return f"{short}[{', '.join(map(str, value.shape))}]{device}"


def _default(node: Node) -> str:
    return f" = {show(node.args[0])}" if node.args else ""


def _statement(node: Node) -> str:
    if node.op is Op.OUTPUT:
        return f"return {show(node.args[0])}"
    left = f"{node.name}{_annotation(node)}"
    if node.op is Op.GET_ATTR:
        return f"{left} = self.{node.target}"
    if node.op is Op.CALL_METHOD:
        call = f"{_receiver(node.args[0])}.{node.target}({_arguments(node.args[1:], node.kwargs)})"
    elif node.op is Op.CALL_MODULE:
        call = f"self.{node.target}({_arguments(node.args, node.kwargs)})"
    else:
        call = f"{node.target}({_arguments(node.args, node.kwargs)})"
    return f"{left} = {call}"


def _receiver(value: Arg) -> str:
    text = show(value)
    return text if text.isidentifier() else f"({text})"


def _arguments(args: tuple[Arg, ...], kwargs: Mapping[str, Arg]) -> str:
    return ", ".join([*map(show, args), *(f"{k}={show(v)}" for k, v in kwargs.items())])


def table(graph: Graph) -> dict[str, Any]:
    """What the text does not hold, as JSON: by body path, by node name."""
    return {path: _rows(g) for path, g in _by_path("", graph)}


def _rows(graph: Graph) -> dict[str, Any]:
    nodes: dict[str, Any] = {}
    for node in graph.nodes:
        row: dict[str, Any] = {}
        if node.op is Op.PLACEHOLDER and node.target != node.name:
            row["target"] = node.target
        if node.op is Op.OUTPUT and node.name != "output":
            row["name"] = node.name
        if node.value:
            row["value"] = asdict(node.value)
        if node.source:
            row["source"] = asdict(node.source)
        if node.tags:
            row["tags"] = {k: show(v) for k, v in node.tags.items()}
        if row:
            nodes[node.name] = row
    return {
        "output": graph.output.name,
        "nodes": nodes,
        "tensors": dict(graph.tensors),
        "modules": dict(graph.modules),
        "unknown": dict(graph.unknown),
        "bodies": list(graph.bodies),
    }


def parse(text: str, rows: Mapping[str, Any], modules: frozenset[str] | None = frozenset()) -> Graph:
    """The graph that `write` and `table` described.

    `modules`: user modules whose functions may be called; None for a text that this run wrote itself.
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise DamagedCase(f"The graph text is not readable ({error}). Take a fresh capture.") from None
    functions = {}
    paths = _headings(text)
    for statement in tree.body:
        if not isinstance(statement, ast.FunctionDef) or statement.decorator_list or statement.name != "forward":
            raise UnsafeGraph("The graph text holds more than functions named `forward`. Nothing was run.")
        functions[paths.get(statement.lineno, "")] = statement
    if "" not in functions or set(functions) != set(rows):
        raise DamagedCase("The graph text and its table do not belong together. Take a fresh capture.")
    return _assemble("", functions, rows, modules)


def _headings(text: str) -> dict[int, str]:
    lines = text.split("\n")
    return {i + 2: line[len("# body: ") :] for i, line in enumerate(lines) if line.startswith("# body: ")}


def _assemble(
    path: str, functions: Mapping[str, ast.FunctionDef], rows: Mapping[str, Any], modules: frozenset[str] | None
) -> Graph:
    row = rows[path]
    nodes = _nodes(functions[path], row, modules)
    bodies = {}
    for name in row["bodies"]:
        child = f"{path}/{name}" if path else name
        if child not in functions or len(child) <= len(path):
            raise DamagedCase(f"The body {child!r} of a higher-order operator is missing. Take a fresh capture.")
        bodies[name] = _assemble(child, functions, rows, modules)
    return Graph(
        nodes,
        bodies,
        {str(k): int(v) for k, v in row["tensors"].items()},
        {str(k): str(v) for k, v in row["modules"].items()},
        {str(k): str(v) for k, v in row["unknown"].items()},
    )


def _nodes(function: ast.FunctionDef, row: Mapping[str, Any], modules: frozenset[str] | None) -> tuple[Node, ...]:
    arguments = function.args
    if arguments.vararg or arguments.kwarg or arguments.kwonlyargs or arguments.posonlyargs or not arguments.args:
        raise DamagedCase("The graph text has parameters of a kind that no graph has. Take a fresh capture.")
    names = [a.arg for a in arguments.args[1:]]
    defaults: list[ast.expr | None] = [None] * (len(names) - len(arguments.defaults)) + list(arguments.defaults)
    nodes = [
        Node(n, Op.PLACEHOLDER, n, () if d is None else (read(d, ()),)) for n, d in zip(names, defaults, strict=True)
    ]
    known = set(names)
    for statement in function.body:
        node = _node(statement, known, str(row["output"]), modules)
        if node.name in known:
            raise DamagedCase(f"The graph text assigns {node.name!r} twice. Take a fresh capture.")
        known.add(node.name)
        nodes.append(node)
    if not nodes or nodes[-1].op is not Op.OUTPUT or any(n.op is Op.OUTPUT for n in nodes[:-1]):
        raise DamagedCase("The graph text does not end in one `return`. Take a fresh capture.")
    return tuple(_with_row(n, row["nodes"].get(n.name, {})) for n in nodes)


def _node(statement: ast.stmt, known: set[str], output: str, modules: frozenset[str] | None) -> Node:
    if isinstance(statement, ast.Return):
        value = None if statement.value is None else read(statement.value, known)
        return Node(output, Op.OUTPUT, "output", (value,))
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name) and statement.value:
        return _assigned(statement.target.id, statement.value, known, modules)
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1 and isinstance(statement.targets[0], ast.Name):
        return _assigned(statement.targets[0].id, statement.value, known, modules)
    raise UnsafeGraph(
        f"The graph text holds {ast.unparse(statement)[:80]!r}, which is no step of a graph. Nothing was run."
    )


def _assigned(name: str, value: ast.expr, known: set[str], modules: frozenset[str] | None) -> Node:
    if not isinstance(value, ast.Call):
        dotted = dotted_name(value)
        if dotted is None or not dotted.startswith("self."):
            raise UnsafeGraph(
                f"The graph text assigns {ast.unparse(value)[:80]!r}, which is no operator. Nothing was run."
            )
        return Node(name, Op.GET_ATTR, dotted.removeprefix("self."))
    args = tuple(read(a, known) for a in value.args)
    kwargs = {}
    for pair in value.keywords:
        if pair.arg is None:
            raise UnsafeGraph("The graph text spreads a dictionary into a call. Nothing was run.")
        kwargs[pair.arg] = read(pair.value, known)
    dotted = dotted_name(value.func)
    if dotted and dotted.startswith("self."):
        return Node(name, Op.CALL_MODULE, dotted.removeprefix("self."), args, kwargs)
    receiver = value.func.value if isinstance(value.func, ast.Attribute) else None
    if isinstance(receiver, ast.Name) and receiver.id in known:
        on: Arg = read(receiver, known)
    elif receiver is not None and dotted is None:
        on = read(receiver, known)
    elif dotted:
        return Node(
            name, Op.CALL_FUNCTION, dotted if modules is None else allowed.check_function(dotted, modules), args, kwargs
        )
    else:
        raise UnsafeGraph(f"The graph text calls {ast.unparse(value.func)[:80]!r}. Nothing was run.")
    assert isinstance(value.func, ast.Attribute)
    return Node(
        name,
        Op.CALL_METHOD,
        value.func.attr if modules is None else allowed.check_method(value.func.attr),
        (on, *args),
        kwargs,
    )


def _with_row(node: Node, row: Mapping[str, Any]) -> Node:
    value, source, tags = row.get("value"), row.get("source"), row.get("tags") or {}
    return replace(
        node,
        target=str(row.get("target", node.target)),
        value=_value(value) if value else None,
        source=Source(**source) if source else None,
        tags={str(k): read(ast.parse(v, mode="eval").body, ()) for k, v in tags.items()},
    )


def _value(row: Mapping[str, Any]) -> Value:
    stride = row.get("stride")
    return Value(
        str(row["dtype"]), tuple(row["shape"]), None if stride is None else tuple(stride), str(row.get("device", "cpu"))
    )
