"""A graph built node by node, as lines of a script: nothing is traced again, so nothing can change on the way."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from torchsleuth.case.expressions import show, show_dotted
from torchsleuth.case.ir import Graph, Node, Op
from torchsleuth.case.operator_names import LOWERS_VERSION
from torchsleuth.case.program.render import DATA_FILE, Script
from torchsleuth.case.program.statements import CannotRender

_MODULES = ("operator", "math", "_operator")
_IN_USE = {"g", "torch", "os", "float", *_MODULES}


def build(graph: Graph, script: Script, *, name: str) -> None:
    """Adds a function `name` to the script that returns the GraphModule."""
    attributes: list[str] = []
    for path, body in graph.bodies.items():
        inner = script.names.fresh(path.replace(".", "_"))
        build(body, script, name=inner)
        attributes.append(f'"{path}": {inner}()')
    lines: list[str] = []
    for path, index in graph.tensors.items():
        if any(path.startswith(f"{module}.") for module in graph.modules):
            continue
        value = script.tensor(script.case.constants[index], path.replace(".", "_"), lines)
        attributes.append(f'"{path}": {value}')
    if script.case.check is not None and any('data["' in text for text in (*attributes, *lines)):
        # Of a script that compares, only `run` reads the data; a graph that writes its constants needs them anew, too.
        lines.insert(0, f'data = torch.load("{DATA_FILE}", weights_only=True)')
    attributes += [f'"{path}": {constructor}' for path, constructor in graph.modules.items()]
    lines.append("g = torch.fx.Graph()")
    names = _local_names(graph)
    for node in graph.nodes:
        lines += _lines(node, script, names)
    lines.append(f"return torch.fx.GraphModule({{{', '.join(attributes)}}}, g)")
    script.definitions += [f"def {name}():", *(f"    {line}" for line in lines), "", ""]


def _local_names(graph: Graph) -> dict[str, str]:
    """The variable that holds each node: its name, but for names that the lines use for something else."""
    used = {node.name for node in graph.nodes}
    found: dict[str, str] = {}
    for name in sorted(used & _IN_USE):
        found[name] = next(new for n in itertools.count(2) if (new := f"{name}_{n}") not in used)
        used.add(found[name])
    return found


def _lines(node: Node, script: Script, names: Mapping[str, str]) -> list[str]:
    def called(name: str) -> str:
        return names.get(name, name)

    mine = called(node.name)
    if node.op is Op.PLACEHOLDER:
        default = f", default_value={show(node.args[0])}" if node.args else ""
        return [f'{mine} = g.placeholder("{node.target}"{default})']
    if node.op is Op.OUTPUT:
        return [f"g.output({show(node.args[0], called)})"]
    if node.op is Op.GET_ATTR:
        return [f'{mine} = g.get_attr("{node.target}")']
    target = show_dotted(node.target) if node.op is Op.CALL_FUNCTION else f'"{node.target}"'
    if target.startswith("unknown_function."):
        raise CannotRender(f"{target.removeprefix('unknown_function.')} has no name to call it by")
    if target == LOWERS_VERSION:
        raise CannotRender("an assignment to .data has no form as a node")
    root = target.split(".")[0]
    if root in _MODULES:
        script.imports.add(f"import {root}")
    elif "." in target and root != "torch":
        script.imports.add(f"import {target.rpartition('.')[0]}")
    kwargs = f", {show(dict(node.kwargs), called)}" if node.kwargs else ""
    line = f"{mine} = g.{node.op.value}({target}, {show(tuple(node.args), called)}{kwargs})"
    tags = {k: v for k, v in node.tags.items() if k != "custom"}
    return [line, *([f"{mine}.meta.update({show(tags)})"] if tags else [])]
