"""Run a repro as its reader will: in a fresh interpreter that has no torchsleuth.

    python runner.py SCRIPT FAILURE_PY RESULT PHASE [importable]

With `importable`, torchsleuth is not blocked: the scripts that the judge's workers run may end in its referee.

A file on its own, run by path: it uses the standard library and `failure.py`, loaded by path too.  What happened is
written to RESULT as JSON; a process that is killed leaves none.
"""

from __future__ import annotations

import importlib.util
import json
import os
import runpy
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

IMPORTABLE = "importable"
_BLOCKED = ("torchsleuth", "torchsleuth_autoload")


class _Blocker:
    """An import finder that refuses torchsleuth, wherever it is installed."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name.partition(".")[0] in _BLOCKED:
            raise ModuleNotFoundError(f"No module named {name!r} (blocked: a repro needs torch alone)", name=name)
        return None


def load_by_path(path: str) -> Any:
    spec = importlib.util.spec_from_file_location("_failure", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def force_eager() -> None:
    """TORCH_COMPILE_DISABLE=1 alone makes torch.compile(..., fullgraph=True) complain that nothing was compiled."""
    import torch

    torch.compiler.set_stance("force_eager")


def run(script: str, phase: str, failure: Any, importable: bool = False) -> dict[str, Any]:
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        return {"exit": status}
    except BaseException as error:
        return {"failure": (_of_worker(error, phase) if importable else None) or _of_reader(error, phase, failure)}
    return {"exit": 0}


def _of_reader(error: BaseException, phase: str, failure: Any) -> dict[str, Any]:
    of = failure.of_assertion if failure.is_comparison(error) else failure.of_exception
    found: dict[str, Any] = of(error, failure.Phase(phase)).to_json()
    return found


def _of_worker(error: BaseException, phase: str) -> dict[str, Any] | None:
    """Describe an exception as a judge's worker does, which knows the verdict of the referee.

    None in an interpreter that has no torchsleuth: no script that runs there can hold the referee.
    """
    try:
        child = importlib.import_module("torchsleuth.judge.child")
        phases = importlib.import_module("torchsleuth.case.failure")
    except ImportError:
        return None
    found: dict[str, Any] = child.failure_of(error, phases.Phase(phase)).to_json()
    return found


def main() -> None:
    script, failure_path, result, phase, *rest = sys.argv[1:]
    importable = IMPORTABLE in rest
    failure = load_by_path(failure_path)
    if not importable:
        sys.meta_path.insert(0, _Blocker())
    sys.path[0] = os.path.dirname(script)
    sys.argv = [script]
    if os.environ.get("TORCH_COMPILE_DISABLE") == "1":
        force_eager()
    found = run(script, phase, failure, importable)
    with open(result + ".part", "w", encoding="utf-8") as file:
        json.dump(found, file)
    os.replace(result + ".part", result)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1 if found.get("exit", 1) else 0)


if __name__ == "__main__":
    main()
