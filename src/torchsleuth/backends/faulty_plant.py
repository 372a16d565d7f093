"""What a planted fault does when the compiled graph runs.

The fault is a call put behind the node: its users read the call's result, so no compiler may drop it.  Faults that end
the run are one custom operator, which Inductor calls as it calls any operator that it has no kernel for.
"""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import torch

ABSURD_BYTES = 1 << 62
FACTOR = 1.1


@torch.library.custom_op("torchsleuth_faulty::hurt", mutates_args=())
def hurt(x: torch.Tensor, kind: str, op: str) -> torch.Tensor:
    """Never returns: fails in the way that `kind` says."""
    if kind == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if kind == "out-of-memory":
        torch.empty(ABSURD_BYTES, dtype=torch.uint8, device=x.device)
    while kind in ("hang", "crash"):  # a signal may take a moment to arrive
        time.sleep(0.05)
    raise RuntimeError(run_time_message(op))


@hurt.register_fake
def _(x: torch.Tensor, kind: str, op: str) -> torch.Tensor:
    return torch.empty_like(x)


def run_time_message(op: str) -> str:
    return f"faulty backend: {op!r} fails at run time"


def plant(node: torch.fx.Node, kind: str, op: str) -> bool:
    """Put a fault of `kind` behind `node`; False where neither it nor what is taken from it is a tensor."""
    place = next((n for n in (node, *node.users) if isinstance(_value(n), torch.Tensor)), None)
    if place is None:
        return False
    if kind == "accuracy":
        target, *rest = _wrong(_value(place).dtype)
    else:
        target, *rest = torch.ops.torchsleuth_faulty.hurt.default, kind, op
    with place.graph.inserting_after(place):
        fault = place.graph.call_function(target, (place, *rest))
    fault.meta = dict(place.meta)
    place.replace_all_uses_with(fault, delete_user_cb=lambda user: user is not fault)
    owner = place.graph.owning_module
    if owner is not None:
        owner.recompile()
    return True


def _value(node: torch.fx.Node) -> Any:
    return node.meta.get("val", node.meta.get("example_value"))


def _wrong(dtype: torch.dtype) -> tuple[Any, ...]:
    """An operator, with its further argument, that changes any number of this type but a floating zero."""
    if dtype.is_floating_point or dtype.is_complex:
        return (torch.ops.aten.mul.Tensor, FACTOR)
    return (torch.ops.aten.bitwise_xor.Scalar, True)
