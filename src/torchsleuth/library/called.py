"""What `torchsleuth.explain(fn)(*args)` gives: plain facts that print well and show well in a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torchsleuth.write.explained import text


@dataclass(frozen=True)
class CallExplanation:
    graph_count: int
    break_count: int  # distinct ones
    op_count: int
    break_reasons: tuple[dict[str, Any], ...]  # reason, source, function, count, advice, ...
    ops_per_graph: tuple[tuple[str, ...], ...]
    guards: tuple[str, ...]
    compile_times: dict[str, float]  # seconds by step
    recompiles: tuple[dict[str, Any], ...]
    value: Any = field(repr=False, compare=False)  # what the function returned
    json: dict[str, Any] = field(repr=False, compare=False)

    @staticmethod
    def of(data: dict[str, Any], out: Path, ops: Sequence[Sequence[str]], value: Any) -> CallExplanation:
        return CallExplanation(
            data["graph_count"],
            data["break_count"],
            data["op_count"],
            tuple(data["breaks"]),
            tuple(map(tuple, ops)),
            tuple(_guards(data, out)),
            dict(data["steps"]),
            tuple(data["recompiles"]),
            value,
            data,
        )

    def __str__(self) -> str:
        return "\n".join(text(self.json))

    def _repr_html_(self) -> str:
        from torchsleuth.write.page_explain import explain_fragment

        return explain_fragment(self.json)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))


def _guards(data: dict[str, Any], out: Path) -> list[str]:
    found = []
    for graph in data["graphs"]:
        path = out / str(graph["folder"]) / "guards.txt"
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        found += [line.split("+- ", 1)[1].strip() for line in lines if "+- " in line and "GuardManager" not in line]
    return found
