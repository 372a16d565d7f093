"""Operators seen one by one as they run, below autograd: what the two checks have in common.

Alone it changes nothing: it is the mode that `sleuth_aot_dispatch_modes` has when it is given none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from torchsleuth import torch_api

# Higher-order operators whose bodies are plain functions among their arguments.  Others (vmap inside, kernels of
# Triton) run unseen: a mode cannot be entered within them.
_WITH_BODIES = frozenset({"cond", "while_loop", "map_impl", "scan", "invoke_subgraph"})
# These call the operator that they are given, which is what is to be seen.
_WRAPPERS = frozenset({"auto_functionalized", "auto_functionalized_v2", "with_effects"})


class OperatorMode(torch_api.dispatch_mode()):  # type: ignore[misc]
    """Calls `checked` for each operator that has a kernel of its own and plain tensors as arguments."""

    supports_higher_order_operators = True

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        given = dict(kwargs or {})
        if torch_api.is_higher_order(func):
            return self._higher_order(func, args, given)
        with self:
            # In inference mode, operators that are composed of others arrive whole; what they are made of is checked.
            parts = torch_api.decomposed(func, args, given)
        if parts is not NotImplemented:
            return parts
        if not all(_is_plain(value) for value in torch_api.flat((args, given))):
            return func(*args, **given)
        return self.checked(func, args, given)

    def checked(self, operator: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        return operator(*args, **kwargs)

    def _higher_order(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        name = func.name()
        if name in _WRAPPERS:
            with self:
                return torch_api.run_without_modes(func, args, kwargs)
        if name in _WITH_BODIES:
            args = [self._seen(value) if callable(value) else value for value in args]
        return func(*args, **kwargs)

    def _seen(self, body: Callable[..., Any]) -> Callable[..., Any]:
        def run(*operands: Any) -> Any:
            with self:
                return body(*operands)

        torch_api.copy_call_marks(body, run)
        return run


def _is_plain(value: Any) -> bool:
    if not isinstance(value, torch.Tensor):
        return True
    return type(value) in (torch.Tensor, torch.nn.Parameter) and value.layout is torch.strided
