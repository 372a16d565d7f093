"""A graph as Python text that a person can read, and back.

    def forward(self, x: "f32[3, 4]", w: "f32[4, 4]"):
        # model.py:31 in forward (encoder.layers[0]): y = x @ w
        matmul: "f32[3, 4]" = operator.matmul(x, w)
        relu: "f32[3, 4]" = matmul.relu()
        return (relu,)

A call on a node is a method, on `self` a module, on anything else a function.  Bodies of higher-order operators follow
as functions of their own, named by attribute path.  What the text cannot hold (strides, tags, sources, a node whose
name means something else in Python) stands in a table beside it; `parse` joins the two again, and the round trip is
exact.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from torchsleuth.case import allowed, checks, codec
from torchsleuth.case.expressions import attribute, dotted_name, is_word, read, show, show_dotted
from torchsleuth.case.ir import Arg, Graph, Made, Name, Node, Op, Ref, Source, Value, map_args
from torchsleuth.errors import DamagedCase, UnsafeGraph

UNKNOWN_FUNCTION = "unknown_function."  # a function that has no name to find it by; it can be read, never called
_ROOTS = {
    "torch", "operator", "_operator", "math", "self", "unknown", "value", "slice", "float", "complex", "range",
    "getattr", "unknown_function",
}  # fmt: skip
_UNREADABLE = (
    SyntaxError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    OverflowError,
    RecursionError,
    MemoryError,
)
_DEEPEST_BODY = 50  # no higher-order operator nests deeper; a text that does is an attack on the stack
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
        found += _by_path(_child(path, name), body)
    return found


def _child(path: str, name: str) -> str:
    step = quote(name, safe="", errors="surrogatepass")
    return f"{path}/{step}" if path else step


def _function(path: str, graph: Graph) -> str:
    names = _names(graph)
    heading = f"# body: {path}\n" if path else ""
    parameters = ["self", *(f"{names[n.name]}{_annotation(n)}{d}" for n, d in _with_defaults(graph))]
    lines = [f"{heading}def forward({', '.join(parameters)}):"]
    said: Source | None = None
    for node in graph.nodes:
        if node.op is Op.PLACEHOLDER:
            continue
        if node.source and node.source != said:
            said = node.source
            lines.append(f"    # {_place(said)}")
        lines.append(f"    {_statement(node, names)}")
    return "\n".join(lines)


def _names(graph: Graph) -> dict[str, str]:
    """What each node is called in the text: its own name, unless that means something else there."""
    own = [n.name for n in graph.nodes]
    kinds = [n.op is Op.PLACEHOLDER for n in graph.nodes]
    if len(set(own)) != len(own) or not own or graph.output.op is not Op.OUTPUT or kinds != sorted(kinds, reverse=True):
        raise DamagedCase(f"Nodes that text cannot hold: {own[:3]}. Please report this graph.")
    taken = {*_ROOTS, *(root for n in graph.nodes for root in _roots(n))}
    names: dict[str, str] = {}
    used = {*taken, *own}
    for name in own:
        if is_word(name) and name not in taken:
            names[name] = name
            continue
        number = 1
        while f"node_{number}" in used:
            number += 1
        names[name] = f"node_{number}"
        used.add(f"node_{number}")
    return names


def _roots(node: Node) -> Iterator[str]:
    """First words of the dotted names that stand in a node's statement."""
    if node.op is Op.CALL_FUNCTION:
        yield node.target.partition(".")[0]
    for name in _dotted(((*node.args,), dict(node.kwargs))):
        yield name.partition(".")[0]


def _dotted(value: Arg) -> Iterator[str]:
    if isinstance(value, Name):
        yield value.dotted
    elif isinstance(value, Made):
        yield value.maker
        yield from _dotted(value.args)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _dotted(part)
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from _dotted((key, part))
    elif isinstance(value, slice):
        yield from _dotted((value.start, value.stop, value.step))


