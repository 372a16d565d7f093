"""An explain.json as a run leaves it, without a run; as large as is wanted."""

from __future__ import annotations

from typing import Any

NASTY = "<script>alert('x')</script> & \"quotes\""


def a_break(**changes: Any) -> dict[str, Any]:
    return {
        "reason": "print()", "source": "train.py:16", "function": "toy", "count": 3, "counted": True,
        "advice": "Take the print out.", "in_loop": False, "runs_in_eager": False, "uncompiled_itself": False,
        "uncompiled": [], "raised": False, "compiles": 1, "pieces": [3], "torch_name": "Failed to trace builtin",
        "explanation": NASTY, "stack": ["train.py:40 in <module>", "train.py:16 in toy"],
        "lines": [[15, "    x = a + 1"], [16, f"    print({NASTY!r})"], [17, "    return x"]], **changes,
    }  # fmt: skip


def a_recompile(**changes: Any) -> dict[str, Any]:
    return {
        "cause": "scale == 0.5", "source": "train.py:27", "function": "grow", "count": 1, "values": ["0.5", "1.5"],
        "advice": "Pass scale as a tensor.", "limit_hit": False, "compile_ids": ["1/1"],
        "lines": [[27, "    return x * scale"]], **changes,
    }  # fmt: skip


def a_frame(name: str = "toy", **changes: Any) -> dict[str, Any]:
    return {
        "function": name, "source": "train.py:13", "graphs": 3, "ops": 6, "compiles": 1, "seconds": 0.4, "calls": 3,
        "outcome": "broken", "phases": {"dynamo": 0.1, "aot": 0.1, "inductor": 0.2},
        "stack": ["train.py:40 in <module>"], **changes,
    }  # fmt: skip


def a_graph(number: int = 0, **changes: Any) -> dict[str, Any]:
    return {
        "id": f"{number}/0", "process": "1", "function": f"toy_{number}", "source": f"train.py:{number}", "ops": 2,
        "guards": 9, "seconds": 0.1, "calls": 3, "cache": "miss", "breaks": True, "stack": [],
        "folder": f"graphs/{number:04d}", "files": ["graph.py", "output_code.py"], **changes,
    }  # fmt: skip


def explained(graphs: int = 3, **changes: Any) -> dict[str, Any]:
    leaf = {"name": "compile_file", "seconds": 0.2, "children": []}
    inner = {"name": "dynamo", "seconds": 0.3, "children": [leaf]}
    picture = {
        "name": "compile time",
        "seconds": 0.4,
        "children": [{"name": "toy", "seconds": 0.4, "children": [inner]}],
    }
    return {
        "schema": 1, "torchsleuth": "0.1.0", "torch": "2.13.0", "command": ["python", "train.py", NASTY],
        "exit_code": 0, "graph_count": graphs, "op_count": 2 * graphs, "break_count": 1, "breaks": [a_break()],
        "recompiles": [a_recompile()], "frames": [a_frame(), a_frame("grow", outcome="compiled")],
        "graphs": [a_graph(n) for n in range(graphs)], "phases": {"dynamo": 0.1, "aot": 0.1, "inductor": 0.2},
        "steps": {"Dynamo": 0.2, "kernel compile": 0.2}, "picture": picture, "processes": 1, "failures": [],
        "notes": ["the program ended with 1: this is what it did until then"], "report": "report.html", **changes,
    }  # fmt: skip
