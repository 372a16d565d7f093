"""Attaches hooks to places of torch as their modules are imported, and reports places that this torch lacks."""

from __future__ import annotations

import sys
from collections.abc import Callable

from torchsleuth.torch_api.hook_table import HOOKS, Hook, PlaceMissing, probe
from torchsleuth.watch import begin, missing_hooks


def when_imported(hook: Hook, install: Callable[[], object]) -> None:
    """Call `install` as soon as the hook's module is imported, or now if it is."""
    if not missing_hooks.has_module(hook.module):
        missing_hooks.report(str(PlaceMissing(hook, "no such module")))
    begin.on_import(hook.module, lambda _: now(install))


def now(install: Callable[[], object]) -> None:
    """Call `install`; a place that it does not find is reported."""
    try:
        install()
    except PlaceMissing as error:
        missing_hooks.report(str(error))


def report_missing_module(name: str) -> None:
    """Report each place of a module that this torch does not have."""
    for hook in HOOKS:
        if hook.module == name:
            missing_hooks.report(str(PlaceMissing(hook, "no such module")))


def report_all() -> None:
    """Report each place of the table that is missing from the modules that this process has imported."""
    for hook in HOOKS:
        why = probe(hook) if hook.module in sys.modules else ""
        if why:
            missing_hooks.report(why)
