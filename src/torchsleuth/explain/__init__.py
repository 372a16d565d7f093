"""What torch.compile made of a program that works: graphs, breaks, recompilations, guards, compile time.

The facts come from torch's own structured trace (`records`, `compiles`), from a trace folder made earlier or from a run
that we started, and there also from a counter inside the program (`hits`).  Each question has a file: `breaks`,
`recompiles`, `times`; `explanation` is the whole.

`torchsleuth.explain(fn)` is the public function, and this room has the same name.  Whoever imports a file of the room
binds that name to it, so the room can be called, and does what the function does.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any


class _Room(ModuleType):
    def __call__(self, fn: Callable[..., Any], **options: Any) -> Callable[..., Any]:
        calling = importlib.import_module("torchsleuth.library.calling")
        explained: Callable[..., Any] = calling.explain(fn, **options)
        return explained


sys.modules[__name__].__class__ = _Room
