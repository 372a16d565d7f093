"""Dynamo's limit of how often one function is compiled: beyond it the function runs in eager, and nobody is told."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator


class LimitReached(Exception):
    """Something would have run in eager from now on."""


@contextlib.contextmanager
def told_of_the_limit() -> Iterator[None]:
    """Raises LimitReached where torch would go on in eager; not where the program has errors suppressed."""
    config = importlib.import_module("torch._dynamo.config")
    if config.suppress_errors:  # the two exclude each other
        yield
        return
    with config.patch(fail_on_recompile_limit_hit=True):
        try:
            yield
        except importlib.import_module("torch._dynamo.exc").FailOnRecompileLimitHit as error:
            raise LimitReached from error


@contextlib.contextmanager
def limit_raised(times: int) -> Iterator[None]:
    """A function may be compiled `times` as often as the program allows."""
    config = importlib.import_module("torch._dynamo.config")
    limits = {name: getattr(config, name) * times for name in ("recompile_limit", "accumulated_recompile_limit")}
    with config.patch(**limits):
        yield
