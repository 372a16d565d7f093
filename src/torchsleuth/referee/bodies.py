"""Modes that see the operators inside cond, while_loop, flex_attention and their kind, too."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from torchsleuth import torch_api

# Higher-order operators that call graphs with what they are given.  Those of the second kind call them inside vmap,
# where operators of numbers and tensors do not reach a mode; they compute in the precision of what they are given.
_WITH_BODIES = frozenset(
    "cond while_loop while_loop_stack_output scan map_impl associative_scan invoke_subgraph flex_attention "
    "flex_attention_backward".split()
)
_OUT_OF_REACH = frozenset({"flex_attention", "flex_attention_backward"})


class SeesBodies(torch_api.dispatch_mode()):  # type: ignore[misc]
    supports_higher_order_operators = True  # torch asks: without it, none of them runs under a mode

    def run_with_bodies(self, operator: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """What a higher-order operator gives, run on its values and under this mode; else NotImplemented.

        A kernel of the user's is none of these: it writes to what it is given.
        """
        run = torch_api.on_real_values(operator) if operator.name() in _WITH_BODIES else None
        if run is None:
            return NotImplemented
        seen = args if operator.name() in _OUT_OF_REACH else mapped(args, self._under_this)
        return run(*seen, **kwargs)  # not under this mode as a whole: most of them refuse

    def _under_this(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor) or not callable(value):
            return value

        def body(*given: Any) -> Any:
            with self:
                return value(*given)

        return body


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, (list, tuple)):
        made = [mapped(v, change) for v in value]
        return type(value)(made) if type(value) in (list, tuple) else tuple(made)
    return change(value)
