"""Processes beside each other: who compiled what, and how often."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from traces import beginning, explained, whole

from command_line import environment_without_torch_settings, explain_command
from torchsleuth.explain.compiles import Compile
from torchsleuth.explain.operators import operators_of
from torchsleuth.explain.owners import Owners
from torchsleuth.explain.ranks import Comparison, Rank, compare, without_compilations
from torchsleuth.write.explain_words import ranks_agree


def compiled(process: str, number: int, line: int = 3, calls: Sequence[str] = ("torch.relu(x)",)) -> Compile:
    graph = "\n".join(f'v{n}: "f32[3]" = {call}' for n, call in enumerate(calls))
    return Compile(
        process, f"{number}/0", name=f"f{line}", file="train.py", line=line, graphs=1, started=True, ended=True,
        compiled=True, seconds=0.5, operators=operators_of(graph),
    )  # fmt: skip


def compared(*compiles: Compile) -> Comparison:
    return compare(compiles, Owners(compiles))


def test_one_process_is_not_compared() -> None:
    assert compared(compiled("7 rank 0", 0)) == Comparison()


def test_ranks_in_their_order_and_what_one_compiled_more_often() -> None:
    found = compared(
        compiled("12 rank 1", 0), compiled("11 rank 0", 0), compiled("11 rank 0", 1, 9), compiled("11 rank 0", 2, 9)
    )
    assert found.ranks == (Rank("rank 0", 3, 3, 0, 1.5), Rank("rank 1", 1, 1, 0, 0.5))
    assert [(u.place.line, u.compiles) for u in found.unlike] == [(9, (2, 0))]


def test_processes_without_a_rank_go_by_their_number() -> None:
    found = compared(compiled("20", 0), compiled("9", 0), compiled("3 rank 0", 0), compiled("4 rank 0", 0))
    assert [r.name for r in found.ranks] == ["process 3 rank 0", "process 4 rank 0", "process 9", "process 20"]
    assert (found.unlike, found.unlike_graphs, found.not_compared) == ((), (), ())


def test_a_process_is_one_before_and_after_it_has_a_rank(tmp_path: Path) -> None:
    """Its first compilation comes before torch.distributed is initialised."""
    rank = "[rank0]: 7"
    found = explained(tmp_path, beginning(), whole("0/0"), whole("1/0", "later", first=20, process=rank))
    assert found.processes == 1
    assert found.comparison.ranks == ()


@pytest.mark.parametrize(
    ("calls", "difference"),
    [
        (("torch.relu(x)", "x + 1", "torch.sin(x)"), "rank 1 captured torch.sin, which rank 0 did not"),
        (("torch.relu(x)",), "rank 1 did not capture +, which rank 0 did"),
        (("torch.relu(x)", "x.sum()"), "rank 1 captured .sum in place of +, which rank 0 did not"),
        (("x + 1", "torch.relu(x)"),
         "rank 1 captured the same operators as rank 0 in another order, or in other graphs"),
    ],
)  # fmt: skip
def test_ranks_that_captured_different_graphs(calls: tuple[str, ...], difference: str) -> None:
    found = compared(compiled("7 rank 0", 0, calls=("torch.relu(x)", "x + 1")), compiled("8 rank 1", 0, calls=calls))
    assert found.unlike == ()
    (unlike,) = found.unlike_graphs
    assert (unlike.place.function, unlike.ops, unlike.differences) == ("f3", (2, len(calls)), (difference,))


def test_a_rank_whose_graph_is_not_known_is_not_compared() -> None:
    lost = replace(compiled("8 rank 1", 0), ended=False)
    found = compared(compiled("7 rank 0", 0), lost, compiled("9 rank 2", 0, calls=("torch.sin(x)",)))
    assert found.not_compared == ("the graphs of f3: not known of rank 1",)
    assert found.unlike_graphs[0].differences == (
        "rank 2 captured torch.sin in place of torch.relu, which rank 0 did not",
    )
    assert found.unlike_graphs[0].ops == (1, None, 1)


def test_a_rank_on_which_the_compilation_failed() -> None:
    failed = replace(compiled("8 rank 1", 0), compiled=False, failed="InductorError: no")
    (unlike,) = compared(compiled("7 rank 0", 0), failed).unlike_graphs
    assert unlike.differences == ("rank 1: failed; rank 0: compiled",)


def test_a_rank_that_compiled_nothing_is_named() -> None:
    ranks = {"7": "0", "8": "1", "9": "1", "10": "2"}  # 9 is a helper of rank 1
    assert without_compilations([compiled("7 rank 0", 0), compiled("9", 0)], ranks) == ["2"]
    assert without_compilations([], ranks) == []
    assert without_compilations([compiled("6", 0)], ranks) == []  # what compiled is no rank


def test_agreement_is_said_only_of_what_was_compared() -> None:
    alike = {"unlike": [], "unlike_graphs": [], "not_compared": []}
    sentence = ranks_agree(alike)
    assert sentence is not None
    assert "Sizes, dtypes and values were not compared." in sentence
    assert ranks_agree({**alike, "not_compared": ["the graphs of f: not known of rank 1"]}) is None
    assert ranks_agree({"unlike": []}) is None  # written by a version that did not compare graphs


@pytest.mark.slow
def test_two_ranks_of_which_one_recompiles(tmp_path: Path) -> None:
    (tmp_path / "rank.py").write_text(
        "import os, torch\n"
        "@torch.compile(backend='eager', dynamic=False)\n"
        "def f(x):\n"
        "    return x + 1\n"
        "for n in range(2, 5 if os.environ['RANK'] == '0' else 3):\n"
        "    f(torch.ones(n))\n"
    )
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "0"]
    done: subprocess.CompletedProcess[str] = explain_command(
        tmp_path, *torchrun, "rank.py", env=environment_without_torch_settings()
    )
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "out" / "explain.json").read_text())
    assert len(found["ranks"]) == 2
    [unlike] = found["unlike"]
    assert sorted(unlike["compiles"].values()) == [1, 3]
    assert "compiled unequally" in done.stdout
    assert "Not compiled equally often" in (tmp_path / "out" / "report.html").read_text()


@pytest.mark.slow
def test_two_ranks_with_different_graphs(tmp_path: Path) -> None:
    (tmp_path / "rank.py").write_text(
        "import os, torch\n"
        "@torch.compile(backend='eager')\n"
        "def f(x, last):\n"
        "    x = torch.relu(x) + 1\n"
        "    return torch.tanh(x) if last else x\n"
        "f(torch.ones(3), os.environ['RANK'] == '1')\n"
    )
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "0"]
    done = explain_command(tmp_path, *torchrun, "rank.py", env=environment_without_torch_settings())
    assert done.returncode == 0, done.stderr
    [unlike] = json.loads((tmp_path / "out" / "explain.json").read_text())["unlike_graphs"]
    assert sorted(unlike["ops"].values()) == [2, 3]
    assert "torch.tanh" in unlike["differences"][0]
    assert "different graphs" in done.stdout
    assert "equally often" not in (tmp_path / "out" / "report.html").read_text()
