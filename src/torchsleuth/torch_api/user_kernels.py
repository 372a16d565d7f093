"""Triton kernels of the user's, which a graph holds by number: torch keeps them in a table beside it."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

import torch.fx

_WRAPPERS = ("triton_kernel_wrapper_mutation", "triton_kernel_wrapper_functional")


@dataclass(frozen=True)
class KernelCall:
    """What the numbers of one call stand for."""

    number: int
    name: str  # of the Python function
    constants: dict[str, Any]  # arguments that are no tensors
    choices: tuple[dict[str, Any], ...]  # of autotuning: the arguments of each configuration; empty without


def kernel_call(node: torch.fx.Node) -> KernelCall | None:
    """None where `node` calls something else."""
    if getattr(node.target, "__name__", "") not in _WRAPPERS or "kernel_idx" not in node.kwargs:
        return None
    table = _table()
    number = int(node.kwargs["kernel_idx"])  # type: ignore[arg-type]
    kernel = table.get_kernel(number)
    choices = [dict(c.kwargs) for c in getattr(kernel, "configs", ())]
    constants = dict(table.get_constant_args(node.kwargs["constant_args_idx"]))
    return KernelCall(number, _name(kernel), constants, tuple(choices))


def user_kernel(number: int) -> Any:
    return _table().get_kernel(number)


def _name(kernel: Any) -> str:
    while hasattr(kernel, "fn"):  # autotuning and heuristics wrap the kernel, which wraps the function
        kernel = kernel.fn
    return str(getattr(kernel, "__name__", "kernel"))


def _table() -> Any:
    return importlib.import_module("torch._higher_order_ops.triton_kernel_wrap").kernel_side_table
