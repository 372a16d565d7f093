"""How a run that found nothing is judged: what was watched, and whether the program fails without the compiler."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from torchsleuth.case.failure import Failure, Fingerprint, Kind, Phase
from torchsleuth.commands.run import Seen
from torchsleuth.commands.verdict import verdict_of, why
from torchsleuth.investigate.investigation import _why_no_graph
from torchsleuth.judge.match import Match
from torchsleuth.watch.found import Found, Summary
from torchsleuth.watch.launcher import Ended
from torchsleuth.watch.session import Process
from torchsleuth.watch.uncaught import Uncaught
from torchsleuth.write.result import RunVerdict

OWN = Uncaught(Fingerprint("ValueError", "no"), "ValueError: no", ("p.py:3",))
INDUCTORS = Uncaught(
    Fingerprint("torch._inductor.exc.CppCompileError", "C++ compile error"),
    "InductorError: CppCompileError: C++ compile error\nmore",
    ("p.py:3",),
    "_inductor/cpp_builder.py",
)


def seen(exit_code: int, *, graphs: int, error: Uncaught | None = None, in_eager: Match = Match.UNKNOWN) -> Seen:
    summary = Summary(1, graphs, (), exit_code=exit_code, error=error, uncaught=error.text if error else "")
    return Seen(summary, Ended(exit_code, 1.0), in_eager=in_eager)


@pytest.mark.parametrize(
    ("given", "verdict"),
    [
        (seen(0, graphs=1), RunVerdict.OK),
        (seen(0, graphs=0), RunVerdict.NOT_WATCHED),
        (seen(1, graphs=1, error=OWN), RunVerdict.PROGRAM_ERROR),
        (seen(1, graphs=0, error=OWN, in_eager=Match.SAME), RunVerdict.PROGRAM_ERROR),
        (seen(1, graphs=0, error=OWN), RunVerdict.NOT_WATCHED),
        (seen(1, graphs=0, error=OWN, in_eager=Match.OTHER), RunVerdict.NOT_WATCHED),
        (seen(1, graphs=0, error=INDUCTORS, in_eager=Match.INVALID), RunVerdict.NOT_WATCHED),
        (seen(1, graphs=2, error=INDUCTORS, in_eager=Match.INVALID), RunVerdict.NOT_WATCHED),
    ],
)
def test_where_nothing_was_found(given: Seen, verdict: RunVerdict) -> None:
    assert verdict_of(given, ()) is verdict


@pytest.mark.parametrize("graphs", [0, 2])
def test_an_error_of_the_compiler_that_was_not_watched_is_said_to_be_one(graphs: int) -> None:
    given = seen(1, graphs=graphs, error=INDUCTORS, in_eager=Match.INVALID)
    (note,) = why(verdict_of(given, ()), given, ())
    assert "nothing that torchsleuth can watch (AOTInductor, torch.export)" in note
    assert "InductorError: CppCompileError" in note
    assert "not seen to be why" not in note


def test_a_program_that_failed_before_it_compiled_anything_is_told_its_exit_code() -> None:
    given = seen(3, graphs=0, error=OWN)
    (note,) = why(verdict_of(given, ()), given, ())
    assert "the program ended with 3" in note
    assert "no torch.compile was reached" in note


def raised(error: Exception) -> Uncaught:
    try:
        raise error
    except Exception as caught:
        return Uncaught.of(caught)


def test_an_error_of_the_programs_own_is_not_the_compilers() -> None:
    error = raised(ValueError("no"))
    assert not error.from_compiler
    assert error.places[-1].startswith(f"{__file__}:")
    assert error.raised_in == ""
    assert Uncaught.from_json(error.to_json()) == error


def test_an_error_is_the_compilers_by_its_class_or_by_where_it_was_raised() -> None:
    assert INDUCTORS.from_compiler
    assert replace(OWN, raised_in="_dynamo/guards.py").from_compiler
    assert not replace(OWN, raised_in="testing/_comparison.py").from_compiler


def test_what_the_program_raises_below_torch_compile_is_its_own() -> None:
    """The innermost frame of torch's is Dynamo's there; the innermost of all is the program's."""
    import torch

    def f(x: object) -> object:
        raise KeyError("mine")

    with pytest.raises(KeyError) as caught:
        torch.compiler.disable(f)(1)
    assert not Uncaught.of(caught.value).from_compiler


FAILURE = Failure(Kind.ACCURACY, Phase.RUN_FORWARD, Fingerprint("accuracy", "values"))


@pytest.mark.parametrize(("inside", "said"), [("CUDA graphs", "several runs of CUDA graphs"), ("", "were compared")])
def test_of_graphs_only_what_was_compared_is_said(tmp_path: Path, inside: str, said: str) -> None:
    found = Found(FAILURE, None, Process(tmp_path, {}), component="inductor", inside=inside)
    text = _why_no_graph(found)
    assert said in text
    assert "right" not in text.split()
