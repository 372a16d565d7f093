"""result.json: every key of the contract, with what is not known as null."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from findings_by_hand import a_finding, a_repro, a_result

from torchsleuth.case.ir import Source
from torchsleuth.write.findings import Culprit
from torchsleuth.write.result import RunVerdict, show_source, to_json


def test_a_run_with_a_verified_failure(tmp_path: Path) -> None:
    data = to_json(a_result(a_finding(tmp_path, repro=a_repro(tmp_path))), tmp_path)
    failure: dict[str, Any] = data["failures"][0]
    assert json.loads(json.dumps(data)) == data
    assert {k: v for k, v in data.items() if k not in ("failures", "report")} == {
        "schema": 1,
        "torchsleuth": "0.1.0",
        "torch": "2.13.0+cpu",
        "command": ["python", "train.py", "--epochs", "1"],
        "exit_code": 1,
        "verdict": "failure",
        "watched": {"processes": 1, "graphs": 12, "numbers_checked": 0},
        "notes": [],
    }
    assert failure["id"] == "f1"
    assert (failure["kind"], failure["component"], failure["phase"]) == ("compile-error", "inductor", "compile-forward")
    assert failure["fingerprint"] == "RuntimeError: no kernel for N @ _inductor/graph.py:run_node"
    assert failure["culprit"] == {"op": "aten.relu.default", "pass": None, "source": "model.py:31", "module": None}
    assert failure["case"] == "cases/f1"
    assert failure["repro"] == {
        "path": "repro.py", "verified": True, "failed_runs": 3, "runs": 3, "form": "torch.compile", "ops": 1,
        "lines": 3, "imports": ["torch"], "data_bytes": 0, "literal_numbers": 0, "source_lines": 0,
    }  # fmt: skip
    assert failure["reduction"] == {
        "ops_before": 412, "ops_after": 1, "judged": 9, "judged_to_smallest": 9,
        "seconds": pytest.approx(21.345, abs=0.01),
    }  # fmt: skip


def test_what_is_not_known_is_null_and_never_left_out(tmp_path: Path) -> None:
    known = to_json(a_result(a_finding(tmp_path, repro=a_repro(tmp_path))), tmp_path)["failures"][0]
    bare = replace(a_finding(tmp_path), culprit=Culprit(), case=None, rungs=())
    unknown = to_json(a_result(bare), tmp_path)["failures"][0]
    assert known.keys() == unknown.keys()
    assert unknown["culprit"] == {"op": None, "pass": None, "source": None, "module": None}
    assert (unknown["repro"], unknown["case"], unknown["workaround"]) == (None, None, None)
    assert unknown["reduction"]["ops_after"] == 412


@pytest.mark.parametrize(
    ("verdict", "status"),
    [("ok", 0), ("failure", 1), ("not-watched", 2), ("not-reproduced", 3), ("program-error", 4)],
)
def test_exit_statuses(verdict: str, status: int) -> None:
    assert RunVerdict(verdict).exit_status == status


def test_a_source_is_relative_to_the_working_folder_where_it_can_be(tmp_path: Path) -> None:
    assert show_source(None) is None
    assert show_source(Source(str(tmp_path / "a" / "m.py"), 3), tmp_path) == "a/m.py:3"
    assert show_source(Source("/elsewhere/m.py", 3), tmp_path) == "/elsewhere/m.py:3"
