"""Judgements on record: numbered once, read again after a kill, with the script that was judged."""

from __future__ import annotations

from pathlib import Path

from torchsleuth.judge.judgement import NAME, Candidate, Engine, JudgementLog, read
from torchsleuth.judge.match import Match


def note(log: JudgementLog, key: str, match: Match = Match.SAME, source: str = "import torch\n") -> str:
    return log.note(Candidate(key, source, ("without torch.sin",)), match, Engine.WORKER, failed=1, seconds=1.2345).id


def test_a_judgement_is_on_record_with_the_command_that_makes_it_again(tmp_path: Path) -> None:
    note(JudgementLog(tmp_path), "a")
    [one] = read(tmp_path)
    assert (one.id, one.candidate, one.match, one.engine) == ("j1", "a", Match.SAME, Engine.WORKER)
    assert (one.changes, one.runs, one.failed_runs, one.seconds) == (("without torch.sin",), 1, 1, 1.234)
    assert one.command == "python candidates/a/repro.py"
    assert (tmp_path / "candidates" / "a" / "repro.py").read_text() == "import torch\n"


def test_with_compilation_off_the_command_says_so(tmp_path: Path) -> None:
    made = JudgementLog(tmp_path).note(Candidate("a", compiled=False), Match.PASSED, Engine.FRESH)
    assert made.command == "TORCH_COMPILE_DISABLE=1 python candidates/a/repro.py"


def test_the_same_judgement_keeps_its_number_also_after_a_kill(tmp_path: Path) -> None:
    first = JudgementLog(tmp_path)
    assert [note(first, "a"), note(first, "b"), note(first, "a")] == ["j1", "j2", "j1"]
    with (tmp_path / NAME).open("ab") as file:
        file.write(b'{"id": "j3", "cand')  # a kill in the middle of a line
    again = JudgementLog(tmp_path)
    assert [note(again, "b"), note(again, "c")] == ["j2", "j3"]
    assert [one.id for one in read(tmp_path)] == ["j1", "j2", "j3"]


def test_another_result_is_another_judgement(tmp_path: Path) -> None:
    log = JudgementLog(tmp_path)
    assert note(log, "a") != note(log, "a", Match.PASSED)


def test_a_large_script_is_kept_only_where_a_sentence_needs_it(tmp_path: Path) -> None:
    log, large = JudgementLog(tmp_path), "x = 1\n" * 20_000
    note(log, "a", source=large)
    assert not (tmp_path / "candidates" / "a").exists()
    place = log.keep(Candidate("a", large))
    assert place is not None
    assert (place / "repro.py").read_text() == large


def test_without_a_folder_it_only_numbers(tmp_path: Path) -> None:
    log = JudgementLog()
    assert [note(log, "a"), note(log, "b")] == ["j1", "j2"]
    assert log.keep(Candidate("a")) is None