def _place(source: Source) -> str:
    module = f" ({source.module})" if source.module else ""
    code = " ".join(source.code.split())
    place = f"{source.file}:{source.line} in {source.function or '?'}{module}: {code}".rstrip(": ")
    # A line break in a file's name must not end the comment.
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in place)


def _annotation(node: Node) -> str:
    return f": {json.dumps(describe(node.value))}" if node.value else ""


def describe(value: Value) -> str:
    short = _SHORT.get(value.dtype, value.dtype.removeprefix("torch."))
    device = "" if value.device == "cpu" else f" {value.device}"
    return f"{short}[{', '.join(map(str, value.shape))}]{device}"


def _with_defaults(graph: Graph) -> list[tuple[Node, str]]:
    """Placeholders with their defaults as text: none where a later one has none, which Python cannot say."""
    found: list[tuple[Node, str]] = []
    speakable = True
    for node in reversed(graph.placeholders):
        speakable = speakable and bool(node.args)
        found.append((node, f" = {show(node.args[0])}" if speakable else ""))
    return found[::-1]


def _statement(node: Node, names: Mapping[str, str]) -> str:
    def shown(value: Arg) -> str:
        return show(value, lambda name: names.get(name, name))

    if node.op is Op.OUTPUT:
        return f"return {shown(node.args[0])}"
    left = f"{names[node.name]}{_annotation(node)}"
    if node.op is Op.GET_ATTR:
        return f"{left} = {show_dotted(f'self.{node.target}')}"
    args = node.args
    if node.op is Op.CALL_METHOD:
        function = _bound(node, shown)
        args = args[1:]
    elif node.op is Op.CALL_MODULE:
        function = show_dotted(f"self.{node.target}")
    else:
        function = show_dotted(node.target)
        if not is_word(node.target.partition(".")[0]):
            raise DamagedCase(f"A function that text cannot hold: {node.target!r}. Please report this graph.")
    return f"{left} = {function}({_arguments(args, node.kwargs, shown)})"


def _bound(node: Node, shown: Callable[[Arg], str]) -> str:
    on = node.args[0]
    text = shown(on)
    if isinstance(on, Name):
        text = f"value({text})"  # a method of a dtype would read as a function of that dotted name
    elif not isinstance(on, Ref):
        text = f"({text})"
    if "." in node.target:
        raise DamagedCase(f"A method that text cannot hold: {node.target!r}. Please report this graph.")
    return f"{text}.{node.target}" if is_word(node.target) else f"getattr({text}, {node.target!r})"


def _arguments(args: tuple[Arg, ...], kwargs: Mapping[str, Arg], shown: Callable[[Arg], str]) -> str:
    named = (f"{k}={shown(v)}" if is_word(k) else f"**{{{k!r}: {shown(v)}}}" for k, v in kwargs.items())
    return ", ".join([*map(shown, args), *named])


def table(graph: Graph) -> dict[str, Any]:
    """What the text does not hold, as JSON: by body path, by node name."""
    return {path: _rows(g) for path, g in _by_path("", graph)}


