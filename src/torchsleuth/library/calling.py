"""`torchsleuth.explain(fn)(*args)`, and `explain_with(backend)` for torch.compile: in this process, for notebooks.

The same trace, the same reading of it as for a program; only the trace is caught by a handler of ours.
"""

from __future__ import annotations

import functools
import json
import logging
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from torchsleuth import __version__, torch_api
from torchsleuth.explain.as_json import to_json
from torchsleuth.explain.gather import gather
from torchsleuth.library.called import CallExplanation
from torchsleuth.watch import counting, guarded, missing_hooks
from torchsleuth.watch.session import Options, Outbox


def explain(fn: Callable[..., Any], *, backend: Any = "inductor", **options: Any) -> Callable[..., CallExplanation]:
    """What torch.compile makes of `fn`: `torchsleuth.explain(fn)(*args)` calls it and gives a CallExplanation.

    `backend` and `options` are those of torch.compile.  What was compiled before in this process is forgotten first, as
    torch._dynamo.explain does, so that all of it is seen.
    """
    original = getattr(fn, "_torchdynamo_orig_callable", None) or getattr(fn, "_orig_mod", None) or fn

    @functools.wraps(getattr(original, "forward", original), updated=())
    def call(*args: Any, **kwargs: Any) -> CallExplanation:
        torch_api.forget_compilation()
        with explain_with(backend) as explaining:
            value = torch.compile(original, backend=explaining, **options)(*args, **kwargs)
            return explaining.explanation(value)

    return call


class explain_with:  # noqa: N801 - used as a function
    """A backend that does what `backend` does, and remembers what torch.compile did.

        backend = torchsleuth.explain_with("inductor")
        compiled = torch.compile(model, backend=backend)
        compiled(x)
        backend.explanation()          # graphs, breaks, recompilations so far
        backend.close()                # or use it in a `with`

    From its making on until it is closed, all that this process compiles is in the explanation.
    """

    def __init__(self, backend: Any = "inductor") -> None:
        self.backend = backend
        self._compile = torch_api.backend_named(backend)
        self.__name__ = getattr(self._compile, "__name__", "explained")
        self._ops: list[list[str]] = []
        self._folder = tempfile.TemporaryDirectory(prefix="torchsleuth-")
        session = Path(self._folder.name) / "session"
        session.mkdir()
        guarded.log_to(session / "trouble.log")
        outbox = Outbox(session, Options(explain=True))
        outbox.hello()
        self._trace = _start_trace(Path(self._folder.name) / "trace.log")
        self._end_counting = counting.install(outbox)
        self._open = True

    def __call__(self, graph: torch.fx.GraphModule, inputs: list[Any], **kwargs: Any) -> Callable[..., Any]:
        self._ops.append([_name(node) for node in graph.graph.nodes if node.op.startswith("call")])
        compiled: Callable[..., Any] = self._compile(graph, inputs, **kwargs)
        return compiled

    def explanation(self, value: Any = None) -> CallExplanation:
        """What was compiled so far; `value` is kept in it."""
        folder = Path(self._folder.name)
        out = Path(tempfile.mkdtemp(dir=folder))
        trouble = folder / "session" / "trouble.log"
        text = trouble.read_text(encoding="utf-8", errors="replace") if trouble.exists() else ""
        found = gather([folder / "trace.log"], folder / "session", out, missing_hooks.messages(text))
        data = to_json(found, version=__version__, command=(), exit_code=None)
        return CallExplanation.of(data, out, [list(names) for names in self._ops], value)

    def close(self) -> None:
        if self._open:
            self._open = False
            self._end_counting()
            torch_api.no_more_trace(self._trace)
            self._trace.close()

    def __enter__(self) -> explain_with:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _start_trace(path: Path) -> logging.FileHandler:
    # Names of files that the trace wrote out before we listened, in the form it does.
    prefix = f"V0101 00:00:00.000000 {os.getpid()} torchsleuth:0] "
    known = torch_api.interned_trace_strings().items()
    lines = (f"{prefix}{json.dumps({'str': [text, number]})}\n" for text, number in known)
    version = json.dumps({"artifact": {"name": "torch_version", "encoding": "json"}})  # as torch begins a trace
    payload = json.dumps({"pytorch_version": torch.__version__})
    path.write_text("".join([f"{prefix}{version}\n\t{payload}\n", *lines]), encoding="utf-8")
    handler = logging.FileHandler(path, encoding="utf-8")
    handler.setFormatter(torch_api.trace_formatter())
    torch_api.on_trace(handler)
    return handler


def _name(node: torch.fx.Node) -> str:
    return str(node.target) if isinstance(node.target, str) else getattr(node.target, "__name__", str(node.target))
