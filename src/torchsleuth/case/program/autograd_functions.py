"""A torch.autograd.Function that the program applied, as a class again.

In a graph it is one call that is given two bodies: a forward that gives results and what to save for the backward, and
a backward that is given gradients and what was saved.  Dynamo takes no such call from a script, but a class it does.
"""

from __future__ import annotations

from collections.abc import Mapping

from torchsleuth.case.ir import Graph, Node, Op, Ref
from torchsleuth.case.program.render import Script
from torchsleuth.case.program.statements import APPLIED, CannotRender


def write_classes(graph: Graph, functions: Mapping[str, str], script: Script) -> dict[str, str]:
    """Adds a class for each such call; by the call's node, the name of its class.  `functions`: of bodies, by path."""
    paths = {n.name: n.target for n in graph.nodes if n.op is Op.GET_ATTR}
    found: dict[str, str] = {}
    for node in graph.nodes:
        if node.target != APPLIED:
            continue
        bodies = [paths.get(arg.name, "") if isinstance(arg, Ref) else "" for arg in node.args[:2]]
        if len(bodies) < 2 or not all(path in functions and path in graph.bodies for path in bodies):
            raise CannotRender("an autograd.Function without its bodies")
        forward, backward = bodies
        name = found[node.name] = script.names.fresh("Applied")
        lines = _forward(node, graph.bodies[forward], functions[forward])
        script.definitions += [
            f"class {name}(torch.autograd.Function):",
            "    @staticmethod",
            "    def forward(ctx, *inputs):",
            *(f"        {line}" for line in lines),
            "",
            "    @staticmethod",
            "    def backward(ctx, *gradients):",
            f"        return {functions[backward]}(*gradients, *{_saved(node, graph.bodies[forward])})",
            "",
            "",
        ]
    return found


def _forward(node: Node, body: Graph, function: str) -> list[str]:
    results = _results(body)[0]
    lines = [f"results, saved = {function}(*inputs)"]
    lines.append("ctx.saved = saved" if _saved(node, body) == "ctx.saved" else "ctx.save_for_backward(*saved)")
    fixed = _numbers(node, "non_differentiable_idx")
    if fixed:
        several = isinstance(results, (tuple, list))
        marked = ", ".join(f"results[{i}]" for i in fixed) if several else "results"
        lines.append(f"ctx.mark_non_differentiable({marked})")
    return [*lines, "return results"]


def _saved(node: Node, body: Graph) -> str:
    """Where the backward finds what the forward saved: by save_for_backward, or as an attribute of its own."""
    count = len(_results(body)[1])
    ways = _numbers(node, "saved_for_backward_idx")
    if (
        node.kwargs.get("dirty_idx")
        or "saved_for_backward_idx" not in node.kwargs
        or not set(ways) <= set(range(count))
    ):
        raise CannotRender("an autograd.Function that torch tells about in another way")
    if not ways and count:
        return "ctx.saved"
    if len(set(ways)) < count:
        raise CannotRender("an autograd.Function that saves tensors in two ways")
    return "ctx.saved_tensors"


def _numbers(node: Node, name: str) -> list[int]:
    """Whole numbers and nothing else: they are written into the script, and a Case may have been tampered with."""
    given = node.kwargs.get(name) or ()
    if not isinstance(given, (tuple, list)) or any(type(n) is not int for n in given):
        raise CannotRender(f"an autograd.Function with a strange {name}")
    return list(given)


def _results(body: Graph) -> tuple[object, tuple[object, ...] | list[object]]:
    """What the forward gives, and what it saves."""
    output = body.nodes[-1].args[0] if body.nodes and body.nodes[-1].args else None
    if not isinstance(output, (tuple, list)) or len(output) != 2 or not isinstance(output[1], (tuple, list)):
        raise CannotRender("an autograd.Function with a forward of another shape")
    return output[0], output[1]