def _rows(graph: Graph) -> dict[str, Any]:
    nodes: dict[str, Any] = {}
    names = _names(graph)
    unsaid = {n.name for n, default in _with_defaults(graph) if n.args and not default}
    for node in graph.nodes:
        row: dict[str, Any] = {}
        if names[node.name] != node.name:
            row["name"] = node.name
        if node.op is Op.PLACEHOLDER and node.target != node.name:
            row["target"] = node.target
        if node.name in unsaid:
            row["default"] = show(node.args[0])
        if node.value:
            row["value"] = codec.encode(node.value)
        if node.source:
            row["source"] = codec.encode(node.source)
        if node.tags:
            row["tags"] = {k: show(v) for k, v in node.tags.items()}
        if row:
            nodes[names[node.name]] = row
    return {
        "output": names[graph.output.name],
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
        functions = _functions(ast.parse(text), _headings(text))
        if "" not in functions or set(functions) != set(rows):
            raise DamagedCase("The graph text and its table do not belong together. Take a fresh capture.")
        graph = _assemble("", functions, rows, modules)
    except _UNREADABLE as error:
        raise DamagedCase(
            f"The graph text is not readable ({type(error).__name__}: {str(error)[:200]}). Take a fresh capture."
        ) from None
    if functions:
        raise DamagedCase("The graph text holds bodies that no operator names. Take a fresh capture.")
    return graph


def _functions(tree: ast.Module, paths: Mapping[int, str]) -> dict[str, ast.FunctionDef]:
    found: dict[str, ast.FunctionDef] = {}
    for statement in tree.body:
        if not isinstance(statement, ast.FunctionDef) or statement.decorator_list or statement.name != "forward":
            raise UnsafeGraph("The graph text holds more than functions named `forward`. Nothing was run.")
        path = paths.get(statement.lineno, "")
        if path in found:
            raise DamagedCase(f"The graph text holds {path or 'the graph'} twice. Take a fresh capture.")
        found[path] = statement
    return found


def _headings(text: str) -> dict[int, str]:
    lines = text.split("\n")
    return {i + 2: line[len("# body: ") :] for i, line in enumerate(lines) if line.startswith("# body: ")}


def _assemble(
    path: str,
    functions: dict[str, ast.FunctionDef],
    rows: Mapping[str, Any],
    modules: frozenset[str] | None,
    depth: int = 0,
) -> Graph:
    if depth > _DEEPEST_BODY:
        raise DamagedCase("The graph text nests bodies deeper than any graph does. Take a fresh capture.")
    row = rows[path]
    nodes = _nodes(functions.pop(path), row, modules)
    bodies = {}
    for name in codec.decode(tuple[str, ...], row["bodies"], "bodies"):
        child = _child(path, name)
        if child not in functions:
            raise DamagedCase(f"The body {child!r} of a higher-order operator is missing. Take a fresh capture.")
        bodies[name] = _assemble(child, functions, rows, modules, depth + 1)
    return Graph(
        nodes,
        bodies,
        codec.decode(dict[str, int], row["tensors"], "tensors"),
        codec.decode(dict[str, str], row["modules"], "modules"),
        codec.decode(dict[str, str], row["unknown"], "unknown"),
    )


def _nodes(function: ast.FunctionDef, row: Mapping[str, Any], modules: frozenset[str] | None) -> tuple[Node, ...]:
    arguments = function.args
    if arguments.vararg or arguments.kwarg or arguments.kwonlyargs or arguments.posonlyargs or not arguments.args:
        raise DamagedCase("The graph text has parameters of a kind that no graph has. Take a fresh capture.")
    words = [a.arg for a in arguments.args[1:]]
    defaults: list[ast.expr | None] = [None] * (len(words) - len(arguments.defaults)) + list(arguments.defaults)
    nodes = [
        Node(n, Op.PLACEHOLDER, n, () if d is None else (read(d, ()),)) for n, d in zip(words, defaults, strict=True)
    ]
    known = set(words)
    for statement in function.body:
        node = _node(statement, known, str(row["output"]), modules)
        if node.name in known or node.name in _ROOTS:
            raise DamagedCase(f"The graph text assigns {node.name!r} twice. Take a fresh capture.")
        known.add(node.name)
        nodes.append(node)
    if not nodes or nodes[-1].op is not Op.OUTPUT or any(n.op is Op.OUTPUT for n in nodes[:-1]):
        raise DamagedCase("The graph text does not end in one `return`. Take a fresh capture.")
    if len(known) != len(nodes) or "self" in known or not row["nodes"].keys() <= known:
        raise DamagedCase("The graph text and its table name other nodes. Take a fresh capture.")
    own = {word: str(r["name"]) for word, r in row["nodes"].items() if "name" in r}
    if len({own.get(word, word) for word in known}) != len(known):
        raise DamagedCase("Two nodes of the graph have one name. Take a fresh capture.")
    return tuple(_with_row(n, row["nodes"].get(n.name, {}), own) for n in nodes)


def _node(statement: ast.stmt, known: set[str], output: str, modules: frozenset[str] | None) -> Node:
    if isinstance(statement, ast.Return):
        value = None if statement.value is None else read(statement.value, known)
        return Node(output, Op.OUTPUT, "output", (value,))
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name) and statement.value:
        return _assigned(statement.target.id, statement.value, known, modules)
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1 and isinstance(statement.targets[0], ast.Name):
        return _assigned(statement.targets[0].id, statement.value, known, modules)
    raise UnsafeGraph(f"The graph text holds {_quoted(statement)}, which is no step of a graph. Nothing was run.")


