"""`torchsleuth.check(model, *args, **kwargs)`: does the compiled model agree with eager?

    verdict = torchsleuth.check(model, x)
    assert verdict                # or verdict.raise_if_wrong()

The model and its inputs are copied for each run and stay as they are.  Compared are outputs, what is left in inputs and
buffers, and, where something asks for gradients, those of inputs and parameters.
"""

from __future__ import annotations

import copy
import html
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from torchsleuth import torch_api
from torchsleuth.referee import upcast
from torchsleuth.referee.graph import copies, run_backward, untouched_generators
from torchsleuth.referee.referee import Report, referee
from torchsleuth.referee.values import Seen, flatten
from torchsleuth.referee.verdict import Difference
from torchsleuth.referee.wrong import WrongNumbers

Function = Callable[..., Any]


@dataclass(frozen=True)
class Verdict:
    """True where compiled agrees with eager; prints as a table, and shows as one in a notebook."""

    report: Report
    backward: bool

    def __bool__(self) -> bool:
        return not self.report.wrong

    @property
    def wrong(self) -> tuple[Difference, ...]:
        return self.report.wrong

    def raise_if_wrong(self) -> Verdict:
        if not self:
            raise WrongNumbers(str(self), self.report)
        return self

    def __str__(self) -> str:
        lines = [self._headline()]
        width = max((len(d.path) for d in (*self.wrong, *self.report.excused)), default=0)
        lines += [f"  {d.path:{width}}  {d.how:6}  {d.text}" for d in self.wrong]
        lines += [f"  {d.path:{width}}  differs, not wrong: {d.excused}" for d in self.report.excused]
        return "\n".join([*lines, *(f"  note: {note}" for note in self.report.notes)])

    def _headline(self) -> str:
        count, how = self.report.compared, "forward and backward" if self.backward else "forward"
        if self:
            return f"compiled agrees with eager: {count} value{'s' * (count != 1)} compared, {how}"
        return f"compiled is wrong in {len(self.wrong)} of {count} value{'s' * (count != 1)} compared, {how}"

    def _repr_html_(self) -> str:
        rows = [(d.path, d.how, d.text) for d in self.wrong]
        rows += [(d.path, "not wrong", f"{d.text} ({d.excused})") for d in self.report.excused]
        cells = "".join(f"<tr>{''.join(f'<td>{html.escape(c)}</td>' for c in row)}</tr>" for row in rows)
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in self.report.notes)
        table = f"<table><tr><th>value</th><th>how</th><th>numbers</th></tr>{cells}</table>" if rows else ""
        return f"<p><b>{html.escape(self._headline())}</b></p>{table}{notes}"


def check(
    model: Function,
    *args: Any,
    backward: bool | None = None,
    compile: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> Verdict:
    """Runs `model(*args, **kwargs)` compiled, in eager, and, where they differ, in eager in float64.

    backward: whether gradients are compared; None: where grad mode is on and an input or parameter asks for one.
    compile: arguments of torch.compile, for example {"dynamic": True, "backend": "aot_eager"}.
    """
    asks = torch.is_grad_enabled() and _asks_gradients(model, args, kwargs)
    gradients = asks if backward is None else backward

    def run(compiled: bool) -> list[Seen]:
        return _observe(model, args, kwargs, dict(compile or {}) if compiled else None, gradients)

    with untouched_generators(), torch_api.drawing_like_eager():
        report = referee(lambda: run(False), lambda: run(True))
    return Verdict(report, gradients)


def _observe(
    model: Function, args: Sequence[Any], kwargs: Mapping[str, Any], options: dict[str, Any] | None, backward: bool
) -> list[Seen]:
    module = _copied(model)
    given = copies([*args, *kwargs.values()])
    positional, named = given[: len(args)], dict(zip(kwargs, given[len(args) :], strict=True))
    function = module if options is None else torch.compile(module, **options)
    out = function(*positional, **named)
    seen = list(flatten(out, "out"))
    if backward:
        run_backward(out)
    held = {f"args[{i}]": v for i, v in enumerate(positional)} | named
    for name, value in held.items():
        seen += flatten(value, name)
    tensors = {k: v for k, v in held.items() if isinstance(v, torch.Tensor)}
    if isinstance(module, torch.nn.Module):
        seen += [s for name, value in module.named_buffers() for s in flatten(value, name)]
        tensors |= dict(module.named_parameters())
    if backward:
        seen += [s for name, t in tensors.items() if t.requires_grad for s in flatten(t.grad, f"{name}.grad")]
    return seen


def _copied(model: Function) -> Function:
    if not isinstance(model, torch.nn.Module):
        return model
    with torch_api.modes_off():
        module = copy.deepcopy(model)
    for parameter in module.parameters():
        parameter.grad = None
    return module.double() if upcast.is_active() else module


def _asks_gradients(model: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    tensors = [t for t in (*args, *kwargs.values()) if isinstance(t, torch.Tensor)]
    if isinstance(model, torch.nn.Module):
        tensors += list(model.parameters())
    return any(t.requires_grad for t in tensors)
