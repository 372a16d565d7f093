"""Reads what the counter inside the program left: how often generated code ran, what recompilations met, and functions
that Dynamo refused before its trace begins.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

from torchsleuth.explain.break_text import BreakText, Place
from torchsleuth.explain.compiles import Compile
from torchsleuth.explain.outside import Keep
from torchsleuth.watch.session import processes

COUNTS = "counts"  # as watch.counting names it; that file is loaded only where torch is


_TEXTS = {"generated": "generated_python", "ir_pre_fusion": "ir_pre_fusion", "ir_post_fusion": "ir_post_fusion"}


def add_hits(compiles: list[Compile], session: Path, keep: Keep | None = None) -> None:
    by_key = {(c.process.partition(" ")[0], c.id, c.again): c for c in compiles}
    for process in processes(session):
        pid = str(process.hello.get("pid"))
        numbers = _numbers(process.folder / COUNTS)
        compiles += {(e["file"], e["line"]): _refused(pid, e) for e in process.of("generator")}.values()
        for event in process.events:
            compile = by_key.get((pid, str(event.get("compile_id")), int(event.get("again") or 0)))
            if compile is None:
                continue
            if event["event"] == "cell":
                hits = numbers[event["slot"]] if event["slot"] < len(numbers) else 0
                if event.get("line") is None:
                    compile.calls = (compile.calls or 0) + hits
                else:
                    compile.line_hits += hits
            elif event["event"] in _TEXTS and keep is not None:
                keep(compile, _TEXTS[event["event"]], str(event["text"]))
            elif event["event"] == "module":
                compile.module_class, compile.module_name = str(event["kind"]), str(event["variable"])
                compile.instance = int(event["number"])
            elif event["event"] == "values":
                compile.values = {str(k): str(v) for k, v in event["values"].items()}


def _refused(process: str, event: dict[str, Any]) -> Compile:
    """A generator function that was to be compiled: the trace has nothing of it."""
    place = Place(str(event["file"]), int(event["line"]), str(event["function"]))
    met = BreakText("Attempt to trace generator", "", "", (), (place,), in_loop=False, gave_up=True)
    return Compile(process, "", name=place.function, file=place.file, line=place.line, started=True, met=met)


def _numbers(path: Path) -> tuple[int, ...]:
    try:
        raw = path.read_bytes()
    except OSError:
        return ()
    return struct.unpack(f"<{len(raw) // 8}Q", raw[: len(raw) // 8 * 8])
