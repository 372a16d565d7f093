"""What the tests of the judge share: both providers, warm for the whole session, and a way to ask them."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from judge_helpers import Ask

from torchsleuth.judge import ForkedJudge, Outcome, SpawnedJudge, Trial, judge_environment
from torchsleuth.judge.conduct import Conductor
from torchsleuth.judge.environment import home, with_torchsleuth

PROVIDERS = [ForkedJudge, SpawnedJudge]


@pytest.fixture(scope="session")
def environment() -> dict[str, str]:
    return judge_environment(os.environ)


@pytest.fixture(scope="session", params=PROVIDERS, ids=["forked", "spawned"])
def judge(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]
) -> Iterator[Conductor]:
    scratch = tmp_path_factory.mktemp("scratch")
    with request.param(sys.executable, environment, jobs=2, scratch=scratch) as judge:
        yield judge


@pytest.fixture
def ask(judge: Conductor, tmp_path: Path) -> Ask:
    """Judge a script; nothing of it may be left, neither a process nor a file in the judge's scratch folder."""

    def ask(source: str, **limits: object) -> Outcome:
        outcome = judge.judge(Trial(textwrap.dedent(source), tmp_path, **{"deadline": 60.0, **limits}))  # type: ignore[arg-type]
        assert not list(judge.scratch.glob("trial-*"))
        return outcome

    return ask


@pytest.fixture
def python_with_sleuth() -> dict[str, str]:
    """The environment of a Python that can import torchsleuth, for the toy processes of a test."""
    assert (home() / "torchsleuth" / "judge").is_dir()
    return with_torchsleuth(os.environ)
