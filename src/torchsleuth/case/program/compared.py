"""The end of a script whose numbers are wrong: two runs that a caller cannot tell apart, but for torch.compile.

    def run(f):
        torch.manual_seed(0)
        x = torch.randn(4, 3, requires_grad=True)
        out = f(x)
        out.sum().backward()
        return out, x.grad

    torch.testing.assert_close(run(torch.compile(f)), run(f))

Each run makes its own inputs, so that one which writes them does not change what the other sees.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from torchsleuth.case.effects import draws, may_write
from torchsleuth.case.model import Case, Check, Tensor
from torchsleuth.case.program import frame
from torchsleuth.case.program.render import DATA_FILE, Script
from torchsleuth.case.program.statements import only_result

_RESULT = re.compile(r"out(\[\d+\])*")
_ENDS = "ends = [o for o in out if isinstance(o, torch.Tensor) and o.requires_grad]"


@dataclass(frozen=True)
class Placed:
    """A tensor that a caller holds: how the report names it, and how it is reached after the call."""

    name: str
    node: str
    expression: str
    tensor: Tensor


@dataclass(frozen=True)
class Callable:
    """What is compiled, and what it is called with."""

    maker: str  # "f", or "Model()"
    compiled: str  # the same, compiled
    arguments: tuple[str, ...]
    tensors: tuple[Placed, ...]
    keeps_tuple: bool = False  # one result, too, comes in a tuple


def write_runs(script: Script, target: Callable, arguments: Sequence[str]) -> None:
    case = script.case
    check = case.check or Check()
    lines: list[str] = []
    seeded = any("rand" in line for line in arguments) or draws(case.graph)
    if script.data:
        lines.append(f'data = torch.load("{DATA_FILE}", weights_only=True)')
    if seeded:
        lines.append("torch.manual_seed(0)")
    lines += arguments
    shown = _shown(case, check, target)
    opened = target.keeps_tuple and only_result(case.graph.output.args[0]) is not None
    call = f"f({', '.join(target.arguments)})"
    contexts = frame.contexts(case.surroundings)
    if shown == [("out", "out")] and not case.phase.backward and not opened:
        lines += frame.within(contexts, [f"return {call}"])
    else:
        if case.phase.backward or any(_RESULT.fullmatch(name) for name, _ in shown):
            call = f"{'(out,)' if opened else 'out'} = {call}"
        lines += frame.within(contexts, [call])
        lines += _backward(case, check) if case.phase.backward else []
        lines.append(f"return {', '.join(expression for _, expression in shown)}")
    script.definitions += ["def run(f):", *(f"    {line}" for line in lines), "", ""]
    if script.refereed:
        script.imports.add("from torchsleuth.referee.script import check")
        names = ", ".join(repr(name) for name, _ in shown)
        same = ", same_kernels=True" if script.case.surroundings.backend.runs_eagers_kernels else ""
        same += ", strides=True" if check.strides else ""
        script.run.append(f"check(run, lambda: {target.maker}, lambda: {target.compiled}, [{names}]{same})")
        return
    limits = ", equal_nan=True" if check.nans else ""
    limits += ", check_stride=True" if check.strides else ""
    limits += "" if check.rtol is None else f", rtol={check.rtol:.1g}, atol={check.atol or 0.0:.1g}"
    script.run += [
        f"compiled, eager = run({target.compiled}), run({target.maker})",
        f"torch.testing.assert_close(compiled, eager{limits})",
    ]


def names(case: Case, target: Callable) -> list[str]:
    return [name for name, _ in _shown(case, case.check or Check(), target)]


def _backward(case: Case, check: Check) -> list[str]:
    single = only_result(case.graph.output.args[0]) is not None
    if single and check.tangents == "ones":
        return ["out.sum().backward()"]
    if single:
        return [f"out.backward({_varied('out')})"]
    weights = "torch.ones_like(o)" if check.tangents == "ones" else _varied("o")
    return [_ENDS, f"torch.autograd.backward(ends, [{weights} for o in ends])"]


def _varied(name: str) -> str:
    return f"torch.linspace(0.5, 1.5, {name}.numel()).to({name}).view({name}.shape)"


def _shown(case: Case, check: Check, target: Callable) -> list[tuple[str, str]]:
    """Name and expression of each thing that the runs return."""
    results = case.graph.output.args[0]
    everything = [("out", "out")] if results else []
    written = check.inputs or may_write(case.graph)
    for placed in target.tensors:
        if written:
            everything.append((placed.name, placed.expression))
        if case.phase.backward and placed.tensor.requires_grad:
            everything.append((f"{placed.name}.grad", f"{placed.expression}.grad"))
    only = ("out" if name == "out[0]" and only_result(results) is not None else name for name in check.only)
    wanted = tuple(dict.fromkeys(only))
    chosen = [(name, expression) for name, expression in everything if name in wanted]
    chosen += [(name, name) for name in wanted if "[" in name and _RESULT.fullmatch(name) and _has(case, name)]
    return chosen or everything


def _has(case: Case, name: str) -> bool:
    value: object = case.graph.output.args[0]
    for index in re.findall(r"\d+", name):
        if not isinstance(value, (list, tuple)) or int(index) >= len(value):
            return False
        value = value[int(index)]
    return True
