"""Nodes of a Dynamo graph as the Python that a person would have written."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from torchsleuth.case import user_kernels
from torchsleuth.case.expressions import show, show_dotted
from torchsleuth.case.ir import Arg, Graph, Node, Op, Ref, inputs_of
from torchsleuth.case.operator_names import LOWERS_VERSION, SETS_DATA
from torchsleuth.case.program import higher_order
from torchsleuth.operators.python_operators import INFIX, PREFIX, augmented_sign

_ENTER, _EXIT = "torch.amp.autocast_mode._enter_autocast", "torch.amp.autocast_mode._exit_autocast"
_PUBLIC = {
    "torch._C._set_grad_enabled": "torch.set_grad_enabled",
    "torch.ops.higher_order.cond": "torch.cond",
    "torch.ops.higher_order.tag_activation_checkpoint": "torch.utils.checkpoint.checkpoint",
}
APPLIED = "torch.ops.higher_order.autograd_function_apply"  # takes graphs: Dynamo compiles no such call again
# Keywords that Dynamo adds, and refuses where a program gives them.
_ADDED = {"torch.ops.higher_order.while_loop": {"mutated_arg_indices"}}
_NEEDS_IMPORT = {"torch.utils.checkpoint": "import torch.utils.checkpoint"}


class CannotRender(Exception):
    """This graph has no form as plain Python; another form may have."""


@dataclass
class Body:
    """Statements being written, with the names in use and the imports they turn out to need."""

    names: Mapping[str, str]
    tensors: frozenset[str] = frozenset()  # nodes known to be tensors
    lines: list[str] = field(default_factory=list)
    indent: int = 1
    open_autocasts: list[str] = field(default_factory=list)
    imports: set[str] = field(default_factory=set)
    kernels: Mapping[str, str] = field(default_factory=dict)  # of the user's, by label: the expression for each
    classes: Mapping[str, str] = field(default_factory=dict)  # of autograd.Functions, by the node that applies them
    late: dict[str, str] = field(default_factory=dict)  # value -> the line that binds it, to stand before its first use
    plain_end: bool = False  # the tuple of results may be opened: Dynamo makes it again

    def add(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    def end(self, results: Arg, users: Mapping[str, int]) -> None:
        only = only_result(results)
        if not self.plain_end or (only is None and results):
            self.add(f"return {self.show(results)}")
        elif only is not None:
            name = self.show(only)
            assigned = "    " * self.indent + f"{name} = "
            if users[only.name] == 1 and self.lines and self.lines[-1].startswith(assigned):
                name = self.lines.pop().removeprefix(assigned)
            self.add(f"return {name}")
        elif not self.lines:
            self.add("pass")

    def name(self, node: str) -> str:
        return self.names.get(node, node)

    def show(self, value: Arg) -> str:
        return show(value, self.name)


def only_result(results: Arg) -> Ref | None:
    """Of a function that gives one thing: that, which a person would not put into a tuple."""
    single = isinstance(results, (list, tuple)) and len(results) == 1
    return results[0] if single and isinstance(results[0], Ref) else None


def write_nodes(graph: Graph, body: Body, aliases: Mapping[str, str]) -> None:
    """The calls of `graph`; nodes in `aliases` are other words for values that exist already."""
    users = _users(graph)
    for node in graph.nodes:
        if node.op is Op.PLACEHOLDER or node.name in aliases:
            continue
        for name in inputs_of(node):
            if name in body.late:
                body.add(body.late.pop(name))
        if node.op is Op.OUTPUT:
            if body.open_autocasts:
                raise CannotRender("an autocast region is never left")
            body.end(node.args[0], users)
        elif node.target == _ENTER:
            device, dtype, enabled, cache = (*node.args, None, None, None, None)[:4]
            options = [repr(device)]
            options += [f"dtype={body.show(dtype)}"] if dtype is not None else []
            options += ["enabled=False"] if enabled is False else []
            options += [f"cache_enabled={cache}"] if cache is not None else []
            body.add(f"with torch.autocast({', '.join(options)}):")
            body.open_autocasts.append(node.name)
            body.indent += 1
        elif node.target == _EXIT:
            if not body.open_autocasts or node.args != (Ref(body.open_autocasts[-1]),):
                raise CannotRender("autocast regions that overlap")
            if body.lines[-1].rstrip().endswith(":"):
                body.add("pass")
            body.open_autocasts.pop()
            body.indent -= 1
        else:
            _write_call(node, body, used=bool(users.get(node.name)))


def _users(graph: Graph) -> dict[str, int]:
    counts: dict[str, int] = {}
    for node in graph.nodes:
        for name in inputs_of(node):
            counts[name] = counts.get(name, 0) + 1
    return counts


def _write_call(node: Node, body: Body, *, used: bool) -> None:
    left = f"{body.name(node.name)} = " if used else ""
    if node.op is Op.GET_ATTR:
        body.add(f"{body.name(node.name)} = {attribute(node.target)}")
        return
    function = node.target.removeprefix("_operator.").removeprefix("operator.")
    is_operator = node.op is Op.CALL_FUNCTION and node.target in (f"operator.{function}", f"_operator.{function}")
    if is_operator and function == "setitem" and len(node.args) == 3:
        target, index, value = node.args
        body.add(f"{atom(body.show(target))}[{_index(index, body)}] = {body.show(value)}")
        if used:
            body.add(f"{left}None")
        return
    sign = augmented_sign(function) if is_operator else None
    if sign is not None and len(node.args) == 2 and _rebinds_safely(node.args[0], body):
        # `x += y` on a tensor binds x to the same tensor; the node's name is another word for it.
        on = body.show(node.args[0])
        body.add(f"{on} {sign} {body.show(node.args[1])}")
        if used:
            body.add(f"{left}{on}")
        return
    if node.target == SETS_DATA and node.op is Op.CALL_FUNCTION and len(node.args) == 2:
        on = body.show(node.args[0])
        body.add(f"{on}.data = {body.show(node.args[1])}")
        if used:
            body.add(f"{left}{on}")
        return
    if node.target == LOWERS_VERSION:  # said by the assignment already
        if used:
            body.add(f"{left}{body.show(node.args[0])}")
        return
    lines = higher_order.scan(node, body.name(node.name), body.show) if node.target == higher_order.SCAN else None
    if lines is not None:
        body.imports.add("import torch._higher_order_ops")
        for line in lines:
            body.add(line)
        return
    body.add(left + call(node, body, function if is_operator else ""))


def _rebinds_safely(value: Arg, body: Body) -> bool:
    """A number or an attribute would be bound to something else than what later lines mean."""
    return isinstance(value, Ref) and value.name in body.tensors and body.name(value.name).isidentifier()


def call(node: Node, body: Body, operator: str) -> str:
    args = node.args
    kwargs = {k: v for k, v in node.kwargs.items() if k not in _ADDED.get(node.target, ())}
    if operator == "getitem" and len(args) == 2:
        return f"{atom(body.show(args[0]))}[{_index(args[1], body)}]"
    if operator in INFIX and len(args) == 2:
        return f"{atom(body.show(args[0]))} {INFIX[operator]} {atom(body.show(args[1]))}"
    if operator in PREFIX and len(args) == 1:
        return f"{PREFIX[operator]}{atom(body.show(args[0]))}"
    arguments = ", ".join([*map(body.show, args), *(f"{k}={body.show(v)}" for k, v in kwargs.items())])
    if node.op is Op.CALL_METHOD:
        rest = ", ".join([*map(body.show, args[1:]), *(f"{k}={body.show(v)}" for k, v in kwargs.items())])
        return f"{atom(body.show(args[0]))}.{node.target}({rest})"
    if node.op is Op.CALL_MODULE:
        return f"{attribute(node.target)}({arguments})"
    if node.target == "getattr" and len(args) == 2 and str(args[1]).isidentifier():
        return f"{atom(body.show(args[0]))}.{args[1]}"
    if node.target.startswith("unknown_function."):
        raise CannotRender(f"{node.target.removeprefix('unknown_function.')} has no name to call it by")
    if user_kernels.number_of(node) is not None:
        return _kernel_call(node, body)
    if (
        node.target == higher_order.FLEX_ATTENTION
        and (text := higher_order.flex_attention(node, body.show)) is not None
    ):
        return text
    if node.target == higher_order.REGION and len(args) >= 2:
        return f"{body.show(args[0])}({', '.join(map(body.show, args[2:]))})"
    if node.target == APPLIED:
        return f"{body.classes[node.name]}.apply({', '.join(map(body.show, args[2:]))})"
    target = _PUBLIC.get(node.target, node.target)
    for prefix, line in _NEEDS_IMPORT.items():
        if target.startswith(prefix):
            body.imports.add(line)
    root = target.split(".")[0]
    if root in ("operator", "math", "_operator"):
        body.imports.add(f"import {root}")
    elif root != "torch" and "." in target:
        body.imports.add(f"import {target.rpartition('.')[0]}")
    return f"{show_dotted(target)}({arguments})"


def _kernel_call(node: Node, body: Body) -> str:
    """A Triton kernel of the user's, launched as the program launched it."""
    kernel = body.kernels.get(str(node.kwargs["kernel"]), "")
    if node.target != user_kernels.MUTATION or node.kwargs.get("tma_descriptor_metadata") or not kernel:
        raise CannotRender(f"{node.target} has no form as a launch of the kernel")
    return user_kernels.call_text(node, kernel, body.show)


def atom(text: str) -> str:
    """`text` so that an operator binds to the whole of it."""
    if re.fullmatch(r"[\w.]+|[\w.]+\([^()]*\)|[\w.]+\[[^\[\]]*\]", text) and not re.fullmatch(r"\d[\w.]*", text):
        return text
    return text if re.fullmatch(r"\d+\.?\d*", text) else f"({text})"


def attribute(path: str) -> str:
    """Modules and constants of the graph are attributes of one flat module."""
    return f"self.{path.replace('.', '_')}"


def _index(value: Arg, body: Body) -> str:
    def one(part: Arg) -> str:
        if isinstance(part, slice):
            bounds = ["" if b is None else body.show(b) for b in (part.start, part.stop)]
            return ":".join(bounds) + ("" if part.step is None else f":{body.show(part.step)}")
        return body.show(part)

    if isinstance(value, tuple) and value:
        return ", ".join(map(one, value)) + ("," if len(value) == 1 else "")
    return one(value)
