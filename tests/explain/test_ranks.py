"""Processes beside each other: who compiled what, and how often."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from command_line import environment_without_torch_settings, explain_command
from torchsleuth.explain.compiles import Compile
from torchsleuth.explain.owners import Owners
from torchsleuth.explain.ranks import Rank, Unlike, compare


def compiled(process: str, number: int, line: int = 3, seconds: float = 0.5) -> Compile:
    return Compile(
        process, f"{number}/0", name=f"f{line}", file="train.py", line=line, graphs=1, started=True, compiled=True,
        seconds=seconds,
    )  # fmt: skip


def compared(*compiles: Compile) -> tuple[tuple[Rank, ...], tuple[Unlike, ...]]:
    return compare(compiles, Owners(compiles))


def test_one_process_is_not_compared() -> None:
    assert compared(compiled("7 rank 0", 0)) == ((), ())


def test_ranks_in_their_order_and_what_one_compiled_more_often() -> None:
    ranks, unlike = compared(
        compiled("12 rank 1", 0), compiled("11 rank 0", 0), compiled("11 rank 0", 1, 9), compiled("11 rank 0", 2, 9)
    )
    assert ranks == (Rank("rank 0", 3, 3, 0, 1.5), Rank("rank 1", 1, 1, 0, 0.5))
    assert [(u.place.line, u.compiles) for u in unlike] == [(9, (2, 0))]


def test_processes_without_a_rank_go_by_their_number() -> None:
    ranks, unlike = compared(compiled("20", 0), compiled("9", 0), compiled("3 rank 0", 0), compiled("4 rank 0", 0))
    assert [r.name for r in ranks] == ["process 3 rank 0", "process 4 rank 0", "process 9", "process 20"]
    assert unlike == ()


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
    torchrun = [str(Path(sys.executable).with_name("torchrun")), "--nproc-per-node", "2", "--master-port", "0"]
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
