"""Imports of a script that is made smaller."""

from __future__ import annotations

import ast

import pytest

from torchsleuth.reduce.source.imports import fewer_names
from torchsleuth.reduce.source.shrink import Shrinker


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("import torch, torch.nn as nn\ntorch.ones(1)", ["import torch\ntorch.ones(1)"]),
        ("import os\nimport os, torch\nos, torch", ["import os\nimport torch\nos, torch"]),
        ("from torch import nn, optim\nnn", ["from torch import nn\nnn"]),
        ("import a, b, c\nb", ["import b\nb", "import b, c\nb", "import a, b\nb"]),
        ("import a\nfrom b import *\nimport c, d\nc, d", []),
    ],
)
def test_names_that_nothing_reads_go(text: str, left: list[str]) -> None:
    assert [ast.unparse(tree) for tree in fewer_names(ast.parse(text))] == [ast.unparse(ast.parse(one)) for one in left]


def test_what_an_import_does_may_be_needed() -> None:
    def judge(texts: object) -> list[bool]:
        assert isinstance(texts, list)
        return ["patches" in text and "bug" in text for text in texts]

    text = Shrinker("import torch, patches, idle\nx = torch.ones(1)\nx.bug()\n", judge).shrink()
    assert "patches" in text
    assert "idle" not in text
