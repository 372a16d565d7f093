"""Whether torch.compile compiled anything, and what kept it from doing so."""

from __future__ import annotations

import contextlib
import importlib
import logging
from collections.abc import Iterator, Mapping
from typing import Any

import torch


class CompileWatch(logging.Handler):
    """Counts the graphs that Dynamo hands to a backend, and keeps errors after which it goes on in eager."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.suppressed: list[str] = []
        self.graphs = 0
        self.frames = 0
        self.breaks: list[str] = []

    def add(self, other: CompileWatch) -> None:
        """Take over what another watch saw."""
        self.suppressed += other.suppressed
        self.breaks += other.breaks
        self.graphs += other.graphs
        self.frames += other.frames

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            lines = str(getattr(error, "inner_exception", None) or error).strip().splitlines()
            self.suppressed.append(f"{type(error).__name__}: {lines[0] if lines else ''}"[:300])


@contextlib.contextmanager
def watching_compilation() -> Iterator[CompileWatch]:
    """What is compiled inside; the numbers are there when it is left."""
    counters = importlib.import_module("torch._dynamo.utils").counters
    logger = logging.getLogger("torch._dynamo.convert_frame")
    watch = CompileWatch()
    graphs, frames = counters["stats"]["unique_graphs"], counters["frames"]["total"]
    breaks = dict(counters["graph_break"])
    logger.addHandler(watch)
    try:
        yield watch
    finally:
        logger.removeHandler(watch)
        watch.graphs = max(0, counters["stats"]["unique_graphs"] - graphs)
        watch.frames = max(0, counters["frames"]["total"] - frames)
        watch.breaks = [text for text, count in counters["graph_break"].items() if count > breaks.get(text, 0)]


def user_compiled(model: Any) -> bool:
    """Whether it is what torch.compile returned, and not what torch.compiler.disable did."""
    wraps = hasattr(model, "_torchdynamo_orig_callable") or hasattr(model, "_orig_mod")
    return wraps and not getattr(model, "_torchdynamo_disable", False)


def why_compilation_is_off(model: Any, options: Mapping[str, Any]) -> str:
    """The setting or mark that keeps torch.compile from compiling `model`; empty where there is none."""
    if options.get("disable"):
        return "disable=True is among the options of torch.compile"
    dynamo = importlib.import_module("torch._dynamo.config")
    stance = getattr(importlib.import_module("torch._dynamo.eval_frame"), "_stance", None)
    if getattr(dynamo, "disable", False):
        return "torch._dynamo.config.disable is set (TORCH_COMPILE_DISABLE=1)"
    if getattr(stance, "stance", "default") == "force_eager":
        return 'torch.compiler.set_stance("force_eager") is in force'
    functions = [model, getattr(type(model), "forward", None), getattr(model, "forward", None)]
    if any(getattr(function, "_torchdynamo_disable", False) for function in functions):
        return "the function is marked with torch.compiler.disable"
    return ""


@contextlib.contextmanager
def compiling_nothing() -> Iterator[None]:
    """What is compiled inside the program runs in eager, too."""
    with torch.compiler.set_stance("force_eager"):
        yield
