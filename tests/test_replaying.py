"""The recorder and the replayer, with toy engines: what is answered once is answered again, in another place."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from replaying import golden, record
from replaying.places import Places
from replaying.recorder import RecordingEngines
from replaying.replayer import NotOnRecord, ReplayEngines
from torchsleuth.case.failure import Failure, Fingerprint, Kind, Phase
from torchsleuth.judge.launch import Launch
from torchsleuth.judge.outcome import Outcome, Verdict
from torchsleuth.judge.trial import Trial
from torchsleuth.watch.launcher import Ended
from torchsleuth.watch.session import OPTIONS, VARIABLE, Options, processes

FAILS = Outcome(Verdict.FAILED, Failure(Kind.CRASH, Phase.RUN_FORWARD, Fingerprint("SIGSEGV")), "SIGSEGV", 1.5)
PASSES = Outcome(Verdict.PASSED, seconds=0.5)


@dataclass
class ToyJudge:
    """Fails where a script says so; `flaky` ones by turns."""

    jobs: int = 1
    judged: int = 0

    def judge(self, trial: Trial) -> Outcome:
        self.judged += 1
        trial.script.write_text(trial.source)
        if "record" in trial.source:
            (trial.folder / "record").write_text(f"from {trial.folder}/program.py")
        if "flaky" in trial.source:
            return FAILS if self.judged % 2 else PASSES
        return FAILS if "fails" in trial.source else PASSES


@dataclass
class Toy:
    """Engines whose program leaves a session, and whose reruns end at once."""

    judge: ToyJudge = field(default_factory=ToyJudge)

    def open_judge(self, *_: Any, **__: Any) -> Any:
        return self.judge

    def fresh(self, script: Path, *_: Any, **__: Any) -> Outcome:
        return FAILS if "fails" in script.read_text() else PASSES

    def watch(self, command: Any, session: Path, options: Options, **__: Any) -> Ended:
        process = session / "processes" / "12-34"
        process.mkdir(parents=True)
        hello = {"pid": 12, "executable": sys.executable, "life": {"pid": 12}, "cwd": os.getcwd()}
        (process / "hello.json").write_text(json.dumps(hello))
        (process / "events.jsonl").write_text(json.dumps({"event": "failure", "case": str(process / "cases/1")}) + "\n")
        (session / "cache").mkdir()
        (session / "cache" / "large.so").write_text("compiled")
        return Ended(1, 2.5)

    def start(self, launch: Launch) -> Any:
        Path(launch.output).write_text(f"said in {launch.folder}")
        return self

    def wait(self, seconds: float | None = None) -> bool:
        return True

    def stop(self) -> None: ...

    def write_data(self, python: str, environment: Any, home: Path, target: Path, tensors: Any) -> str:
        target.write_bytes(b"1234567")
        return ""

    def versions(self, *_: Any) -> str:
        return "2.13.0 3.11.7"


class Both:
    """The same calls, first recorded and then replayed, each below a folder of its own."""

    def __init__(self, tmp_path: Path) -> None:
        self.tmp_path = tmp_path
        self.first = RecordingEngines(Toy(), Places.recorded_on(self.root("first")))  # type: ignore[arg-type]

    def root(self, name: str) -> Path:
        root = self.tmp_path / name
        for folder in ("work", "cache", "tmp"):
            (root / folder).mkdir(parents=True, exist_ok=True)
        return root

    def again(self) -> ReplayEngines:
        record.write(self.tmp_path / record.NAME, self.first.answers)
        answers = record.read(self.tmp_path / record.NAME)
        return ReplayEngines(answers, Places.replayed_in(self.root("second")))


@pytest.fixture
def both(tmp_path: Path) -> Both:
    return Both(tmp_path.resolve())


def judge(engines: Any, folder: Path, source: str, *, name: str = "trial-1") -> Outcome:
    place = folder / "tmp" / name
    place.mkdir(parents=True)
    opened = engines.open_judge({"cpu"}, python=sys.executable, environment={"PYTHONPATH": "x"}, scratch=folder)
    outcome: Outcome = opened.judge_all([Trial(source.format(folder=place), place)])[0]
    return outcome


def test_a_judgement_is_answered_again(both: Both) -> None:
    assert judge(both.first, both.root("first"), "fails") == FAILS
    assert judge(both.again(), both.root("second"), "fails", name="another-folder") == FAILS


def test_a_script_that_names_its_folder_is_the_same_elsewhere_and_what_it_leaves_comes_with_it(both: Both) -> None:
    judge(both.first, both.root("first"), "record in {folder}")
    judge(both.again(), both.root("second"), "record in {folder}", name="other")
    place = both.root("second") / "tmp" / "other"
    assert (place / "record").read_text() == f"from {place}/program.py"


def test_a_candidate_that_is_not_on_record_is_named(both: Both) -> None:
    judge(both.first, both.root("first"), "fails")
    with pytest.raises(NotOnRecord, match=r"not on record, asked: judge on cpu with {}, run-forward:\n\nanother"):
        judge(both.again(), both.root("second"), "another")


def test_what_failed_now_and_then_is_answered_in_the_recorded_order_and_not_more_often(both: Both) -> None:
    seen = [judge(both.first, both.root("first"), "flaky", name=str(n)) for n in range(3)]
    engines = both.again()
    assert [judge(engines, both.root("second"), "flaky", name=str(n)) for n in range(3)] == seen
    with pytest.raises(NotOnRecord, match=r"asked 4 times \(the record has 3 answers\)"):
        judge(engines, both.root("second"), "flaky", name="3")


def test_what_never_changed_is_answered_as_often_as_it_is_asked(both: Both) -> None:
    judge(both.first, both.root("first"), "passes")
    engines = both.again()
    assert [judge(engines, both.root("second"), "passes", name=str(n)) for n in range(2)] == [PASSES, PASSES]


def test_tensors_beside_a_script_are_part_of_the_question(both: Both) -> None:
    def with_data(engines: Any, root: Path, tensors: dict[str, int]) -> Outcome:
        place = root / "tmp" / str(tensors["x"])
        place.mkdir()
        engines.write_data(sys.executable, {}, root, place / "repro_data.pt", tensors)
        (place / "repro.py").write_text("fails")
        outcome: Outcome = engines.fresh(place / "repro.py", Phase.RUN_FORWARD, python="", environment={}, deadline=1.0)
        return outcome

    assert with_data(both.first, both.root("first"), {"x": 1}) == FAILS
    engines = both.again()
    assert with_data(engines, both.root("second"), {"x": 1}) == FAILS
    assert (both.root("second") / "tmp" / "1" / "repro_data.pt").stat().st_size == 7
    with pytest.raises(NotOnRecord, match="tensors of a Case"):
        with_data(engines, both.root("second"), {"x": 2})


def watch(engines: Any, root: Path) -> Path:
    session = root / "work" / "out" / "logs" / "watch"
    session.mkdir(parents=True)
    assert engines.watch([sys.executable, "x.py"], session, Options(hang_after=5)) == Ended(1, 2.5)
    return session


def test_a_session_stands_elsewhere_with_its_paths_and_without_compiled_code(both: Both) -> None:
    watch(both.first, both.root("first"))
    assert str(both.tmp_path) not in str(both.first.answers)
    session = watch(both.again(), both.root("second"))
    [process] = processes(session)
    assert process.events[0]["case"] == str(session / "processes" / "12-34" / "cases" / "1")
    assert process.hello["executable"] == sys.executable
    assert not process.gone, "nobody can say of a recorded process that it is gone"
    assert not (session / "cache").exists()


def rerun(engines: Any, root: Path, script: str, **options: Any) -> str:
    folder = root / "tmp" / f"again-{len(list((root / 'tmp').iterdir()))}"
    (folder / "session").mkdir(parents=True)
    (folder / "x.py").write_text(script)
    environment = {**os.environ, VARIABLE: str(folder / "session"), OPTIONS: Options(**options).dump()}
    output = folder / "said.txt"
    command = (sys.executable, str(folder / "x.py"))
    engines.start(Launch(command, environment, str(root / "work"), str(output))).wait()
    return output.read_text()


def test_a_rerun_is_known_by_its_script_and_its_options(both: Both) -> None:
    rerun(both.first, both.root("first"), "import torch", eager=True)
    engines = both.again()
    said = rerun(engines, both.root("second"), "import torch", eager=True)
    assert said == f"said in {both.root('second')}/work"
    with pytest.raises(NotOnRecord, match=r"x\.py:\w+ {'eager': True}"):
        rerun(engines, both.root("second"), "import another", eager=True)
    with pytest.raises(NotOnRecord, match=r"x\.py:\w+ {'numbers': 'forward'}"):
        rerun(engines, both.root("second"), "import torch", numbers="forward")


def test_what_was_cancelled_is_no_answer(both: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ToyJudge, "judge", lambda *_: Outcome(Verdict.UNKNOWN, reason="cancelled"))
    judge(both.first, both.root("first"), "fails")
    assert both.first.answers == []


def test_the_clock_stands_still_unless_the_program_runs(both: Both) -> None:
    before = both.first.now()
    judge(both.first, both.root("first"), "fails")
    assert both.first.now() == before
    watch(both.first, both.root("first"))
    assert both.first.now() > before


def test_longer_paths_are_hidden_first_and_others_that_begin_alike_not_at_all() -> None:
    places = Places({"outer": "/a/b", "inner": "/a/b/c"})
    text = "/a/b/c/d /a/b/x /a/b-other /a/b.py, in /a/b."
    assert places.hide(text) == "/@inner@/d /@outer@/x /a/b-other /a/b.py, in /@outer@."
    assert places.show(places.hide(text)) == text


def test_tensors_are_kept_without_their_values(tmp_path: Path) -> None:
    header = b'{"storage_0":{}}'
    path = tmp_path / "tensors.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + b"values")
    kept = record.kept_file(path, Places({}))
    assert kept == len(header).to_bytes(8, "little") + header + b"\0" * 6


def test_a_record_that_names_a_home_is_refused(tmp_path: Path) -> None:
    said = {"a": "/@work@/home/x", "b": "/root/program.py", "c": "x/tmp/y"}
    record.write(tmp_path / record.NAME, [record.Answer("k", "a question", said)])
    assert record.faults(tmp_path / record.NAME) == ["paths of this machine are left in it: /root/program.py"]


def test_times_and_paths_are_left_out_of_what_is_compared(tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text(json.dumps({"seconds": 3.5, "ops": 1, "in": [{"seconds": 2, "at": "/a/b"}]}))
    found = golden.of_output(tmp_path, Places({"work": "/a"}))
    assert json.loads(found[golden.RESULT]) == {"ops": 1, "in": [{"at": "/@work@/b"}]}
    other = {golden.RESULT: found[golden.RESULT].replace('"ops": 1', '"ops": 2')}
    assert '-  "ops": 1' not in golden.difference(found, found)
    assert '- "ops": 1,\n+ "ops": 2,' in golden.difference(found, other)
