"""The program once more: what it finds in its environment, how long it has, and that it ends with us; a stand-in."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from torchsleuth.budget import Budget
from torchsleuth.investigate import rerun as rerun_module
from torchsleuth.investigate.rerun import NO_GRAPH_CACHE, Again, RerunOutcome
from torchsleuth.judge import engines
from torchsleuth.judge.guarded import Guarded
from torchsleuth.judge.launch import Launch, Limits
from torchsleuth.judge.match import Match
from torchsleuth.referee.nudge import Nudge
from torchsleuth.watch.found import Summary
from torchsleuth.watch.session import OPTIONS, Options

TELL = "import json, os, sys; json.dump(dict(os.environ), open(sys.argv[1], 'w')); sys.exit(int(sys.argv[2]))"


def rerun(tmp_path: Path, status: int, cached: bool) -> tuple[RerunOutcome, dict[str, Any]]:
    told = tmp_path / "told.json"
    (tmp_path / "logs").mkdir()
    again = Again([sys.executable, "-c", TELL, str(told), str(status)], tmp_path / "logs", 1.0)
    return again.uncompared(cached=cached), json.loads(told.read_text())


@pytest.mark.parametrize("cached", [True, False])
def test_alone_it_has_caches_of_its_own_and_draws_like_eager(tmp_path: Path, cached: bool) -> None:
    outcome, environment = rerun(tmp_path, 0, cached)
    options = Options.load(environment[OPTIONS])
    assert outcome.match is Match.PASSED
    assert (options.draw_like_eager, options.numbers, options.leave_caches) == (True, "", False)
    assert Path(environment["TORCHINDUCTOR_CACHE_DIR"]).is_relative_to(tmp_path)
    wanted = dict(os.environ) if cached else NO_GRAPH_CACHE
    assert {name: environment.get(name) for name in NO_GRAPH_CACHE} == {n: wanted.get(n) for n in NO_GRAPH_CACHE}


def test_an_exit_status_alone_does_not_say_that_it_failed_in_the_same_way(tmp_path: Path) -> None:
    outcome, _ = rerun(tmp_path, 3, cached=True)
    assert outcome.match is Match.OTHER
    assert outcome.evidence == "ended with 3"


NEEDS_DYNAMO = """
import json, os, sys
off = json.loads(os.environ["TORCHSLEUTH_OPTIONS"])["eager"]
sys.exit(int(off or "eager" not in os.environ.get("TORCH_COMPILE_OVERRIDE_BACKENDS", "")))
"""


@pytest.mark.parametrize(("program", "passes"), [("import sys; sys.exit(3)", False), (NEEDS_DYNAMO, True), ("", True)])
def test_a_program_that_only_cannot_do_without_dynamo_does_not_fail_in_eager(
    program: str, passes: bool, tmp_path: Path
) -> None:
    """scan and while_loop, called uncompiled, compile themselves."""
    outcome = Again([sys.executable, "-c", program], tmp_path, 1.0).without_compiling()
    assert (outcome.match is Match.PASSED) is passes


WRITES_AND_FAILS = """
import pathlib, sys
done = pathlib.Path(sys.argv[1])
if done.exists():
    sys.exit(f"{done} exists already" if sys.argv[2] == "once" else "the results differ by 0.5")
done.touch()
sys.exit("the results differ by 0.25")
"""


def run_again(tmp_path: Path, how: str, *, graphs: int) -> RerunOutcome:
    """A program that ended with status 1 in the user's terminal, where nobody recorded what it wrote."""
    (tmp_path / "done").touch()
    again = Again([sys.executable, "-c", WRITES_AND_FAILS, str(tmp_path / "done"), how], tmp_path / "logs", 1.0)
    (tmp_path / "logs").mkdir()
    again.compare_with(Summary(1, graphs, (), exit_code=1))
    return again.without_compiling()


def test_a_program_that_refuses_to_run_twice_does_not_fail_in_the_same_way(tmp_path: Path) -> None:
    """Its unchanged rerun captures none of the graphs that the first run captured."""
    assert run_again(tmp_path, "once", graphs=2).match is Match.UNKNOWN


def test_a_program_that_ends_as_its_unchanged_rerun_does_fails_in_the_same_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    summarised = rerun_module.summarise
    monkeypatch.setattr(rerun_module, "summarise", lambda *given: replace(summarised(*given), graphs=2))
    outcome = run_again(tmp_path, "always", graphs=2)
    assert outcome.match is Match.SAME
    assert outcome.evidence == "ended with 1 (the results differ by 0.5)"


