"""What a watched process and the tool tell each other in files, and what is left of it when a process dies."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from torchsleuth.case.failure import Kind, Phase, of_hang, of_signal
from torchsleuth.watch import stages
from torchsleuth.watch.found import summarise
from torchsleuth.watch.session import Options, Outbox, processes

SRC = Path(__file__).resolve().parents[2] / "src"


@pytest.fixture
def outbox(tmp_path: Path) -> Outbox:
    box = Outbox(tmp_path, Options())
    box.hello()
    return box


def told(
    outbox: Outbox, phase: Phase = Phase.RUN_FORWARD, number: int = 1, name: str = "failure", **more: object
) -> None:
    failure = of_signal(number, phase).to_json()
    outbox.event(name, number=number, failure=failure, case=None, **more)


def test_options_go_there_and_back() -> None:
    options = Options(keep_going=True, data_cap=7, hang_after=1.5, most_cases=2, dump_first=True)
    assert Options.load(options.dump()) == options
    assert Options.load("") == Options()


def test_an_option_of_another_version_is_ignored() -> None:
    assert Options.load('{"keep_going": true, "colour": "blue"}') == Options(keep_going=True)


def test_events_come_back_in_order(outbox: Outbox) -> None:
    for number in range(3):
        outbox.event("graph", number=number, text="ünï\ncode \udcff"[:8])
    outbox.event("end")
    [process] = processes(outbox.session)
    assert [e["number"] for e in process.of("graph")] == [0, 1, 2]
    assert process.of("graph")[0]["text"] == "ünï\ncode"
    assert process.ended
    assert process.hello["pid"] == os.getpid()


def test_what_json_cannot_hold_is_told_as_text(outbox: Outbox) -> None:
    outbox.event("graph", path=Path("/x"), weird={1: object})
    [process] = processes(outbox.session)
    assert process.of("graph")[0]["path"] == "/x"


def test_a_broken_last_line_costs_that_line_alone(outbox: Outbox) -> None:
    outbox.event("graph", number=1)
    outbox.event("graph", number=2)
    path = outbox.folder / "events.jsonl"
    path.write_bytes(path.read_bytes()[:-9])
    [process] = processes(outbox.session)
    assert [e["number"] for e in process.of("graph")] == [1]
    assert not process.ended


@pytest.mark.parametrize(
    "garbage", [b"\xff\xfe\n", b"[1, 2]\n", b"3\n", b'{"no": "event"}\n', b"\0" * 50 + b"\n", b"\n\n"]
)
def test_a_line_that_is_no_event_is_skipped(outbox: Outbox, garbage: bytes) -> None:
    (outbox.folder / "events.jsonl").write_bytes(garbage)
    outbox.event("end")
    [process] = processes(outbox.session)
    assert process.ended
    assert len(process.events) == 1


def test_events_of_many_threads_do_not_mix(outbox: Outbox) -> None:
    def tell(which: int) -> None:
        for number in range(50):
            outbox.event("graph", which=which, number=number, filling="x" * 500)

    threads = [threading.Thread(target=tell, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    [process] = processes(outbox.session)
    assert len(process.of("graph")) == 200


def test_a_process_whose_hello_is_broken_is_none(outbox: Outbox) -> None:
    (outbox.folder / "hello.json").write_text('{"pid"')
    assert list(processes(outbox.session)) == []
    assert summarise(outbox.session, 0).processes == 0


def test_a_session_that_never_was_is_empty(tmp_path: Path) -> None:
    assert list(processes(tmp_path / "nowhere")) == []
    assert summarise(tmp_path / "nowhere", 0).found == ()


def test_folders_that_the_program_added_are_told_when_a_graph_is(
    outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = [f"{sys.base_prefix}/lib/python3.99", "/somewhere/lib/python3.99/site-packages"]
    theirs = ["/data/lib/python-models", "/site-packages-of-mine"]
    monkeypatch.setattr(sys, "path", ["", *own])
    outbox.hello()
    monkeypatch.setattr(sys, "path", ["", *own, *theirs])
    [process] = processes(outbox.session)
    assert process.path == [os.getcwd()]
    outbox.event("graph", number=1)
    outbox.event("graph", number=2)
    [process] = processes(outbox.session)
    assert process.path == [os.getcwd(), *theirs]
    assert len(process.of("path")) == 1


def killed_in_a_stage(session: Path, phase: Phase, end: str) -> int:
    """A process that enters a stage and dies there by its own hand; its exit code."""
    code = f"""
