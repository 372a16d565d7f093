"""python -m torchsleuth.watch.foreign SCRIPT: a script that torch's own tools wrote, run as if it were a program.

repro.py, minifier_launcher.py and fx_graph_runnable.py hold a graph, a description of its inputs, and a call of torch's
`run_repro`, which would minimise, bisect or ask for a command.  Here that call compiles the graph with the backend that
the script names and runs it, backward included where it was part of it; the watcher sees what a program would show.
"""

from __future__ import annotations

import contextlib
import re
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

_WRITTEN_BY_TORCH = re.compile(r"^\s*from torch\._dynamo\.repro\.(after_aot|after_dynamo|aoti) import run_repro", re.M)


def written_by_torch(text: str) -> str | None:
    """Which of torch's tools wrote a script; None for any other script."""
    found = _WRITTEN_BY_TORCH.search(text)
    return found.group(1) if found else None


def run_graph(
    mod: Any,
    load_args: Callable[[Any], None],
    *,
    save_dir: str | None = None,
    backend: str | None = None,
    autocast: bool = False,
    tracing_mode: str | None = None,
    **_: Any,
) -> None:
    """In the place of torch's `run_repro`, with its arguments."""
    import torch

    from torchsleuth import torch_api

    inputs = torch_api.read_repro_inputs(load_args, _where(save_dir))
    sizes = any(isinstance(value, int) for value in inputs)
    dynamic = True if sizes or tracing_mode == "symbolic" else None
    compiled: Any = torch.compile(mod, backend=backend or "inductor", dynamic=dynamic)
    device = next((v.device.type for v in inputs if isinstance(v, torch.Tensor)), "cpu")
    with contextlib.ExitStack() as stack:
        if autocast:
            stack.enter_context(torch.autocast(device))
        found = compiled(*inputs)
    outputs = [o for o in torch_api.flat(found) if isinstance(o, torch.Tensor) and o.requires_grad]
    if outputs:
        torch.autograd.backward(outputs, [torch.ones_like(o) for o in outputs])


def _where(save_dir: str | None) -> str | None:
    """The folder of the inputs' values, if it came along; else they are made."""
    return save_dir if save_dir is not None and Path(save_dir).is_dir() else None


def main() -> None:
    from torchsleuth import torch_api

    script = sys.argv[1]
    torch_api.replace_run_repro(run_graph)
    sys.argv = sys.argv[1:]
    sys.path[0] = str(Path(script).resolve().parent)
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main()
