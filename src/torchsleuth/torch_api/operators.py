"""Operators as modes see them: below autograd, one by one."""

from __future__ import annotations

import importlib
from typing import Any

import torch


def dispatch_mode() -> Any:
    """The class of modes that see every operator below autograd."""
    return importlib.import_module("torch.utils._python_dispatch").TorchDispatchMode


def written_arguments(operator: Any) -> tuple[int, ...]:
    """Places of the arguments that an operator writes, by its schema."""
    arguments = operator._schema.arguments
    return tuple(i for i, a in enumerate(arguments) if a.alias_info is not None and a.alias_info.is_write)


def modes_off() -> Any:
    """A context in which operators reach no mode."""
    return importlib.import_module("torch.utils._python_dispatch")._disable_current_modes()


def reads_bits(operator: Any) -> bool:
    """Whether it takes the bits of a float for something else."""
    return operator is torch.ops.aten.view.dtype


def casts(operator: Any) -> bool:
    return operator is torch.ops.aten._to_copy.default


def on_real_values(operator: Any) -> Any:
    """What a higher-order operator does with tensors that hold values; None where it says nothing about that."""
    keys = importlib.import_module("torch._C").DispatchKey
    return operator.py_kernels.get(keys.CompositeExplicitAutograd)