def _quoted(node: ast.AST) -> str:
    return repr(ast.unparse(node)[:80])


def _assigned(name: str, value: ast.expr, known: set[str], modules: frozenset[str] | None) -> Node:
    path = dotted_name(value)
    if path is not None and path.startswith("self."):
        return Node(name, Op.GET_ATTR, path.removeprefix("self."))
    if not isinstance(value, ast.Call):
        raise UnsafeGraph(f"The graph text assigns {_quoted(value)}, which is no operator. Nothing was run.")
    args = tuple(read(a, known) for a in value.args)
    kwargs = _keywords(value, known)
    dotted = dotted_name(value.func)
    if dotted and dotted.startswith("self."):
        return Node(name, Op.CALL_MODULE, dotted.removeprefix("self."), args, kwargs)
    receiver, method = _method(value.func, dotted, known)
    if receiver is not None:
        node = Node(name, Op.CALL_METHOD, method, (read(receiver, known), *args), kwargs)
        if modules is not None:
            allowed.check_method(method)
            checks.check_call(node)
        return node
    if dotted is None:
        raise UnsafeGraph(f"The graph text calls {_quoted(value.func)}. Nothing was run.")
    node = Node(name, Op.CALL_FUNCTION, dotted, args, kwargs)
    if modules is not None and not dotted.startswith(UNKNOWN_FUNCTION):
        allowed.check_function(dotted, modules)
        checks.check_call(node)
    return node


def _method(func: ast.expr, dotted: str | None, known: set[str]) -> tuple[ast.expr | None, str]:
    """The receiver and the name of a method; no receiver where `func` is a function."""
    receiver, method = attribute(func) or (None, "")
    on_node = isinstance(receiver, ast.Name) and receiver.id in known
    return (receiver, method) if on_node or dotted is None else (None, "")


def _keywords(call: ast.Call, known: set[str]) -> dict[str, Arg]:
    found: dict[str, Arg] = {}
    for pair in call.keywords:
        if pair.arg is not None:
            more = {pair.arg: read(pair.value, known)}
        elif isinstance(pair.value, ast.Dict):
            more = read(pair.value, known)
        else:
            raise UnsafeGraph("The graph text spreads a value into a call. Nothing was run.")
        if more.keys() & found.keys() or not all(isinstance(k, str) for k in more):
            raise DamagedCase("The graph text names an argument twice, or not by a word. Take a fresh capture.")
        found |= more
    return found


def _with_row(node: Node, row: Mapping[str, Any], own: Mapping[str, str]) -> Node:
    value, source, default = row.get("value"), row.get("source"), row.get("default")
    tags = codec.decode(dict[str, str], row.get("tags") or {}, "tags")
    name = own.get(node.name, node.name)
    named = replace(node, name=name, args=_renamed(node.args, own), kwargs=_renamed(dict(node.kwargs), own))
    if node.op is Op.PLACEHOLDER:  # of other nodes the text says the target, and that is checked
        named = replace(named, target=str(row.get("target", name)))
        named = replace(named, args=(_read_text(default),)) if default is not None else named
    return replace(
        named,
        value=codec.decode(Value, value, "value") if value else None,
        source=codec.decode(Source, source, "source") if source else None,
        tags={k: _read_text(v) for k, v in tags.items()},
    )


def _read_text(text: str) -> Arg:
    return read(ast.parse(text, mode="eval").body, ())


def _renamed(value: Arg, own: Mapping[str, str]) -> Arg:
    return map_args(value, lambda leaf: Ref(own.get(leaf.name, leaf.name)) if isinstance(leaf, Ref) else leaf)