def test_each_rerun_reports_into_a_folder_of_its_own(tmp_path: Path) -> None:
    """What two runs captured must not be added up."""
    again = Again([sys.executable, "-c", ""], tmp_path, 1.0)
    again.unchanged(number=1)
    assert sorted(place.name for place in (tmp_path / "watch").iterdir()) == ["again-unchanged", "again-unchanged-2"]
    assert sorted(place.name for place in tmp_path.glob("*.txt")) == ["again-unchanged-2.txt", "again-unchanged.txt"]


def test_the_nudge_travels_in_the_environment(tmp_path: Path) -> None:
    told = tmp_path / "told.json"
    again = Again([sys.executable, "-c", TELL, str(told), "0"], tmp_path, 1.0)
    moved = again.nudged(3, 4)
    environment = json.loads(told.read_text())
    assert environment["TORCH_COMPILE_OVERRIDE_BACKENDS"] == ">=0:sleuth_nudged"
    assert Options.load(environment[OPTIONS]).seed, "two runs of a program without a seed are compared"
    nudge = Nudge.read(environment)
    assert (nudge.seed, nudge.units) == (3, 4)
    assert Path(nudge.record).is_relative_to(tmp_path)
    assert (moved.units, moved.outcome.match, moved.steps) == (4, Match.PASSED, ())


FOREVER = [sys.executable, "-c", "import time; time.sleep(600)"]


def limits_of(monkeypatch: pytest.MonkeyPatch) -> list[Limits | None]:
    """Those of each run that is begun; it does not last."""
    begun: list[Limits | None] = []

    class Brief(Guarded):
        def __init__(self, launch: Launch) -> None:
            begun.append(launch.limits)
            super().__init__(replace(launch, limits=Limits(0.2, None)))

    monkeypatch.setattr(engines, "Guarded", Brief)
    return begun


def test_a_script_that_does_not_end_is_looked_at_for_as_long_as_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = limits_of(monkeypatch)
    Again(FOREVER, tmp_path, 5.0).look(tmp_path, 0.2)
    assert begun == [Limits(0.2, memory=None)], "the program's own memory is its own matter"


def test_what_does_not_end_was_not_seen_to_pass_nor_to_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = limits_of(monkeypatch)
    again = Again(FOREVER, tmp_path, 5.0)
    assert again.without_compiling().match is Match.UNKNOWN
    assert again.without_compiling().evidence == "did not end in time"
    assert len(begun) == 1, "it is not waited for twice"
    assert again.with_backend("inductor").match is Match.UNKNOWN


ENDS_WHERE_DYNAMO_IS_OFF = """
import json, os, sys, time
json.loads(os.environ["TORCHSLEUTH_OPTIONS"])["eager"] or time.sleep(600)
sys.exit(3)
"""


def test_where_its_graphs_in_eager_do_not_end_nobody_knows_whether_it_needs_dynamo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rerun_module, "_LEAST", 2.0)
    outcome = Again([sys.executable, "-c", ENDS_WHERE_DYNAMO_IS_OFF], tmp_path, 0.1).without_compiling()
    assert outcome.match is not Match.PASSED
    assert outcome.match is not Match.SAME


