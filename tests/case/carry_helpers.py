"""Carried source, run where nothing else of the program is."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable
from types import ModuleType
from typing import Any

from torchsleuth.case.carry import Carried

Write = Callable[..., ModuleType]


def revive(carried: Carried) -> Any:
    space: dict[str, Any] = {"__name__": "__main__"}
    exec(carried.source, space)
    return eval(carried.name, space)


def alone(carried: Carried) -> Any:
    assert carried.stands_alone, carried.why_not
    assert carried.why_not == ""
    return revive(carried)


def in_fresh_process(carried: Carried, then: str) -> str:
    command = [sys.executable, "-I", "-c", f"{carried.source}\nimport torch\n{textwrap.dedent(then)}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
