"""Traces written by hand, as torch writes them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from torchsleuth.explain.explanation import Explanation
from torchsleuth.explain.gather import gather

_NUMBERS = {"/home/me/train.py": 1, "/lib/python3.11/site-packages/torch/_dynamo/external_utils.py": 2}
TORCHS_OWN = 2  # the number of a file of torch's own


def line(data: dict[str, Any], payload: str = "", process: str = "7") -> str:
    """One record; its payload has the digest that torch writes."""
    digest = {"has_payload": hashlib.md5(payload.encode()).hexdigest()} if payload else {}
    rank, _, pid = process.rpartition(" ")  # "[rank0]: 7"
    head = f"{rank}V1115 11:41:53.446000 {pid} torch/_dynamo/utils.py:2350] {json.dumps({**data, **digest})}\n"
    return head + "".join(f"\t{each}\n" for each in payload.split("\n") if payload)


def at(compile_id: str, **data: Any) -> dict[str, Any]:
    frame, _, number = compile_id.partition("/")
    return {**data, "frame_id": int(frame), "frame_compile_id": int(number), "attempt": 0}


def beginning(process: str = "7") -> str:
    """What torch writes first, and the names of files."""
    version = line({"artifact": {"name": "torch_version"}}, '{"pytorch_version": "2.13.0"}', process)
    return version + "".join(line({"str": [file, number]}, process=process) for file, number in _NUMBERS.items())


def started(compile_id: str, name: str = "toy", first: int = 9, process: str = "7", file: int = 1) -> str:
    stack = [{"line": 40, "name": "<module>", "filename": 1}, {"line": first, "name": name, "filename": file}]
    return line(at(compile_id, dynamo_start={"stack": stack}), process=process)


def graph(compile_id: str, *calls: str, process: str = "7") -> str:
    body = "".join(f'\n        v{n}: "f32[3]" = {call}' for n, call in enumerate(calls))
    return line(at(compile_id, dynamo_output_graph={}), f"class GraphModule:\n    def forward(self, x):{body}", process)


def ended(compile_id: str, *, ops: int = 1, failed: str = "", process: str = "7") -> str:
    kind, _, reason = failed.partition(": ")
    metrics = {
        "has_guarded_code": not failed, "graph_op_count": ops, "duration_us": 10**6, "is_forward": True,
        "fail_type": kind or None, "fail_reason": reason or None,
    }  # fmt: skip
    return line(at(compile_id, compilation_metrics=metrics), process=process)


def artifact(compile_id: str, name: str, payload: str, process: str = "7") -> str:
    return line(at(compile_id, artifact={"name": name}), payload, process)


def whole(compile_id: str, name: str = "toy", *calls: str, first: int = 9, process: str = "7") -> str:
    """A compilation that succeeded."""
    calls = calls or ("torch.relu(x)",)
    return (
        started(compile_id, name, first, process)
        + graph(compile_id, *calls, process=process)
        + ended(compile_id, ops=len(calls), process=process)
    )


def explained(folder: Path, *parts: str) -> Explanation:
    path = folder / "trace.log"
    path.write_text("".join(parts), encoding="utf-8")
    return gather([path])
