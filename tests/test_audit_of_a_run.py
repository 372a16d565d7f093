"""`torchsleuth audit` on what a real run wrote, as it is and with planted lies."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from command_line import RunCli

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "relu.py"


@pytest.mark.slow
def test_every_claim_of_the_example_holds_and_a_planted_lie_does_not(tmp_path: Path, run_cli: RunCli) -> None:
    assert run_cli("run", "--out", "out", EXAMPLE, timeout=1800).returncode == 1
    done = run_cli("audit", "--format", "json", "out", timeout=3600)
    found = json.loads(done.stdout)
    assert [row["why"] for row in found["claims"] if row["verdict"] != "holds"] == []
    assert (done.returncode, found["holds"]) == (0, True)
    assert {"fails", "passes", "needed", "culprit", "helps"} == {one["kind"] for one in claims(tmp_path / "out")}

    # The same folder, moved, with a repro that no longer fails and a workaround that does not help.
    lying = tmp_path / "lying"
    shutil.move(tmp_path / "out", lying)
    repro = (lying / "repro.py").read_text()
    (lying / "repro.py").write_text(repro.replace("= 'compile_error'", "= None"))
    helps = next(one for one in claims(lying) if one["kind"] == "helps")
    script = script_of(lying, helps["judgements"][0])
    script.write_text(
        script.read_text().replace("import torch\n", f"import torch\nimport torch._inductor.config\n{BUG}\n")
    )
    keep(lying, topics={"workaround"}, ids={"c1"})  # the others were made again already
    done = run_cli("audit", "--format", "json", "lying", timeout=1800)
    assert done.returncode == 1
    rows = {row["id"]: row for row in json.loads(done.stdout)["claims"]}
    assert rows["c1"]["verdict"] == "does-not-hold"
    assert "3 of 3 runs passed" in rows["c1"]["why"]
    assert rows[helps["id"]]["verdict"] == "does-not-hold"
    assert "failed in the same way" in rows[helps["id"]]["why"]


BUG = "setattr(torch._inductor.config.cpp, 'inject_relu_bug_TESTING_ONLY', 'compile_error')"


def claims(out: Path) -> list[dict[str, object]]:
    failures = json.loads((out / "result.json").read_text())["failures"]
    return [claim for failure in failures for claim in failure["claims"]]


def script_of(out: Path, name: object) -> Path:
    rows = [json.loads(line) for line in (out / "judgements.jsonl").read_text().splitlines()]
    return out / "candidates" / next(row["candidate"] for row in rows if row["id"] == name) / "repro.py"


def keep(out: Path, *, topics: set[str], ids: set[str]) -> None:
    """Leave few claims in result.json: each takes seconds."""
    data = json.loads((out / "result.json").read_text())
    for failure in data["failures"]:
        failure["claims"] = [one for one in failure["claims"] if one["topic"] in topics or one["id"] in ids]
        failure.update(needed=[], varies=[], ladder=[], ablation=[], inside=None, nearest_passing=None)
    (out / "result.json").write_text(json.dumps(data))
