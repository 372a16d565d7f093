"""The faulty backend under a name, for programs that choose their backend by a string.

    torch.compile(f, backend="sleuth_faulty", options={"op": "tanh", "kind": "accuracy"})

The options are the arguments of `faulty`; without any it is a compile error at relu.  The entry point group
`torch_dynamo_backends` makes the name known wherever torchsleuth is installed; `register` does it by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from torchsleuth import torch_api
from torchsleuth.backends.faulty import Faulty, faulty

NAME = "sleuth_faulty"
_made: dict[Faulty, Faulty] = {}


def sleuth_faulty(
    gm: torch.fx.GraphModule, inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None, **_: Any
) -> Callable[..., Any]:
    return with_options(options or {})(gm, inputs)


def with_options(options: Mapping[str, Any]) -> Faulty:
    """One backend for all graphs compiled with these options: it knows whether it planted its fault in any of them."""
    made = faulty(**options)
    return _made.setdefault(made, made)


def register() -> None:
    torch_api.register_backend(NAME, sleuth_faulty)