@pytest.mark.parametrize(
    ("seconds", "budget", "fused", "unfused"),
    [(1.0, 600.0, 60, 240), (100.0, 600.0, 300, 600), (400.0, 600.0, 600, 600), (1.0, 20.0, 20, 20)],
)
def test_what_fuses_nothing_has_more_time_and_nothing_more_than_the_budget(
    seconds: float, budget: float, fused: float, unfused: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = limits_of(monkeypatch)
    again = Again(FOREVER, tmp_path, seconds, Budget.of(budget))
    again.with_backend("inductor")
    again.without_compiling()
    again.with_backend("eager")
    deadlines = [limits.deadline for limits in begun if limits]
    assert deadlines == pytest.approx([fused, unfused, unfused], abs=5)
    assert all(deadline <= budget for deadline in deadlines)


@pytest.mark.parametrize("spent", [Budget.of(0.0), Budget.of(60.0)])
def test_nothing_is_begun_once_the_budget_is_over(spent: Budget, tmp_path: Path) -> None:
    spent.cancelled.set()
    assert Again(["no such program"], tmp_path, 1.0, spent).without_compiling().match is Match.UNKNOWN


def test_a_run_ends_at_the_budget_however_long_the_first_one_took(tmp_path: Path) -> None:
    began = time.monotonic()
    assert Again(FOREVER, tmp_path, 400.0, Budget.of(1.5)).with_numbers("forward").exit_code is None
    assert time.monotonic() - began < 15


def test_it_is_run_where_the_user_is_with_the_users_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "json.py").write_text("raise ImportError('not the json you want')")  # what is ours must not see it
    monkeypatch.setenv("PYTHONPATH", "lib")
    monkeypatch.setenv("TORCH_LOGS", "+dynamo")
    (tmp_path / "tell.py").write_text(
        "import os; print(os.getcwd(), os.environ['PYTHONPATH'], os.environ['TORCH_LOGS'])"
    )
    assert Again([sys.executable, "tell.py"], tmp_path, 1.0).with_settings({}).match is Match.PASSED
    assert (tmp_path / "again-advised.txt").read_text() == f"{tmp_path} lib +dynamo\n"


def test_an_end_that_comes_while_a_run_begins_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    again = Again(FOREVER, tmp_path, 5.0)

    class Slow(Guarded):
        def __init__(self, launch: Launch) -> None:
            ending = threading.Thread(target=again.end)
            ending.start()
            ending.join(0.3)
            super().__init__(launch)

    monkeypatch.setattr(engines, "Guarded", Slow)
    began = time.monotonic()
    assert again.with_settings({}).match is Match.UNKNOWN
    assert time.monotonic() - began < 20
    assert psutil.Process().children() == []
    monkeypatch.setattr(engines, "Guarded", None)
    assert again.with_settings({}).match is Match.UNKNOWN, "nothing more is begun"


RANKS = """
import os, time
for _ in range(2):
    if os.fork() == 0:
        os.setsid()
        os.execvp("sleep", ["sleep", "76543"])
time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_it_does_not_outlive_the_tool_nor_do_its_ranks(number: signal.Signals, tmp_path: Path) -> None:
    tool = f"""
    from pathlib import Path
    from torchsleuth.investigate.rerun import Again
    Again([{sys.executable!r}, "-c", {RANKS!r}], Path({str(tmp_path)!r}), 60.0).without_compiling()
    """
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(tool)], start_new_session=True)
    try:
        assert eventually(lambda: len(sleeping()) == 2)
        process.send_signal(number)
        process.wait(10)
        assert eventually(lambda: sleeping() == [])
    finally:
        for one in [process, *sleeping()]:
            one.kill()


def test_what_its_ranks_leave_goes_when_it_is_ended(tmp_path: Path) -> None:
    again = Again([sys.executable, "-c", RANKS], tmp_path, 60.0)
    ending = threading.Thread(target=lambda: eventually(lambda: len(sleeping()) == 2) and again.end())
    ending.start()
    assert again.without_compiling().match is Match.UNKNOWN
    ending.join()
    assert sleeping() == []


def sleeping() -> list[psutil.Process]:
    found = psutil.process_iter(["cmdline", "status"])
    alive = (p for p in found if p.info["status"] != psutil.STATUS_ZOMBIE)
    return [p for p in alive if p.info["cmdline"] == ["sleep", "76543"]]


def eventually(so: Callable[[], bool], seconds: float = 10.0) -> bool:
    until = time.monotonic() + seconds
    while not so() and time.monotonic() < until:
        time.sleep(0.02)
    return so()


@pytest.mark.slow
def test_with_entries_of_configs_as_an_error_advises(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(
        "import torch\nimport torch._functorch.config as c, torch._inductor.config as i\n"
        "torch.compile(lambda x: x + 1, backend='eager')(torch.ones(2))\n"
        "raise SystemExit(c.donated_buffer or i.triton.cudagraphs)\n"
    )
    again = Again([sys.executable, str(script)], tmp_path, 1.0)
    on = {"torch._functorch.config.donated_buffer": True, "torch._inductor.config.triton.cudagraphs": False}
    assert again.with_settings(on).match is not Match.PASSED
    settings = {**on, "torch._functorch.config.donated_buffer": False}
    assert again.with_settings(settings).match is Match.PASSED
