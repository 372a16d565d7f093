"""Programs that end in their own way, made to end by an assertion."""

from __future__ import annotations

import textwrap

import pytest

from torchsleuth.reduce.source.asserting import asserting


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("raise ValueError('differs', 3)", "raise AssertionError('differs', 3)"),
        ("raise Mismatch", "raise AssertionError"),
        ("raise SystemExit(error > 1e-06)", "assert not error > 1e-06"),
        ("raise SystemExit('no')", "raise AssertionError('no')"),
        ("raise SystemExit(f'{x} differs')", "raise AssertionError(f'{x} differs')"),
        ("sys.exit(1)", "raise AssertionError"),
        ("sys.exit(main())", "assert not main()"),
        ("exit('no')", "raise AssertionError('no')"),
        ("sys.exit(0)", "sys.exit(0)"),
        ("sys.exit()", "sys.exit()"),
        ("raise SystemExit", "raise SystemExit"),
        ("raise", "raise"),
        ("x = sys.exit", "x = sys.exit"),
    ],
)
def test_how_a_program_ends(before: str, after: str) -> None:
    whole = "def f():\n    if bad:\n{}\n"
    assert asserting(whole.format(textwrap.indent(before, " " * 8))) == whole.format(textwrap.indent(after, " " * 8))


def test_a_program_without_such_an_end_stays_as_it_is() -> None:
    text = "import torch  # a comment\nassert torch.equal(a, b)\n"
    assert asserting(text) == text
