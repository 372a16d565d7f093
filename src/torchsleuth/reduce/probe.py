"""python -m torchsleuth.reduce.probe CASE: one eager run of a Case's graph, and what each value looked like.

In a process of its own, because the graph may do anything; prints one JSON object.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from torchsleuth.case import folder, tensors
from torchsleuth.case.model import Case, Input, Scalar, Tensor
from torchsleuth.case.program import values
from torchsleuth.case.to_torch import graph_module

_PLAIN = (bool, int, float, str, type(None))


class _Recorder(torch.fx.Interpreter):
    def __init__(self, module: torch.fx.GraphModule) -> None:
        super().__init__(module, garbage_collect_values=True)
        self.seen: dict[str, dict[str, Any]] = {}

    def run_node(self, n: torch.fx.Node) -> Any:
        result = super().run_node(n)
        if isinstance(result, torch.Tensor):
            self.seen[n.name] = _describe(result)
        elif isinstance(result, _PLAIN):
            self.seen[n.name] = {"number": result}
        elif isinstance(result, (list, tuple)) and all(isinstance(v, _PLAIN) for v in result):
            self.seen[n.name] = {"number": list(result)}
        return result


def _describe(tensor: torch.Tensor) -> dict[str, Any]:
    found = tensors.describe([tensor.detach()], look=True).tensors[0]
    low, high = found.low, found.high
    if tensor.dtype is torch.bool and tensor.numel():  # a predicate that was true is true as an input
        low, high = int(tensor.all()), int(tensor.any())
    return {
        "shape": list(found.shape), "stride": list(found.stride), "dtype": found.dtype, "device": found.device,
        "low": low, "high": high, "literal": list(found.literal), "requires_grad": tensor.requires_grad,
        "distinct": found.distinct, "nans": found.nans,
    }  # fmt: skip


def _inputs(case: Case, home: Path) -> list[Any]:
    described = [v for v in case.inputs if isinstance(v, Tensor)]
    kept = [t for t in described if case.storages[t.storage].kept]
    loaded = dict(zip(map(id, kept), tensors.load(home, kept, case.storages), strict=True))
    return [_input(v, loaded) for v in case.inputs]


def _input(value: Input, loaded: dict[int, torch.Tensor]) -> Any:
    if isinstance(value, Scalar):
        return torch.tensor(value.value, dtype=torch.float64) if value.as_tensor else value.value
    if not isinstance(value, Tensor):
        raise TypeError(value.what)
    found = loaded.get(id(value))
    if found is None:
        return eval(values.made(value), {"torch": torch})
    return found.requires_grad_(value.requires_grad) if value.requires_grad else found


def main(arguments: Sequence[str]) -> None:
    home = Path(arguments[0])
    case = folder.load(home, ours=True)
    constants = tensors.load(home, case.constants, case.storages)
    recorder = _Recorder(graph_module(case.graph, constants))
    torch.manual_seed(0)
    with torch.set_grad_enabled(case.surroundings.grad):
        try:
            recorder.run(*_inputs(case, home))
        finally:
            print(json.dumps(recorder.seen))


if __name__ == "__main__":
    main(sys.argv[1:])
