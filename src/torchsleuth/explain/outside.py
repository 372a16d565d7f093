"""Graphs that torch compiled outside of any frame of torch.compile: AOTInductor, compiled autograd, export.

Their records bear no number of a frame.  Those of one process stand one after another; a record that begins a graph,
after one that only a compiled graph has, belongs to the next.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from torchsleuth.explain.cache_lookups import Lookup, lookup_of
from torchsleuth.explain.operators import Operators, operators_of
from torchsleuth.explain.records import Record

# The records of a graph before it is lowered, in their order; only the first and the last are used for counting.
_BEGINS = re.compile(r"^(aotautograd_cache_\w+|before_pre_grad_graph|aot_(joint|forward|inference)_graph)$")
_COMPILED = re.compile(r"^(inductor_output_code|inductor_aot\w*|fx_graph_cache_\w+)$")
_WORK = re.compile(r"graph|_code$|^exported")
_MEASURED = "compilation_metrics"
_CAPTURED = "dynamo_output_graph"


class Kept(Protocol):
    """What has a folder for its graphs."""

    id: str
    artifacts: list[str]

    @property
    def function(self) -> str: ...


Keep = Callable[[Kept, str, str], None]  # an artifact's name and text


@dataclass
class OutsideGraph:
    process: str
    id: str = ""  # "!0" of compiled autograd
    records: list[str] = field(default_factory=list)  # names of what torch wrote of it, each once
    ops: int | None = None  # in the text of the graph; None: there is no text that can be read
    seconds: float | None = None  # None: torch measured none
    failed: str = ""
    lookups: list[Lookup] = field(default_factory=list)
    artifacts: list[str] = field(default_factory=list)

    @property
    def what(self) -> str:
        """Which part of torch made it, as far as its records tell."""
        if self.id.startswith("!"):
            return "compiled autograd"
        if any("aoti" in name or "inductor_aot" in name for name in self.records):
            return "AOTInductor"
        if any(name.startswith("export") for name in self.records):
            return "torch.export"
        return "Dynamo" if _CAPTURED in self.records else "unknown"

    @property
    def function(self) -> str:
        return "no frame"

    @property
    def is_work(self) -> bool:
        """Whether something was captured or compiled, or failed; measurements alone are none."""
        return bool(self.failed) or any(_WORK.search(name) for name in self.records)

    @property
    def is_compiled(self) -> bool:
        return any(_COMPILED.match(name) for name in self.records)


class Outside:
    """Takes the records without a frame; holds one small entry a graph."""

    def __init__(self) -> None:
        self._graphs: list[OutsideGraph] = []
        self._latest: dict[tuple[str, str], OutsideGraph] = {}

    @property
    def graphs(self) -> list[OutsideGraph]:
        return [graph for graph in self._graphs if graph.is_work]

    def add_captured(self, process: str, compile_id: str, operators: Operators | None, lookups: list[Lookup]) -> None:
        """A graph that Dynamo captured of no frame, as torch.export(strict=True) has it do."""
        ops = None if operators is None else operators.number
        self._graphs.append(OutsideGraph(process, compile_id, [_CAPTURED], ops, lookups=lookups))

    def take(self, record: Record, keep: Keep | None) -> None:
        if record.name == "torch_version":
            return
        key = (record.process, record.compile_id)
        graph = self._latest.get(key)
        if graph is None or (_BEGINS.match(record.name) and graph.is_compiled):
            graph = self._latest[key] = OutsideGraph(*key)
            self._graphs.append(graph)
        _add(graph, record)
        if keep is not None and record.payload:
            keep(graph, record.name, record.payload)
        if record.name == _MEASURED:
            del self._latest[key]


def _add(graph: OutsideGraph, record: Record) -> None:
    if record.name not in graph.records:
        graph.records.append(record.name)
    lookup = lookup_of(record)
    if lookup is not None:
        graph.lookups.append(lookup)
    if record.payload and record.name in ("before_pre_grad_graph", "aot_inference_graph", "compiled_autograd_graph"):
        graph.ops = operators_of(record.payload).number
    if record.name == _MEASURED and isinstance(record.data, dict):
        if record.data.get("duration_us"):
            graph.seconds = float(record.data["duration_us"]) / 1e6
        if record.data.get("fail_type"):
            graph.failed = f"{record.data['fail_type']}: {record.data.get('fail_reason') or ''}"
