"""Whether two runs of a program ended in the same way."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from torchsleuth.case.failure import Failure, Fingerprint, Kind, Phase, normalise, of_hang, wrong_numbers
from torchsleuth.investigate.program_end import ProgramEnd, match, repeated
from torchsleuth.judge.match import Match
from torchsleuth.watch.found import Summary
from torchsleuth.watch.uncaught import Uncaught

NOT_CLOSE = Uncaught(Fingerprint("AssertionError", "Tensor-likes are not close!"), "AssertionError: ...", ("p.py:9",))
IN_USE = Uncaught(Fingerprint("OSError", "Address already in use"), "OSError: ...", ("p.py:2",))
BARE = Uncaught(Fingerprint("AssertionError"), "AssertionError: ", ("p.py:9",))


def ended(error: Uncaught | None = None, status: int | None = 1, **more: object) -> ProgramEnd:
    return replace(ProgramEnd(status, error), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("first", "rerun", "found"),
    [
        (ended(NOT_CLOSE), ended(status=0), Match.PASSED),
        (ended(NOT_CLOSE), ended(status=None), Match.UNKNOWN),
        (ended(NOT_CLOSE), ended(NOT_CLOSE), Match.SAME),
        (ended(NOT_CLOSE), ended(IN_USE), Match.OTHER),
        (ended(NOT_CLOSE), ended(), Match.OTHER),  # sys.exit(1) has no exception that is reported
        (ended(), ended(IN_USE), Match.OTHER),
        (ended(NOT_CLOSE), ended(replace(NOT_CLOSE, places=("p.py:8",))), Match.OTHER),  # another assertion
        (ended(NOT_CLOSE), ended(replace(NOT_CLOSE, places=("p.py:9", "p.py:4"))), Match.SAME),  # eager goes deeper
        (ended(BARE), ended(BARE), Match.SAME),
        (ended(BARE), ended(replace(BARE, places=("p.py:3",))), Match.OTHER),
        (ended(status=-11), ended(status=-11), Match.SAME),
        (ended(status=-11), ended(status=-6), Match.OTHER),
        (ended(status=-15), ended(status=-15), Match.UNKNOWN),  # somebody sent it
        (ended(status=2, last_line="a"), ended(status=2, last_line="a"), Match.SAME),
        (ended(status=2, last_line="a"), ended(status=2, last_line="b"), Match.OTHER),
        (ended(status=2, last_line="a"), ended(status=3, last_line="a"), Match.OTHER),
        (ended(status=2), ended(status=2, last_line="a"), Match.UNKNOWN),
        (ended(status=0), ended(NOT_CLOSE), Match.OTHER),
    ],
)
def test_ends(first: ProgramEnd, rerun: ProgramEnd, found: Match) -> None:
    assert match(first, rerun) is found


NO_KERNEL = Failure(Kind.COMPILE_ERROR, Phase.COMPILE_FORWARD, Fingerprint("ValueError", "no kernel"))


def test_a_failure_that_the_program_caught_is_the_same_whatever_the_status() -> None:
    assert match(ended(NOT_CLOSE), ended(status=0, failures=(NO_KERNEL,)), NO_KERNEL) is Match.SAME
    assert match(ended(NOT_CLOSE), ended(status=0, failures=(of_hang(Phase.RUN_FORWARD),)), NO_KERNEL) is Match.PASSED
    hangs = of_hang(Phase.RUN_FORWARD)
    assert match(ended(), ended(status=None, failures=(hangs,)), of_hang(Phase.COMPILE_FORWARD)) is Match.SAME


def test_an_error_that_the_compiler_quotes_is_the_same() -> None:
    """Dynamo reports what the user's code raises on fake tensors inside an error of its own."""
    message = normalise("The size of tensor a (5) must match the size of tensor b (7)")
    quoting = replace(
        NO_KERNEL,
        fingerprint=Fingerprint("torch._dynamo.exc.TorchRuntimeError", "Dynamo failed to run FX node"),
        text="TorchRuntimeError: Dynamo failed\ngot RuntimeError('The size of tensor a (3) must match the size of "
        "tensor b (4)')",
    )
    eager = Uncaught(Fingerprint("RuntimeError", message), "RuntimeError: ...", ("p.py:3",))
    assert match(ended(), ended(eager), quoting) is Match.SAME
    assert match(ended(), ended(IN_USE), quoting) is Match.OTHER
    short = replace(eager, fingerprint=Fingerprint("RuntimeError", "tensor"))
    assert match(ended(), ended(short), quoting) is Match.OTHER


def test_wrong_numbers_have_no_exception_of_their_own() -> None:
    wrong = wrong_numbers("values", Phase.RUN_FORWARD, "", "out is wrong")
    assert match(ended(NOT_CLOSE), ended(NOT_CLOSE), wrong) is Match.SAME
    assert match(ended(NOT_CLOSE), ended(IN_USE), wrong) is Match.OTHER


@pytest.mark.parametrize(
    ("before", "after", "found"), [(2, 2, Match.SAME), (2, 0, Match.UNKNOWN), (0, 0, Match.UNKNOWN)]
)
def test_an_unchanged_rerun_with_the_same_status_has_to_get_as_far(before: int, after: int, found: Match) -> None:
    assert repeated(ended(graphs=before), ended(graphs=after, last_line="x")) is found


def test_the_last_line_is_compared_without_what_varies(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    log.write_text("a warning\nthe results differ by 0.25 at 0x7ffd12\n\n")
    end = ProgramEnd.of(Summary(1, 1, (), exit_code=1), log)
    assert end.last_line == "the results differ by 0.25 at 0x7ffd12"
    assert match(end, replace(end, last_line="the results differ by 1e-3 at 0xffff10")) is Match.SAME
    assert match(end, replace(end, last_line="the folder exists already")) is Match.OTHER
    assert ProgramEnd.of(Summary(1, 1, (), exit_code=1)).last_line is None


@pytest.mark.parametrize(
    ("text", "difference"),
    [
        ("AssertionError: x\n\nGreatest absolute difference: 2.5e-3 at index (0,)", 2.5e-3),
        ("AssertionError: x\n\nAbsolute difference: 128.0 (up to 1e-08 allowed)", 128.0),
        ("AssertionError: x", None),
        ("AssertionError: Greatest absolute difference: unknown", None),
    ],
)
def test_how_far_apart_an_assertion_says_that_values_are(text: str, difference: float | None) -> None:
    assert ended(replace(NOT_CLOSE, text=text)).difference == difference


@pytest.mark.parametrize(
    ("end", "text"),
    [
        (ended(status=None), "did not end in time"),
        (ended(status=-11), "was ended by SIGSEGV"),
        (ended(replace(IN_USE, text="OSError: in use\nmore")), "ended with 1 (OSError: in use)"),
        (ended(replace(BARE, text="AssertionError: ")), "ended with 1 (AssertionError)"),
        (ended(status=2, last_line="usage"), "ended with 2 (usage)"),
        (ended(status=0, last_line="done"), "ended with 0"),
    ],
)
def test_an_end_in_words(end: ProgramEnd, text: str) -> None:
    assert end.text == text
