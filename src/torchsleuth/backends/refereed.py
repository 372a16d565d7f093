"""Inductor under the referee: `torch.compile(model, backend="torchsleuth")`.

Each graph is compared with eager at its first calls, on copies of the inputs; a graph that is wrong raises
`WrongNumbers` before its result is used.  Options are those of the backend "inductor".
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from torchsleuth import torch_api
from torchsleuth.referee.graph import check_graph
from torchsleuth.referee.wrong import WrongNumbers, listed

_CALLS = 2  # that are compared, of each graph

NAME = "torchsleuth"


def torchsleuth(
    gm: torch.fx.GraphModule, inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None, **_: Any
) -> Callable[..., Any]:
    eager = torch_api.copy_of_graph(gm)
    with torch_api.drawing_like_eager():
        compiled = torch_api.compile_with_inductor(gm, inputs, dict(options or {}))
    calls = 0

    @functools.wraps(compiled, updated=())
    def call(*args: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls <= _CALLS:
            report = check_graph(eager.forward, compiled, args, backward=torch.is_grad_enabled())
            if report.wrong:
                raise WrongNumbers(listed(report), report)
            if calls == 1 and report.not_compared:
                warnings.warn(f"not compared with eager: {', '.join(map(str, report.not_compared))}", stacklevel=2)
        return compiled(*args)

    torch_api.copy_call_marks(compiled, call)
    return call
