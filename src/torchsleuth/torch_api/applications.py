"""Each thing that the compiler does to a graph, as it is about to: decomposition, pass, pattern, lowering, fusion.

torch has one gate for its own bisector (`CompilerBisector.disable_subsystem`), at decompositions, lowerings and CUDA
graphs; passes ask an observer that knows their name and graph; single patterns and fusions have no gate of torch's.
`on_application` stands at all of them.  It is meant for a process that compiles for us alone, and is not undone.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

from torchsleuth.torch_api import attaching, hook_table

DECOMPOSITION = "decomposition"
PRE_GRAD = "pre_grad_passes"
JOINT = "joint_graph_passes"
POST_GRAD = "post_grad_passes"
PATTERN = "pattern"
LOWERING = "lowering"
FUSION = "fusion"
CUDAGRAPHS = "cudagraphs"

# Passes and patterns that later stages cannot do without: higher-order operators that have no lowering, and random
# numbers, which are lowered only in their rewritten form.
_REQUIRED_PASSES = ("decompose_", "fuse_seed_creation", "fuse_offset_creation")
_REQUIRED_PATTERNS = ("replace_random", "replace_randint")


@dataclass(frozen=True)
class About:
    """What is about to be applied."""

    stage: str  # one of the above
    name: str
    trace: Callable[[], str] = lambda: ""  # the stack of what the user wrote, as torch keeps it
    graph: Callable[[], str] | None = None  # text of the graph as it stands


class Gate(Protocol):
    def begins(self, about: About) -> bool:
        """Whether to apply it."""

    def ended(self, about: About) -> None:
        """It was applied: called for those that have a graph."""


@dataclass
class _Installed:
    gate: Gate | None = None
    required: int = 0  # depth of passes that must be applied whole
    open: dict[int, About] = field(default_factory=dict)  # passes under way, by their observer
    pairs: dict[tuple[str, ...], bool] = field(default_factory=dict)


_INSTALLED = _Installed()


def on_application(gate: Gate) -> None:
    first = _INSTALLED.gate is None
    _INSTALLED.gate = gate
    _INSTALLED.required = 0
    _INSTALLED.open.clear()
    _INSTALLED.pairs.clear()
    if first:
        _gate_subsystems()
        _gate_passes()
        _gate_patterns()
        _gate_fusion()


def _applies(about: About) -> bool:
    return _INSTALLED.required > 0 or _INSTALLED.gate is None or _INSTALLED.gate.begins(about)


def _gate_subsystems() -> None:
    stages = {"decomposition": DECOMPOSITION, "lowerings": LOWERING, "cudagraphs": CUDAGRAPHS}

    def disabled(_: str, subsystem: str, debug_info: Callable[[], str] | None = None) -> bool:
        stage = stages.get(subsystem)
        if stage == LOWERING:
            return not _applies(_lowering())
        if stage is None:
            return False
        return not _applies(About(stage, _operator(debug_info()) if debug_info else stage, _traced_line))

    attaching.put(hook_table.BISECTION, True)  # else torch does not ask, or takes a graph from its cache
    attaching.put(hook_table.SUBSYSTEMS, staticmethod(disabled))


def _lowering() -> About:
    from torch._inductor.virtualized import V

    node = V.get_current_node()
    return About(LOWERING, str(node.target), lambda: str(node.meta.get("stack_trace") or ""))


def _operator(text: str) -> str:
    """ "aten.ones.default" for <OpOverload(op='aten.ones', overload='default')>."""
    found = re.search(r"op='([\w.:]+)', overload='(\w+)'", text)
    return f"{found.group(1)}.{found.group(2)}" if found else text


def _traced_line() -> str:
    """While AOTAutograd traces a graph: the stack of the node that is being traced."""
    from torch.fx import traceback

    return "".join(traceback.format_stack()) if traceback.has_preserved_node_meta() else ""


def _gate_passes() -> None:
    attaching.replace(hook_table.PASS_BEGINS, _gated_pass)
    attaching.replace(hook_table.PASS_ENDS, _noted_pass)


def _gated_pass(asked: Callable[[Any], bool]) -> Callable[[Any], bool]:
    @functools.wraps(asked)
    def disabled(self: Any) -> bool:
        if asked(self) or self.subsystem is None:
            return bool(asked(self))
        about = About(self.subsystem, self.passname, graph=lambda: _text(self.gm))
        if self.passname.startswith(_REQUIRED_PASSES):
            _INSTALLED.required += 1
        elif not _applies(about):
            return True
        _INSTALLED.open[id(self)] = about
        return False

    return disabled


def _noted_pass(leave: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(leave)
    def left(self: Any, *error: Any) -> None:
        about = _INSTALLED.open.pop(id(self), None)
        if about is not None and about.name.startswith(_REQUIRED_PASSES):
            _INSTALLED.required -= 1
        elif about is not None and _INSTALLED.gate is not None:
            _INSTALLED.gate.ended(about)
        leave(self, *error)

    return left


def _gate_patterns() -> None:
    for kind in hook_table.PATTERNS:
        attaching.replace(kind, _gated_pattern)


def _gated_pattern(apply: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(apply)
    def gated(self: Any, match: Any, graph: Any, node: Any) -> None:
        name = _name_of_pattern(self, node)
        about = About(
            PATTERN, name, lambda: str(node.meta.get("stack_trace") or ""), lambda: _text(graph.owning_module)
        )
        if name.startswith(_REQUIRED_PATTERNS):
            apply(self, match, graph, node)
        elif _applies(about):
            apply(self, match, graph, node)
            if _INSTALLED.gate is not None:
                _INSTALLED.gate.ended(about)

    return gated


def _name_of_pattern(entry: Any, node: Any) -> str:
    handler = getattr(entry, "handler", None)
    while isinstance(handler, functools.partial):
        handler = handler.func
    name = getattr(handler, "__name__", None) or getattr(entry, "pattern_name", None)
    return name if name and name != "<lambda>" else f"pattern of {node.target}"


def _gate_fusion() -> None:
    attaching.replace(hook_table.FUSION, _gated_fusion)


def _gated_fusion(asked: Callable[..., bool]) -> Callable[..., bool]:
    @functools.wraps(asked)
    def can_fuse(self: Any, first: Any, second: Any, *args: Any, **kwargs: Any) -> bool:
        pair = (str(id(self)), *sorted(first.get_operation_names()), "|", *sorted(second.get_operation_names()))
        if _INSTALLED.pairs.get(pair) is False or not asked(self, first, second, *args, **kwargs):
            return False
        if pair not in _INSTALLED.pairs:
            names = f"{_operators(first)} with {_operators(second)}"
            about = About(FUSION, names, lambda: _first_trace([*_origins(second), *_origins(first)]))
            _INSTALLED.pairs[pair] = _applies(about)
        return _INSTALLED.pairs[pair]

    return can_fuse


def _origins(node: Any) -> list[Any]:
    found = [origin for one in node.get_nodes() if one.node is not None for origin in one.node.get_origins()]
    return [origin for origin in dict.fromkeys(found) if hasattr(origin, "meta")]


def _operators(node: Any) -> str:
    """The operators that a kernel ends in, not those that were inlined into it."""
    own = [getattr(one.node, "origin_node", None) for one in node.get_nodes()]
    named = [one for one in own if one is not None] or _origins(node)
    return " and ".join(dict.fromkeys(str(one.target) for one in named)) or "nothing"


def _first_trace(origins: Iterable[Any]) -> str:
    return next((str(t) for t in (n.meta.get("stack_trace") for n in origins) if t), "")


def _text(module: Any) -> str:
    graph = getattr(module, "graph", module)
    try:
        text = str(graph.python_code("self").src).strip()
        return re.sub(r";  (?:\w+ = )+None", "", text)  # values that are let go: not what a reader looks for
    except Exception:  # a graph half way through a pass need not be printable as Python
        return str(graph)
