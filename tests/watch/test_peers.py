"""A rank that lost another one: its error is a consequence, and does not head what was found."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchsleuth.case.failure import Kind, Phase, of_text
from torchsleuth.watch.found import summarise
from torchsleuth.watch.peers import is_peer_loss
from torchsleuth.watch.session import Options, Outbox

LOST = "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]:3456"
OWN = "CppCompileError: C++ compile error"


def rank(session: Path) -> Outbox:
    box = Outbox(session, Options())
    box.hello()
    return box


def fails(box: Outbox, text: str) -> None:
    failure = of_text(text, Kind.RUNTIME_ERROR, Phase.RUN_FORWARD).to_json()
    box.event("failure", number=1, failure=failure, case=None)
    box.event("ended-by", number=1)
    box.event("end")


def raises(box: Outbox, error: str) -> None:
    box.event("ended-by", number=0, error=error)
    box.event("end")


def errors(session: Path) -> list[str]:
    return [found.failure.fingerprint.error for found in summarise(session, 1).found]


def test_the_rank_that_failed_is_told_and_not_the_one_that_lost_it(tmp_path: Path) -> None:
    zero, one = rank(tmp_path), rank(tmp_path)
    fails(zero, LOST)
    fails(one, OWN)
    assert errors(tmp_path) == ["CppCompileError"]


def test_a_rank_that_failed_outside_of_compiled_code_is_why(tmp_path: Path) -> None:
    zero, one, two = rank(tmp_path), rank(tmp_path), rank(tmp_path)
    raises(zero, LOST)
    fails(one, LOST)
    raises(two, "ValueError: mine")
    summary = summarise(tmp_path, 1)
    assert (summary.found, summary.uncaught) == ((), "ValueError: mine")


def test_where_nobody_else_failed_the_loss_is_all_that_is_known(tmp_path: Path) -> None:
    """The other one was killed; the launcher only says that some process ended."""
    zero, launcher = rank(tmp_path), rank(tmp_path)
    fails(zero, LOST)
    raises(launcher, "ChildFailedError: train.py FAILED")
    assert errors(tmp_path) == ["RuntimeError"]


def test_a_rank_that_crashed_comes_before_the_one_that_lost_it(tmp_path: Path) -> None:
    zero, one = rank(tmp_path), rank(tmp_path)
    fails(zero, LOST)
    one.stage("run-forward", 1)
    assert errors(tmp_path) == ["crash", "RuntimeError"]


def test_who_was_ended_for_a_rank_that_failed_by_itself_did_not_crash(tmp_path: Path) -> None:
    zero, one = rank(tmp_path), rank(tmp_path)
    fails(zero, OWN)
    one.stage("run-forward", 1)
    assert errors(tmp_path) == ["CppCompileError"]


@pytest.mark.parametrize(
    ("message", "lost"),
    [
        (LOST, True),
        ("DistBackendError: ncclRemoteError: A call failed possibly due to a network error or a remote process exiting",
         True),
        ("ConnectionResetError: [Errno 104] Connection reset by peer", True),
        ("torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ", True),
        ("ValueError: the peer group is empty", False),
        (OWN, False),
    ],
)  # fmt: skip
def test_messages(message: str, lost: bool) -> None:
    assert is_peer_loss(message) is lost
