"""What the tests of the case room share: equality that sees nan and -0.0, small Cases, the way through text."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from torchsleuth.case import graph_text
from torchsleuth.case.ir import Graph, Node, Op, Ref, Value
from torchsleuth.case.model import Case, Level, Storage, Tensor


def exactly(value: Any) -> Any:
    """`value` as something whose == tells 1 from 1.0 and True, 0.0 from -0.0, and finds nan equal to nan."""
    if is_dataclass(value) and not isinstance(value, type):
        return (type(value).__name__, *((f.name, exactly(getattr(value, f.name))) for f in fields(value)))
    if isinstance(value, Enum):
        return value
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, *map(exactly, value))
    if isinstance(value, Mapping):
        return ("mapping", *((exactly(k), exactly(v)) for k, v in value.items()))
    if isinstance(value, slice):
        return ("slice", exactly(value.start), exactly(value.stop), exactly(value.step))
    return type(value).__name__, repr(value)


def through_text(graph: Graph, *, ours: bool = False) -> Graph:
    """`graph` written as text and JSON, and read back."""
    rows = json.loads(json.dumps(graph_text.table(graph)))
    return graph_text.parse(graph_text.write(graph), rows, None if ours else frozenset())


def graph_of(*nodes: Node, **more: Any) -> Graph:
    return Graph(nodes, **more)


def relu_graph() -> Graph:
    value = Value("torch.float32", (2, 3), (3, 1))
    return graph_of(
        Node("x", Op.PLACEHOLDER, "x", value=value),
        Node("relu", Op.CALL_FUNCTION, "torch.relu", (Ref("x"),), value=value),
        Node("output", Op.OUTPUT, "output", ((Ref("relu"),),)),
    )


def relu_case() -> Case:
    tensor = Tensor("torch.float32", (2, 3), (3, 1))
    return Case(Level.DYNAMO, relu_graph(), (tensor,), storages=(Storage(24),))


def assert_runs(source: str, folder: Path) -> None:
    """As a script, in a process of its own."""
    script = folder / "script.py"
    script.write_text(source, encoding="utf-8")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
