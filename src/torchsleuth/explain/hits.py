"""Reads what the counter inside the program left: how often generated code ran, and what recompilations met."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path

from torchsleuth.explain.compiles import Compile, Keep
from torchsleuth.watch.session import processes

COUNTS = "counts"  # as watch.counting names it; that file is loaded only where torch is


_TEXTS = {"generated": "generated_python", "ir_pre_fusion": "ir_pre_fusion", "ir_post_fusion": "ir_post_fusion"}


def add_hits(compiles: Iterable[Compile], session: Path, keep: Keep | None = None) -> None:
    by_key = {(c.process.partition(" ")[0], c.id, c.again): c for c in compiles}
    for process in processes(session):
        pid = str(process.hello.get("pid"))
        numbers = _numbers(process.folder / COUNTS)
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
            elif event["event"] == "values":
                compile.values = {str(k): str(v) for k, v in event["values"].items()}


def _numbers(path: Path) -> tuple[int, ...]:
    try:
        raw = path.read_bytes()
    except OSError:
        return ()
    return struct.unpack(f"<{len(raw) // 8}Q", raw[: len(raw) // 8 * 8])
