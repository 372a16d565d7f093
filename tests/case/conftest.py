"""What tests of carried source share."""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from carry_helpers import Write

_numbers = itertools.count()


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Write modules and import the last one; names are taken back afterwards."""
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)

    def write(source: str, **others: str) -> ModuleType:
        for name, text in others.items():
            path = tmp_path / (name.replace("__", "/", 1) + ".py")
            path.parent.mkdir(exist_ok=True)
            path.write_text(textwrap.dedent(text))
        name = f"mine{next(_numbers)}"
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(source))
        importlib.invalidate_caches()
        return importlib.import_module(name)

    yield write
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) and str(tmp_path) in str(sys.modules[name].__file__):
            del sys.modules[name]
