"""What one interpreter can do, found out inside it: `python probe.py TORCH_API_FOLDER`.

A file on its own, run by path: the interpreter need not have torchsleuth.  The last line it prints is a JSON object;
each question that fails is answered with the reason, so that one trouble does not hide the others.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from importlib import metadata
from typing import Any


def entry_points() -> list[dict[str, str]]:
    """Those named torchsleuth that torch will call at import, and whether they load."""
    found = []
    for point in metadata.entry_points(group="torch.backends"):
        if point.name == "torchsleuth":
            trouble = said(point.load)[1]
            version = point.dist.version if point.dist else ""
            found.append({"value": point.value, "version": version, "trouble": trouble})
    return found


def torch_facts() -> dict[str, Any]:
    import torch

    cuda = torch.cuda.is_available()
    return {
        "version": torch.__version__,
        "built_for": f"CUDA {torch.version.cuda}" if torch.version.cuda else "CPU",
        "device": torch.cuda.get_device_name(0) if cuda else "",
    }


def hooks(torch_api: str) -> list[dict[str, Any]]:
    """Each row of the table of hooks, and why this torch does not have the place, if it does not."""
    table = load(torch_api, "hook_table")
    return [
        {"name": row.name, "does": row.does, "required": row.required, "missing": table.probe(row)}
        for row in table.HOOKS
    ]


def cpp_compiler(torch_api: str) -> str:
    return str(load(torch_api, "toolchain").cpp_compiler())


def load(folder: str, name: str) -> Any:
    """A module of torch_api by its path."""
    spec = importlib.util.spec_from_file_location(f"_torch_api_{name}", os.path.join(folder, f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def headers() -> str:
    """The folder of Python.h, which Inductor's C++ code includes."""
    folder = sysconfig.get_path("include")
    with open(os.path.join(folder, "Python.h"), encoding="utf-8", errors="replace"):
        return folder


def temporary_folder() -> dict[str, Any]:
    folder = tempfile.gettempdir()
    with tempfile.TemporaryFile(dir=folder) as file:
        file.write(b"x" * 4096)
    flags = os.statvfs(folder).f_flag
    return {"path": folder, "free": shutil.disk_usage(folder).free, "no_exec": bool(flags & os.ST_NOEXEC)}


def fork() -> bool:
    child = os.fork()
    if child == 0:
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


def said(question: Callable[[], Any]) -> tuple[Any, str]:
    """The answer, or why there is none."""
    try:
        return question(), ""
    except BaseException as error:
        return None, f"{type(error).__name__}: {error}".strip().splitlines()[0]


def main() -> None:
    torch_api = sys.argv[1]
    sys.path.pop(0)  # this file's folder: its neighbours are no modules of anybody's
    questions: dict[str, Callable[[], Any]] = {
        "fork": fork,  # before torch: it starts threads
        "entry_points": entry_points,
        "temporary": temporary_folder,
        "headers": headers,
        "torch": torch_facts,
        "hooks": lambda: hooks(torch_api),
        "compiler": lambda: cpp_compiler(torch_api),
    }
    facts = {}
    for name, question in questions.items():
        answer, trouble = said(question)
        facts[name] = {"answer": answer, "trouble": trouble}
    print("\n" + json.dumps(facts), flush=True)
    os._exit(0)  # what torch does at exit is none of our questions


if __name__ == "__main__":
    main()
