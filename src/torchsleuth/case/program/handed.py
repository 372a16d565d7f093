"""Forms `backend` and `inner`: the graph built node by node and handed over as it is."""

from __future__ import annotations

from torchsleuth.case.program.render import Script
from torchsleuth.case.program.statements import CannotRender


def write_backend(script: Script) -> None:
    raise CannotRender("not yet")


def write_inner(script: Script) -> None:
    raise CannotRender("not yet")
