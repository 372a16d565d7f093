"""Marking a size dynamic: seen to help only in a run that came as far as the first one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from traces import artifact, beginning, explained, whole

from torchsleuth.commands.trying_dynamic import trial, try_dynamic
from torchsleuth.explain.as_json import to_json
from torchsleuth.explain.explanation import Explanation
from torchsleuth.explain.gather import gather
from torchsleuth.explain.trial import Answer
from torchsleuth.write.explained import text
from torchsleuth.write.page_explain import explain_page

SIZE = "0/0: tensor 'x' size mismatch at index 0. expected 2, actual 3"
BOUND = "0/0: x.size()[0] <= 4  # if x.shape[0] > 4  # train.py:10 in toy"


def a_run(folder: Path, *reasons: str, calls: int | None = 3) -> Explanation:
    folder.mkdir(exist_ok=True)
    parts = [whole("0/0")]
    for number, reason in enumerate(reasons, start=1):
        parts += [artifact(f"0/{number}", "recompile_reasons", reason), whole(f"0/{number}")]
    found = explained(folder, beginning(), *parts)
    return replace(found, frames=tuple(replace(frame, calls=calls) for frame in found.frames))


@pytest.fixture
def first(tmp_path: Path) -> Explanation:
    return a_run(tmp_path / "first", SIZE)


def answer(first: Explanation, then: Explanation, code: int | None) -> Answer:
    return trial(first.recompiles[0], first, then, code).answer


@pytest.mark.parametrize("code", [0, 1, None])
def test_what_was_seen_is_known_however_the_run_ended(tmp_path: Path, first: Explanation, code: int | None) -> None:
    assert answer(first, a_run(tmp_path / "then", SIZE, calls=1), code) is Answer.AGAIN


def test_a_bound_on_the_same_size_is_the_same(tmp_path: Path, first: Explanation) -> None:
    assert answer(first, a_run(tmp_path / "then", BOUND), 0) is Answer.AGAIN


def test_a_run_that_came_as_far_and_did_not_compile_again(tmp_path: Path, first: Explanation) -> None:
    found = trial(first.recompiles[0], first, a_run(tmp_path / "then"), 0)
    assert found.answer is Answer.NOT_AGAIN
    assert found.text == "Tried: with x marked dynamic, it is not compiled again for this."


@pytest.mark.parametrize(
    ("code", "calls", "why"),
    [
        (1, 3, "that run ended early, with exit code 1"),
        (-9, 3, "that run ended early, with exit code -9"),
        (None, 3, "that run was not seen to end"),
        (0, 1, "that run called it 1 times, the first 3 times"),
        (0, None, "how often it was called was not counted"),
    ],
)
def test_a_run_that_did_not_come_as_far_says_nothing(
    tmp_path: Path, first: Explanation, code: int | None, calls: int | None, why: str
) -> None:
    found = trial(first.recompiles[0], first, a_run(tmp_path / "then", calls=calls), code)
    assert found.answer is Answer.NOT_KNOWN
    assert found.text == f"Tried: with x marked dynamic: not known whether it is compiled again for this; {why}."


def test_a_run_that_compiled_nothing_says_nothing(first: Explanation) -> None:
    assert answer(first, gather([]), 0) is Answer.NOT_KNOWN


class Rerun:
    def __init__(self, code: int | None) -> None:
        self._code = code

    def explained(self, trace: Path, extra: dict[str, str]) -> int | None:
        assert extra == {"TORCH_COMPILE_DYNAMIC_SOURCES": "L['x']"}
        return self._code


def test_the_third_answer_reaches_every_text(tmp_path: Path, first: Explanation) -> None:
    tried = try_dynamic(first, Rerun(1), tmp_path / "none", tmp_path / "session", lambda _: None)
    data: dict[str, Any] = to_json(tried, version="0", command=(), exit_code=0)
    assert data["recompiles"][0]["tried_answer"] == "not known"
    sentence = "not known whether it is compiled again for this; that run ended early, with exit code 1."
    assert sentence in "\n".join(text(data))
    assert sentence in explain_page(data)
    assert tried.notes[-1].endswith("and ended with exit code 1")
