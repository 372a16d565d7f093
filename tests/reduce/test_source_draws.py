"""A line that makes compiled code draw as eager does, in a program's text."""

from __future__ import annotations

import ast

import pytest

from torchsleuth.reduce.source import draws

SETTING = "torch._inductor.config.fallback_random = True"


@pytest.mark.parametrize(
    ("text", "front"),
    [
        ("import torch\nx = 1\n", 0),
        ('"""Says something."""\n# and more\n\nfrom __future__ import annotations\nimport torch\n', 4),
        ("# a page\x0cand another\nimport torch\n", 1),
        ("# a comment\n\n@decorated\ndef f():\n    pass\n", 2),
    ],
)
def test_the_line_stands_where_it_may(text: str, front: int) -> None:
    judged = draws.judged(text)
    compile(judged, "program.py", "exec")
    lines = judged.split("\n")
    assert "fallback_random = True" in lines[front]
    assert [*lines[:front], *lines[front + 1 :]] == text.split("\n")


def test_what_is_judged_binds_no_name() -> None:
    nodes = list(ast.walk(ast.parse(draws.judged("x = 1\n"))))
    assert [n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)] == ["x"]
    assert not any(isinstance(n, (ast.Import, ast.ImportFrom)) for n in nodes)


def test_it_is_written_only_where_something_draws() -> None:
    plain = "import torch\nx = torch.randn(2)\n"
    assert draws.written(plain) == plain
    drawing = "import torch\nf = torch.nn.Dropout()\n"
    assert draws.written(drawing).splitlines()[:2] == ["import torch._inductor.config", SETTING]
    assert draws.written(draws.written(drawing)) == draws.written(drawing)


def test_an_empty_program_stays_one() -> None:
    assert draws.judged("") == ""
