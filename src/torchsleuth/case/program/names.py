"""Names that a person would choose, for what Dynamo calls l_self_modules_layers_modules_0_parameters_weight_."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterable

from torchsleuth.case.reached import reached

_TAKEN = {
    *keyword.kwlist,
    *dir(builtins),
    "torch",
    "operator",
    "math",
    "os",
    "data",
    "model",
    "Model",
    "f",
    "self",
    "out",
    "run",
    "ends",
    "check",
    "compiled",
    "g",
    "_operator",
}


def short_name(source: str, fallback: str) -> str:
    """From Dynamo's source expression: L['self']._modules['fc']._parameters['weight'] is fc_weight."""
    if not source:
        return fallback
    text = re.sub(r"^self\.", "", reached(source))
    text = re.sub(r"\W+", "_", text).strip("_")
    if not text or text[0].isdigit() or len(text) > 60:
        return fallback
    return text


class Names:
    """Hands out names, each once."""

    def __init__(self, reserved: Iterable[str] = ()) -> None:
        self._used = {*_TAKEN, *reserved}

    def fresh(self, wish: str) -> str:
        name, i = wish, 1
        while name in self._used:
            i += 1
            name = f"{wish}_{i}"
        self._used.add(name)
        return name
