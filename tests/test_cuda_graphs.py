"""Outputs of CUDA graphs that were overwritten: what torch says of them is taken at its word, and proven.

A device is not needed: the program's backend keeps account of what it gave, as CUDA graphs do.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from command_line import RunCli, torch_script
from torchsleuth.case.failure import Failure, Kind, Phase, of_text
from torchsleuth.investigate import cuda_graphs
from torchsleuth.investigate.program_end import ProgramEnd
from torchsleuth.investigate.rerun import RerunOutcome
from torchsleuth.judge.match import Match
from torchsleuth.locate.named import line_named
from torchsleuth.watch.found import Found, Summary
from torchsleuth.watch.session import Process

SAID = (
    "Error: accessing tensor output of CUDAGraphs that has been overwritten by a subsequent run. Stack trace: "
    'File "/home/me/{}.py", line {}, in {}\n    return torch.tanh(x @ w). To prevent overwriting, clone the tensor '
    "outside of torch.compile() or call torch.compiler.cudagraph_mark_step_begin() before each model invocation."
)


def said(file: str = "net", line: int = 13, function: str = "cell") -> Failure:
    return of_text(f"RuntimeError: {SAID.format(file, line, function)}", Kind.RUNTIME_ERROR, Phase.RUN_FORWARD)


class Once:
    """Stands in for the program run again: whether it passes, and on what it was asked to run."""

    def __init__(self, without: Match, unchanged: Match = Match.SAME) -> None:
        self.asked: list[str] = []
        self._without = without
        self._unchanged = unchanged

    def with_backend(self, backend: str, failure: Failure) -> RerunOutcome:
        self.asked.append(backend)
        return RerunOutcome(self._without, ProgramEnd(0))

    def unchanged(self, failure: Failure, *, number: int) -> RerunOutcome:
        self.asked.append("unchanged")
        return RerunOutcome(self._unchanged, ProgramEnd(1))


def looked(summary: Summary, again: Once) -> Summary:
    failure = cuda_graphs.overwritten(summary)
    assert failure is not None
    return cuda_graphs.look(summary, failure, again, lambda _: None)  # type: ignore[arg-type]


@pytest.fixture
def process(tmp_path: Path) -> Process:
    return Process(tmp_path, {})


def test_where_the_tensor_was_made_is_no_part_of_what_failed() -> None:
    assert said("net", 13, "cell").fingerprint.same_as(said("repro", 4, "f").fingerprint)
    assert said().summary.endswith("has been overwritten by a subsequent run.")


def test_the_line_is_that_of_the_tensor_without_the_advice() -> None:
    line = line_named(said())
    assert line is not None
    assert (line.file, line.line, line.code) == ("/home/me/net.py", 13, "return torch.tanh(x @ w)")


def test_a_program_that_passes_without_them_is_explained_by_one_run(process: Process) -> None:
    again = Once(Match.PASSED)
    summary = Summary(1, 2, (), reference=process, exit_code=1, uncaught=f"RuntimeError: {SAID.format('a', 1, 'f')}")
    (found,) = looked(summary, again).found
    assert (found.failure.kind, found.component, found.inside) == (Kind.RUNTIME_ERROR, "inductor", "CUDA graphs")
    assert found.workaround
    assert again.asked == ["inductor", "unchanged"]


def test_one_that_a_graph_raised_needs_no_case(process: Process) -> None:
    raised = Found(said(), Path("case"), process, ended_program=True)
    (found,) = looked(Summary(1, 2, (raised,), reference=process, exit_code=1), Once(Match.PASSED)).found
    assert found.case is None
    assert found.failure is raised.failure


@pytest.mark.parametrize(
    ("without", "unchanged"),
    [
        (Match.SAME, Match.SAME),
        (Match.OTHER, Match.SAME),
        (Match.UNKNOWN, Match.SAME),
        (Match.PASSED, Match.PASSED),
        (Match.PASSED, Match.OTHER),
    ],
)
def test_one_that_was_not_seen_to_depend_on_them_is_left_to_others(
    process: Process, without: Match, unchanged: Match
) -> None:
    summary = Summary(1, 2, (Found(said(), Path("case"), process),), reference=process, exit_code=1)
    assert looked(summary, Once(without, unchanged)) is summary


def test_other_errors_are_none_of_this(process: Process) -> None:
    other = of_text("RuntimeError: CUDA out of memory", Kind.RUNTIME_ERROR, Phase.RUN_FORWARD)
    found = Found(other, None, process)
    assert cuda_graphs.overwritten(Summary(1, 1, (found,), reference=process, uncaught="ValueError: x")) is None


PROGRAM = '''
from torch._inductor.compile_fx import compile_fx

def reusing(gm, inputs):
    """As CUDA graphs do: what a call gave may not be read once the next was made."""
    compiled, before = compile_fx(gm, inputs), []

    def call(*args):
        dead.extend(before)
        before[:] = compiled(*args)
        return list(before)

    return call

def read(tensors):
    if any(t is d for t in tensors for d in dead):
        raise RuntimeError({said!r})
    return tensors

def cell(x, w):
    return torch.tanh(x @ w)

dead, w = [], torch.ones(4, 4)
step = torch.compile(cell, backend=reusing)
print(torch.stack(read([step(x, w) for x in torch.ones(3, 2, 4)])).sum())
'''


@pytest.mark.slow
def test_a_program_is_told_what_it_is_and_what_helps(run_cli: RunCli, tmp_path: Path) -> None:
    script = torch_script(tmp_path, PROGRAM.format(said=SAID.format("net", 13, "cell")))
    ended = run_cli("run", "--no-minimize", "--out", tmp_path / "out", sys.executable, script)
    assert "inside    CUDA graphs" in ended.stdout + ended.stderr
    assert "cudagraph_mark_step_begin" in ended.stdout + ended.stderr
    (found,) = json.loads((tmp_path / "out" / "result.json").read_text())["failures"]
    assert (found["kind"], found["component"], found["culprit"]["pass"]) == ("runtime-error", "inductor", "CUDA graphs")
    assert found["repro"]["verified"]
    assert "comparing" not in ended.stderr
