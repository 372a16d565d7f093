"""Where watching begins in a process: a hello, and hooks on modules as they are imported.

Standard library alone until torch's compiler is imported: `import torch` must not pay for a program that never
compiles.
"""

from __future__ import annotations

import atexit
import functools
import importlib.abc
import importlib.machinery
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from torchsleuth.watch import guarded
from torchsleuth.watch.session import OPTIONS, Options, Outbox

Patch = Callable[[ModuleType], object]
_FIRST = "torch._dynamo.convert_frame"  # the module of the compiler whose import begins the watching


def watch_process(session: str) -> None:
    if not os.path.isdir(session):
        return  # it is over, and this process has outlived it; or it never was
    outbox = Outbox(Path(session), Options.load(os.environ.get(OPTIONS, "")))
    guarded.log_to(outbox.session / "trouble.log")
    outbox.hello()
    guarded.guarded(_watch_the_end)(outbox)
    if outbox.options.seed:
        guarded.guarded(_seed)()
    if outbox.options.eager:
        on_import("torch._dynamo", lambda _: _force_eager())
    for name, value in outbox.options.settings.items():
        module, _, entry = name.partition("config.")
        on_import(f"{module}config", functools.partial(_set, entry=entry, value=value))
    on_import(_FIRST, lambda _: _install(outbox))
    on_import("torch._dynamo", lambda _: _check_that_it_begins())
    atexit.register(guarded.guarded(_end), outbox)


def _check_that_it_begins() -> None:
    """Dynamo is there: without the module that is hooked first, nothing else would report that it is missing."""
    from torchsleuth.watch import attach, missing_hooks

    if not missing_hooks.has_module(_FIRST):
        attach.report_missing_module(_FIRST)


def _watch_the_end(outbox: Outbox) -> None:
    from torchsleuth.watch import uncaught

    uncaught.watch_the_end(outbox)


def _install(outbox: Outbox) -> None:
    if outbox.options.explain:
        from torchsleuth.watch import counting

        counting.install(outbox)
        return
    from torchsleuth.watch import hooks

    hooks.install(outbox)


def _seed() -> None:
    """Without one of the program's own, the default generator starts from another in each process."""
    import torch

    torch.default_generator.manual_seed(0)


def _force_eager() -> None:
    """From now on nothing is compiled.  Under TORCH_COMPILE_DISABLE=1 instead, fullgraph=True complains of that."""
    from torchsleuth.torch_api import attaching, hook_table

    attaching.read(hook_table.EAGER_STANCE)("force_eager")


def _set(config: Any, entry: str, value: bool | int) -> None:
    *holders, last = entry.split(".")
    for name in holders:
        config = getattr(config, name)
    setattr(config, last, value)


def _end(outbox: Outbox) -> None:
    outbox.event("end")
    if _FIRST in sys.modules:
        from torchsleuth.watch import attach

        attach.report_all()


class _Finder(importlib.abc.MetaPathFinder):
    """Lets the real finders find a module, and runs our patches after it was executed."""

    def __init__(self) -> None:
        self.patches: dict[str, list[Patch]] = {}

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name not in self.patches:
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            if finder is self or find is None:
                continue
            spec: importlib.machinery.ModuleSpec | None = find(name, path, target)
            if spec is not None and spec.loader is not None:
                guarded.guarded(self._patch_after)(spec, name)
                return spec
        return None

    def _patch_after(self, spec: importlib.machinery.ModuleSpec, name: str) -> None:
        """Not yet: who finds a module may only want to know whether there is one."""
        loader: Any = spec.loader
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            loader.exec_module = execute
            execute(module)
            for patch in self.patches.pop(name, []):
                guarded.guarded(patch)(module)

        loader.exec_module = exec_module


class _BeingImported(importlib.machinery.ModuleSpec):
    """The spec of a module in the middle of its import, which says when that ends: Python lowers this flag then."""

    @property
    def _initializing(self) -> bool:
        return bool(self.__dict__.get("_initializing"))

    @_initializing.setter
    def _initializing(self, value: bool) -> None:
        self.__dict__["_initializing"] = value
        if value:
            return
        patches: list[Patch] = self.__dict__.pop(_WAITING, [])
        self.__class__ = importlib.machinery.ModuleSpec  # type: ignore[assignment]
        module = sys.modules.get(self.name)
        if module is None:
            return  # it raised, and was taken out again
        for patch in patches:
            guarded.guarded(patch)(module)


_WAITING = "_torchsleuth_waits"
_finder = _Finder()


def on_import(name: str, patch: Patch) -> None:
    """Runs `patch` on module `name` as soon as it is imported, or now if it is."""
    module = sys.modules.get(name)
    spec = getattr(module, "__spec__", None)
    if type(spec) in (importlib.machinery.ModuleSpec, _BeingImported) and getattr(spec, "_initializing", False):
        # Whoever imports it first may import Dynamo on the way, and with it us: it is only half there.
        spec.__class__ = _BeingImported
        spec.__dict__.setdefault(_WAITING, []).append(patch)
        return
    if module is not None:
        guarded.guarded(patch)(module)
        return
    _finder.patches.setdefault(name, []).append(patch)
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
