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

Compared are outputs, what is left in inputs, in the model and in what is closed over, and, where something asks for
gradients, those of inputs, parameters and what is closed over.  What cannot be compared is named in the verdict.  A
verdict is true only where something was compiled and something that it returned was compared.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch

from torchsleuth import torch_api
from torchsleuth.library.given import Call, Given
from torchsleuth.library.observed import observe
from torchsleuth.library.uncompiled import why_not
from torchsleuth.library.verdict import Verdict
from torchsleuth.referee.graph import untouched_generators
from torchsleuth.referee.referee import referee
from torchsleuth.referee.values import Seen

Function = Callable[..., Any]
_checks = itertools.count(1)  # of this process
_PARTLY_EAGER = (
    "a function was compiled as often as torch allows (torch._dynamo.config.recompile_limit); from then on it ran in "
    "eager, and so it is compared with itself"
)

_SUPPRESSED = (
    "part of it was compared with itself: compiling failed there, and with torch._dynamo.config.suppress_errors it ran "
    "in eager"
)


def check(
    model: Function,
    *args: Any,
    backward: bool | None = None,
    compile: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> Verdict:
    """Runs `model(*args, **kwargs)` compiled, in eager, and, where they differ, in eager in float64.

    A model that torch.compile returned is run as it was compiled, unless `compile` says otherwise.

    backward: whether gradients are compared; None: where grad mode is on and an input or parameter asks for one.
    compile: arguments of torch.compile, for example {"dynamic": True, "backend": "aot_eager"}.
    """
    given = Given.of(Call(model, args, kwargs))
    asks = torch.is_grad_enabled() and any(t.requires_grad for t in given.tensors)
    runs = _Runs(given, compile, asks if backward is None else backward)
    # What earlier checks of the same code compiled counts, too; it must not make this one a check of eager with itself.
    with untouched_generators(), torch_api.drawing_like_eager(), torch_api.limit_raised(next(_checks)):
        report = referee(runs.eager, runs.compiled)
    report = replace(report, notes=(*report.notes, *runs.notes, *given.lent.notes))
    return Verdict(report, runs.ran_backward, runs.not_compiled)


class _Runs:
    """The runs of one check, and what is learned in them beside the values."""

    def __init__(self, given: Given, options: Mapping[str, Any] | None, backward: bool) -> None:
        self._given = given
        self._options = options
        self._backward = backward
        self.ran_backward = False
        self.not_compiled = ""
        self.notes: list[str] = []

    def eager(self) -> list[Seen]:
        with torch_api.compiling_nothing():
            return self._run(lambda model: model)

    def compiled(self) -> list[Seen]:
        with torch_api.watching_compilation() as watch:
            seen = self._within_limit()
        options = self._options or {}
        if not watch.graphs and not torch_api.why_compilation_is_off(self._given.call.model, options):
            # An earlier check may have compiled it, and only what is compiled anew is seen.
            torch_api.forget_compilation()
            with torch_api.watching_compilation() as again:
                seen = self._within_limit()
            watch.add(again)
        if not watch.graphs:
            self.not_compiled = why_not(self._given.call.model, options, watch)
        elif watch.suppressed:
            self.notes.append(f"{_SUPPRESSED}: {watch.suppressed[0]}")
        return seen

    def _within_limit(self) -> list[Seen]:
        try:
            with untouched_generators(), torch_api.told_of_the_limit():
                return self._run(self._compile)
        except torch_api.LimitReached:
            self.notes.append(_PARTLY_EAGER)
            return self._run(self._compile)

    def _run(self, compile: Callable[[Any], Any]) -> list[Seen]:
        with self._given.for_a_run() as call:
            shown = observe(call, self._given.lent, compile(call.model), backward=self._backward)
        self.ran_backward = self.ran_backward or shown.ran_backward
        return shown.seen

    def _compile(self, model: Function) -> Function:
        if self._options is None and torch_api.user_compiled(model):
            return model
        return torch.compile(model, **(self._options or {}))
