"""Modules that put functions of their own into the compiler are found, and those that only use it are not."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

import pytest

from torchsleuth.watch import patched


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = ModuleType("torch._inductor.of_a_test")
    module.table = {OpOverload(): _torchs_own()}  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module


class OpOverload:
    """Stands for torch's class of that name."""


def _torchs_own():
    def own() -> None: ...

    own.__module__ = "torch._inductor.lowering"
    return own


@pytest.fixture
def user(tmp_path, monkeypatch: pytest.MonkeyPatch):
    def make(source: str) -> ModuleType:
        patched._code.cache_clear()
        (tmp_path / "patches_of_mine.py").write_text(source)
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, "patches_of_mine", raising=False)
        return importlib.import_module("patches_of_mine")

    return make


SOURCE = "import torch\nimport math\n\n\ndef wrong(x):\n    return x\n"


def test_nothing_is_found_where_nobody_patches(compiler) -> None:
    assert patched.modules_that_patch() == ()


def test_an_entry_of_a_registry(compiler, user) -> None:
    compiler.table[OpOverload()] = user(SOURCE).wrong
    assert patched.modules_that_patch() == ("patches_of_mine",)


def test_a_function_that_was_replaced(compiler, user) -> None:
    compiler.lower = user(SOURCE).wrong
    assert patched.modules_that_patch() == ("patches_of_mine",)


def test_a_method_that_was_replaced(compiler, user) -> None:
    compiler.Overrides = type("Overrides", (), {"__module__": "torch._inductor.of_a_test"})
    compiler.Overrides.tanh = staticmethod(user(SOURCE).wrong)
    assert patched.modules_that_patch() == ("patches_of_mine",)


def test_a_pattern_of_the_users(compiler, user) -> None:
    entry = type("Entry", (), {})()
    entry.handler = user(SOURCE).wrong
    passes = type("PatternMatcherPass", (), {})()
    passes.patterns = {("call_function", None): [entry]}
    compiler.passes = [passes]
    assert patched.modules_that_patch() == ("patches_of_mine",)


def test_a_class_of_another_package_is_no_patch(compiler) -> None:
    compiler.click = importlib.import_module("click").Group
    assert patched.modules_that_patch() == ()


def test_what_a_library_adds_to_modules_is_no_patch(compiler, user) -> None:
    compiler.Module = type("Module", (), {"__module__": "torch.nn.modules.module", "smart_apply": user(SOURCE).wrong})
    compiler.seen = {"by name": user(SOURCE).wrong}
    assert patched.modules_that_patch() == ()


def test_a_module_that_stands_alone_is_carried_whole_and_another_is_imported(compiler, user) -> None:
    compiler.lower = user(SOURCE).wrong
    [code] = patched.code_that_patches()
    assert code.stands_alone
    assert code.source.startswith("import math")  # torch every script imports
    compiler.lower = user(SOURCE + "import click\n").wrong
    [code] = patched.code_that_patches()
    assert (code.source, code.imports, code.stands_alone) == ("", ("patches_of_mine",), False)


def test_what_a_source_imports() -> None:
    assert patched.imported_by("import a.b\nfrom c.d import e\nfrom . import f") == {"a", "c", "."}
