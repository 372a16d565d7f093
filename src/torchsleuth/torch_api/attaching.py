"""Takes hold of a place of HOOKS: replaces, sets or reads it.  Raises PlaceMissing where this torch lacks it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from torchsleuth.torch_api.hook_table import Hook, find

_attached: dict[str, Hook] = {}


def attached() -> tuple[Hook, ...]:
    """Rows that this process took hold of, in the order of their first use."""
    return tuple(_attached.values())


def read(hook: Hook) -> Any:
    """The value at the place."""
    holder, name = find(hook)
    _attached[hook.place] = hook
    return getattr(holder, name)


def put(hook: Hook, value: Any) -> Callable[[], None]:
    """Set the place to `value`; gives a function that restores it."""
    holder, name = find(hook)
    _attached[hook.place] = hook
    # As it stands in the class: getattr would unwrap a static method.
    original = vars(holder).get(name, getattr(holder, name))
    setattr(holder, name, value)
    return functools.partial(setattr, holder, name, original)


def replace(hook: Hook, wrap: Callable[[Any], Any]) -> Callable[[], None]:
    """Replace the function at the place by `wrap(function)`; gives a function that restores it."""
    holder, name = find(hook)
    return put(hook, wrap(getattr(holder, name)))
