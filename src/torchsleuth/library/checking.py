"""`torchsleuth.check(model, *args, **kwargs)`: does the compiled model agree with eager?

    verdict = torchsleuth.check(model, x)
    assert verdict                # or verdict.raise_if_wrong()

The model and its inputs are copied for each run and stay as they are, with all that containers, dataclasses and other
objects hold, as copy.deepcopy copies it; tensors that share memory do so in the copies.  An object that holds no tensor
is not copied unless it belongs to a module.

What a function closes over (in closure cells, defaults, and globals that its code names, and that of functions it
calls) is lent to each run, as is an input that cannot be copied, and is afterwards as it was: tensors, gradients,
attributes, containers.  The verdict notes what could not be lent.  What is reached in another way (a library's globals,
a registry that is asked) is used as it is.

Compared are outputs, what is left in inputs, buffers and tensors that are closed over, and, where something asks for
gradients, those of inputs, parameters and what is closed over.
"""

from __future__ import annotations

import html
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from torchsleuth import torch_api
from torchsleuth.library.given import Call, Given
from torchsleuth.library.held import Leaf
from torchsleuth.library.lending import Lent
from torchsleuth.referee.graph import run_backward, untouched_generators
from torchsleuth.referee.referee import Report, referee
from torchsleuth.referee.values import Seen, flatten
from torchsleuth.referee.verdict import Difference
from torchsleuth.referee.wrong import WrongNumbers

Function = Callable[..., Any]
_checks = itertools.count(1)  # of this process
_PARTLY_EAGER = (
    "a function was compiled as often as torch allows (torch._dynamo.config.recompile_limit); from then on it ran in "
    "eager, and so it is compared with itself"
)


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
    given = Given.of(Call(model, args, kwargs))
    asks = torch.is_grad_enabled() and any(t.requires_grad for t in given.tensors)
    gradients = asks if backward is None else backward

    def run(compiled: bool) -> list[Seen]:
        with given.for_a_run() as call:
            return _observe(call, given.lent, dict(compile or {}) if compiled else None, gradients)

    partly: set[str] = set()

    def run_compiled() -> list[Seen]:
        try:
            with untouched_generators(), torch_api.told_of_the_limit():
                return run(True)
        except torch_api.LimitReached:
            partly.add(_PARTLY_EAGER)
            return run(True)

    # What earlier checks of the same code compiled counts, too; it must not make this one a check of eager with itself.
    with untouched_generators(), torch_api.drawing_like_eager(), torch_api.limit_raised(next(_checks)):
        report = referee(lambda: run(False), run_compiled)
    return Verdict(replace(report, notes=(*report.notes, *partly, *given.lent.notes)), gradients)


def _observe(call: Call, lent: Lent, options: dict[str, Any] | None, backward: bool) -> list[Seen]:
    asking = _asking(call, lent)
    function = call.model if options is None else torch.compile(call.model, **options)
    out = function(*call.args, **call.kwargs)
    seen = list(flatten(out, "out"))
    if backward:
        run_backward(out, [leaf.value for leaf in asking])
    for leaf in _leaves(call, lent):
        if not leaf.is_parameter:
            seen += flatten(leaf.value, leaf.path)
    if backward:
        seen += [s for leaf in asking for s in flatten(leaf.value.grad, f"{leaf.path}.grad")]
    return seen


def _leaves(call: Call, lent: Lent) -> Iterator[Leaf]:
    yield from call.of_inputs()
    yield from call.of_model()
    yield from lent.leaves()


def _asking(call: Call, lent: Lent) -> list[Leaf]:
    """Each tensor that asks for gradients once: as a module's parameter rather than in an optimizer's list."""
    found: dict[int, Leaf] = {}
    for leaf in sorted(_leaves(call, lent), key=lambda leaf: not leaf.is_parameter):
        if isinstance(leaf.value, torch.Tensor) and leaf.value.is_leaf and leaf.value.requires_grad:
            found.setdefault(id(leaf.value), leaf)
    return list(found.values())
