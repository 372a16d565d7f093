"""The one place where our own errors are swallowed: inside a user's program."""

from __future__ import annotations

import functools
import os
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_log: Path | None = None


def log_to(path: Path) -> None:
    global _log
    _log = path


def complain(what: str) -> None:
    if _log is None:
        return
    try:
        with _log.open("a", encoding="utf-8") as file:
            file.write(f"[{os.getpid()}] {what}\n")
    except OSError:
        return  # a full disk must not reach the program


def guarded(function: Callable[P, T]) -> Callable[P, T | None]:
    """`function`, which gives None instead of raising; the traceback goes to the session's log."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T | None:
        try:
            return function(*args, **kwargs)
        except Exception:
            complain(f"{getattr(function, '__qualname__', function)}:\n{traceback.format_exc()}")
            return None

    return call
