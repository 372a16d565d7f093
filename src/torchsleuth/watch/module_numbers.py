"""Numbers for the modules of a program, by class, in the order in which they are first compiled."""

from __future__ import annotations

import os
import sys
import weakref
from types import MethodType
from typing import Any


class Modules:
    def __init__(self) -> None:
        self._known: dict[str, list[weakref.ref[Any]]] = {}

    def of(self, frame: Any) -> tuple[str, str, int] | None:
        """The local variable, the class and the number of the module that a frame is a function of; None: of none.

        torch calls modules of its own classes through a function of its own, which holds them as `fn`.
        """
        code, held = getattr(frame, "f_code", None), getattr(frame, "f_locals", {})
        own = code is not None and code.co_filename.startswith(_torch_folder())
        name = "fn" if own and "fn" in held else "self"
        value = held.get(name)
        module = value.__self__ if type(value) is MethodType else value
        if not isinstance(module, sys.modules["torch"].nn.Module):
            return None
        kind = f"{type(module).__module__}.{type(module).__qualname__}"
        return name, kind, self._number(kind, module)

    def _number(self, kind: str, module: Any) -> int:
        known = self._known.setdefault(kind, [])
        for number, each in enumerate(known, start=1):
            if each() is module:
                return number
        known.append(weakref.ref(module))
        return len(known)


def _torch_folder() -> str:
    return os.path.join(os.path.dirname(str(sys.modules["torch"].__file__)), "")
