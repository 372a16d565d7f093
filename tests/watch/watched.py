"""Programs that are watched in this process."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from torchsleuth.case import folder
from torchsleuth.case.model import Case
from torchsleuth.watch import hooks
from torchsleuth.watch.found import Found, summarise
from torchsleuth.watch.ledger import Ledger
from torchsleuth.watch.session import Options, Outbox

Program = Callable[[], Any]


class Watch:
    """Runs programs watched, each in a session of its own; an error is theirs and goes no further."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._number = 0

    def __call__(self, program: Program, **options: Any) -> tuple[Found, ...]:
        return summarise(self.session_of(program, **options), None).found

    def session_of(self, program: Program, **options: Any) -> Path:
        torch._dynamo.reset()
        self._number += 1
        outbox = Outbox(self._root / str(self._number), Options(hang_after=0, **options))
        outbox.hello()
        observer = hooks.install(outbox)
        previous = observer.report_to(Ledger(outbox))
        try:
            with contextlib.suppress(Exception):
                program()
        finally:
            observer.report_to(previous)
        return outbox.session

    def one(self, program: Program, **options: Any) -> tuple[Found, Case]:
        """The only failure, and its Case."""
        [found] = self(program, **options)
        assert found.case is not None
        return found, folder.load(found.case, ours=True)