import os, signal
from pathlib import Path
from torchsleuth.watch.session import Outbox, Options
box = Outbox(Path({str(session)!r}), Options())
box.hello()
box.stage("run-backward", 3)
box.stage({phase.value!r}, 4)
{end}
"""
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(SRC)}, check=False)
    return done.returncode


def test_the_stage_survives_kill_9(tmp_path: Path) -> None:
    code = killed_in_a_stage(tmp_path, Phase.COMPILE_BACKWARD, "os.kill(os.getpid(), signal.SIGKILL)")
    [process] = processes(tmp_path)
    assert code == -signal.SIGKILL
    assert [(s.phase, s.graph) for s in process.stages] == [("compile-backward", 4)]
    assert process.gone
    assert not process.ended


def test_a_death_in_a_stage_is_a_crash_by_its_signal(tmp_path: Path) -> None:
    code = killed_in_a_stage(tmp_path, Phase.RUN_FORWARD, "os.kill(os.getpid(), signal.SIGSEGV)")
    for seen in (code, 128 + signal.SIGSEGV):  # a shell says it its own way
        [found] = summarise(tmp_path, seen).found
        assert (found.failure.kind, found.failure.phase) == (Kind.CRASH, Phase.RUN_FORWARD)
        assert found.failure.fingerprint.error == "SIGSEGV"
        assert found.ended_program
        assert found.case is None


def test_a_launcher_that_hides_the_signal_leaves_a_crash_without_a_name(tmp_path: Path) -> None:
    killed_in_a_stage(tmp_path, Phase.RUN_FORWARD, "os._exit(3)")
    [found] = summarise(tmp_path, 1).found
    assert found.failure.fingerprint.error == "crash"


def test_who_was_ended_for_what_another_did_did_not_crash(tmp_path: Path) -> None:
    """One rank raises; torchrun ends the other with a signal, and itself with 1."""
    killed_in_a_stage(tmp_path, Phase.RUN_FORWARD, "os.kill(os.getpid(), signal.SIGTERM)")
    assert [f.failure.fingerprint.error for f in summarise(tmp_path, 1).found] == ["crash"]
    failed = Outbox(tmp_path, Options())
    failed.hello()
    failed.event("ended-by", number=0, error="ValueError: mine")
    failed.event("end")
    assert summarise(tmp_path, 1).found == ()
    assert [f.failure.fingerprint.error for f in summarise(tmp_path, -signal.SIGSEGV).found] == ["SIGSEGV"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_program_that_somebody_ended_did_not_crash(tmp_path: Path, number: int) -> None:
    killed_in_a_stage(tmp_path, Phase.COMPILE_FORWARD, "os._exit(0)")
    assert summarise(tmp_path, -number).found == ()
    assert summarise(tmp_path, 128 + number).found == ()


def test_a_process_that_left_contentedly_did_not_crash(tmp_path: Path) -> None:
    killed_in_a_stage(tmp_path, Phase.RUN_FORWARD, "os._exit(0)")
    assert summarise(tmp_path, 0).found == ()
    assert summarise(tmp_path, None).found == ()


def test_a_process_between_stages_did_not_crash_in_one(outbox: Outbox) -> None:
    outbox.stage("run-forward", 1)
    outbox.stage("", 0)
    assert summarise(outbox.session, -signal.SIGSEGV).found == ()


def test_failures_that_are_alike_are_one(outbox: Outbox) -> None:
    other = Outbox(outbox.session, Options())
    other.hello()
    told(outbox, number=11)
    told(other, number=11)
    told(other, number=6)
    assert [f.failure.fingerprint.error for f in summarise(outbox.session, 1).found] == ["SIGSEGV", "SIGABRT"]


def test_what_ended_the_program_comes_first_then_what_was_raised(outbox: Outbox) -> None:
    outbox.event("suspect", number=1, failure=of_hang(Phase.RUN_FORWARD).to_json(), case=None)
    told(outbox, number=8, swallowed=True)
    told(outbox, number=11)
    told(outbox, number=6)
    outbox.event("ended-by", number=6)
    found = summarise(outbox.session, 1).found
    assert [f.failure.fingerprint.error for f in found] == ["SIGABRT", "SIGSEGV", "SIGFPE", "hang"]
    assert [f.ended_program for f in found] == [True, False, False, False]
    assert found[2].swallowed
    assert found[3].suspect


def test_the_second_rank_says_which_one_ended_the_job(outbox: Outbox) -> None:
    other = Outbox(outbox.session, Options())
    other.hello()
    told(outbox, number=8)
    told(outbox, number=11)
    told(other, number=11)
    other.event("ended-by", number=11)
    assert summarise(outbox.session, 1).found[0].failure.fingerprint.error == "SIGSEGV"


def test_an_error_that_is_nobodys_failure_is_told(outbox: Outbox) -> None:
    outbox.event("ended-by", number=0, error="AssertionError: no")
    summary = summarise(outbox.session, 1)
    assert (summary.uncaught, summary.found) == ("AssertionError: no", ())


def test_our_own_trouble_is_told(outbox: Outbox) -> None:
    (outbox.session / "trouble.log").write_bytes(b"[1] sketch:\n\xff")
    assert summarise(outbox.session, 0).trouble.startswith("[1] sketch:")


def test_hello_is_one_json_object(outbox: Outbox) -> None:
    data = json.loads((outbox.folder / "hello.json").read_text())
    assert {"pid", "parent", "argv", "executable", "python", "path", "cwd", "rank", "torch"} <= data.keys()


def test_threads_that_begin_at_once_share_one_board(outbox: Outbox, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[stages.Board] = []

    def slowly(path: Path) -> stages.Board:
        made.append(board(path))
        time.sleep(0.05)
        return made[-1]

    board = stages.Board
    monkeypatch.setattr(stages, "Board", slowly)
    start = threading.Barrier(4)

    def begin(number: int) -> None:
        start.wait()
        outbox.stage("run-forward", number)
        start.wait()  # nobody leaves before all have begun

    threads = [threading.Thread(target=begin, args=(number,)) for number in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    [process] = processes(outbox.session)
    assert len(made) == 1
    assert {stage.graph for stage in process.stages} == {1, 2, 3, 4}
