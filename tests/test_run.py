"""`torchsleuth run`, end to end, as a user types it: what result.json, the terminal and the exit status say."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from command_line import environment_without_torch_settings

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Ran:
    status: int
    stdout: str
    stderr: str
    cwd: Path
    out: Path

    @property
    def result(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.out / "result.json").read_text(encoding="utf-8"))
        return found

    @property
    def failure(self) -> dict[str, Any]:
        found: dict[str, Any] = self.result["failures"][0]
        return found

    @property
    def repro(self) -> str:
        return (self.out / self.failure["repro"]["path"]).read_text(encoding="utf-8")

    @property
    def to_act_on(self) -> Path:
        return self.cwd / self.stdout.splitlines()[-1]


def torchsleuth_run(cwd: Path, *words: str, options: tuple[str, ...] = ("--no-minimize",), **files: str) -> Ran:
    """`torchsleuth run --out out OPTIONS WORDS` in `cwd`, where `files` are programs: train="..." is train.py."""
    for name, source in files.items():
        path = cwd / (name.replace("__", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(source), encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, "-m", "torchsleuth", "run", "--out", "out", *options, *words],
        cwd=cwd,
        env={**environment_without_torch_settings(), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        stdout, stderr = process.communicate(timeout=600)
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise
    ran = Ran(process.returncode, stdout, stderr, cwd, cwd / "out")
    check_contract(ran)
    return ran


STATUS = {"ok": 0, "failure": 1, "not-watched": 2, "not-reproduced": 3, "program-error": 4}
RESULT = {
    "schema": int, "torchsleuth": str, "torch": str, "command": list, "exit_code": int, "verdict": str, "watched": dict,
    "notes": list, "failures": list, "report": (str, type(None)),
}  # fmt: skip
FAILURE = {
    "id": str, "kind": str, "component": str, "fingerprint": str, "phase": str, "culprit": dict,
    "workaround": (str, type(None)), "case": (str, type(None)), "repro": (dict, type(None)), "reduction": dict,
}  # fmt: skip
CULPRIT = dict.fromkeys(("op", "pass", "source"), (str, type(None)))
REPRO = {
    "path": str, "verified": bool, "failed_runs": int, "runs": int, "form": str, "ops": int, "lines": int,
    "imports": list, "data_bytes": int, "literal_numbers": int, "source_lines": int,
}  # fmt: skip
REDUCTION = {"ops_before": int, "ops_after": int, "judged": int, "judged_to_smallest": int, "seconds": (int, float)}
COMPONENTS = {"dynamo", "aot", "decomposition", "partitioner", "inductor", "backend", "unknown"}


def has(data: dict[str, Any], shape: dict[str, Any]) -> None:
    assert shape.keys() <= data.keys()
    for key, kind in shape.items():
        assert isinstance(data[key], kind), (key, data[key])


def check_contract(ran: Ran) -> None:
    """Schema 1, and what the terminal promises beside it."""
    assert (ran.out / "result.json").exists(), ran.stderr
    result = ran.result
    has(result, RESULT)
    has(result["watched"], dict.fromkeys(("processes", "graphs", "numbers_checked"), int))
    assert result["schema"] == 1
    assert ran.status == STATUS[result["verdict"]], ran.stderr
    for failure in result["failures"]:
        has(failure, FAILURE)
        has(failure["culprit"], CULPRIT)
        has(failure["reduction"], REDUCTION)
        assert failure["component"] in COMPONENTS
        assert failure["case"] is None or (ran.out / failure["case"] / "case.json").exists()
        if failure["repro"] is not None:
            has(failure["repro"], REPRO)
            assert (ran.out / failure["repro"]["path"]).exists()
    assert ran.to_act_on.exists(), ran.stdout
    assert "Traceback" not in ran.stderr.partition("torchsleuth [")[2]
    assert not (ran.out / "logs" / "watch").exists()


# --- nothing of torch.compile's --------------------------------------------------------------------------------------


def test_a_healthy_program(tmp_path: Path) -> None:
    ran = torchsleuth_run(
        tmp_path,
        "python",
        "healthy.py",
        healthy="""
        import torch
        print(torch.compile(torch.sin, backend="aot_eager")(torch.zeros(2)).tolist())
        """,
    )
    assert (ran.result["verdict"], ran.result["exit_code"], ran.result["failures"]) == ("ok", 0, [])
    assert ran.result["torch"].startswith("2.")
    assert ran.result["command"] == ["python", "healthy.py"]
    assert ran.result["watched"] == {"processes": 1, "graphs": 1, "numbers_checked": 0}
    assert ran.stdout.startswith("[0.0, 0.0]\n")
    assert "the numbers were not checked" in ran.result["notes"][0]
    assert ran.to_act_on == ran.out / "result.json"


def test_a_program_without_torch_compile(tmp_path: Path) -> None:
    ran = torchsleuth_run(tmp_path, "eager.py", eager="import torch\nprint(torch.ones(1).item())\n")
    assert ran.result["verdict"] == "not-watched"
    assert ran.result["watched"]["processes"] == 1
    assert ran.result["notes"] == ["nothing was watched: the program imported torch, but no torch.compile was reached"]


def test_a_program_without_torch(tmp_path: Path) -> None:
    ran = torchsleuth_run(tmp_path, "sh", "-c", "echo hello")
    assert ran.result["verdict"] == "not-watched"
    assert ran.result["torch"] == "unknown"
    assert "no process of the program imported torch" in ran.result["notes"][0]
    assert ran.stdout.startswith("hello\n")


def test_an_error_of_the_programs_own(tmp_path: Path) -> None:
    ran = torchsleuth_run(tmp_path, "own.py", own="import torch\nassert torch.ones(1).item() == 2, 'no'\n")
    assert (ran.result["verdict"], ran.result["exit_code"], ran.result["failures"]) == ("program-error", 1, [])
    assert "AssertionError: no" in ran.stderr


def test_an_error_that_eager_has_too(tmp_path: Path) -> None:
    ran = torchsleuth_run(
        tmp_path,
        "index.py",
        index="""
        import torch
        table, at = torch.arange(5.0), torch.tensor([1, 77])
        torch.compile(lambda t, i: t[i] + 1, backend="aot_eager")(table, at)
        """,
    )
    assert ran.result["verdict"] == "program-error"
    assert ran.failure["kind"] == "runtime-error"
    assert ran.failure["repro"] is None
    assert any("eager itself fails" in note for note in ran.result["notes"])


# --- failures --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def own_code(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """A bare x.py with arguments, in a folder of another alphabet, with an operator and a backend of its own."""
    cwd = tmp_path_factory.mktemp("run") / "Übung ③ дом"
    cwd.mkdir()
    return torchsleuth_run(
        cwd,
        "--", "träin.py", "--epochs", "1", "-x", "--", "--out", "mine", "*",
        options=(),
        träin="""
        import sys
        import torch

        assert sys.argv[1:] == ["--epochs", "1", "-x", "--", "--out", "mine", "*"], sys.argv

        @torch.library.custom_op("mine::scale", mutates_args=())
        def scale(x: torch.Tensor, by: float) -> torch.Tensor:
            return x * by

        @scale.register_fake
        def _(x, by):
            return torch.empty_like(x)

        def refuse(target):
            raise NotImplementedError(f"no lowering for {target}")

        def backend(gm, inputs):
            for node in gm.graph.nodes:
                if "scale" in str(node.target):
                    refuse(node.target)
            return gm.forward

        def step(x):
            y = torch.sin(x) * 2
            y = torch.ops.mine.scale(y, 3.0)
            return y.cos() + 1

        torch.compile(step, backend=backend)(torch.ones(4, 4))
        """,
    )  # fmt: skip


def test_a_failing_program(own_code: Ran) -> None:
    assert (own_code.result["verdict"], own_code.result["exit_code"]) == ("failure", 1)
    failure = own_code.failure
    assert (failure["id"], failure["kind"], failure["phase"]) == ("f1", "compile-error", "compile-forward")
    assert failure["component"] == "backend"
    assert "NotImplementedError: no lowering for mine.scale" in failure["fingerprint"]
    assert failure["repro"]["verified"]
    assert failure["repro"]["failed_runs"] == failure["repro"]["runs"] == 3
    assert failure["case"] == "cases/f1"
    assert own_code.to_act_on == own_code.out / "repro.py"
    assert (own_code.out / "issue.md").read_text().startswith("# ")


def test_the_program_was_given_its_own_arguments(own_code: Ran) -> None:
    assert own_code.result["command"][1:] == ["--epochs", "1", "-x", "--", "--out", "mine", "*"]
    assert "AssertionError" not in own_code.stderr


def test_the_repro_carries_operator_and_backend_as_source(own_code: Ran) -> None:
    assert own_code.failure["repro"]["imports"] == ["torch"]
    assert 'custom_op("mine::scale"' in own_code.repro
    assert "def backend(gm, inputs):" in own_code.repro
    assert "def refuse(target):" in own_code.repro
    assert own_code.failure["reduction"]["ops_before"] == 5
    assert own_code.failure["repro"]["ops"] == own_code.failure["reduction"]["ops_after"] == 1


@pytest.fixture(scope="module")
def two_failures(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """python -m, with a backend in a module that needs more than torch; one failure is caught, another ends it."""
    return torchsleuth_run(
        tmp_path_factory.mktemp("two"), "python", "-m", "pkg.main",
        pkg____init__="",
        pkg__backends="""
        import click

        def styled(gm, inputs):
            raise RuntimeError(click.unstyle("no style"))
        """,
        pkg__main="""
        import torch
        from pkg.backends import styled

        def runs(gm, inputs):
            def run(*args):
                raise ArithmeticError("overflow at 17")
            return run

        try:
            torch.compile(torch.tanh, backend=runs)(torch.ones(2))
        except ArithmeticError:
            pass
        torch.compile(torch.sin, backend=styled)(torch.ones(2))
        """,
    )  # fmt: skip


def test_two_failures_are_two_and_the_one_that_ended_it_is_first(two_failures: Ran) -> None:
    assert two_failures.result["verdict"] == "failure"
    kinds = [(f["id"], f["kind"], f["phase"]) for f in two_failures.result["failures"]]
    assert kinds == [("f1", "compile-error", "compile-forward"), ("f2", "runtime-error", "run-forward")]
    assert [f["repro"]["path"] for f in two_failures.result["failures"]] == ["repro.py", "cases/f2/repro.py"]
    assert all(f["repro"]["verified"] for f in two_failures.result["failures"])


def test_a_module_that_a_backend_needs_is_named(two_failures: Ran) -> None:
    assert set(two_failures.failure["repro"]["imports"]) == {"click", "torch"}
    assert "Needs, besides torch: click." in two_failures.repro
    assert two_failures.result["failures"][1]["repro"]["imports"] == ["torch"]


def test_a_failure_that_depends_on_the_program_is_reproduced_from_its_source(tmp_path: Path) -> None:
    """fullgraph=True: switched off by TORCH_COMPILE_DISABLE it would complain, which is no error of eager's."""
    ran = torchsleuth_run(
        tmp_path,
        "third.py",
        third="""
        import torch
        GRAPHS = []

        def backend(gm, inputs):
            GRAPHS.append(gm)
            if len(GRAPHS) == 3:
                raise RuntimeError("the third graph is too much")
            return gm.forward

        for f in (torch.sin, torch.cos, torch.tanh):
            torch.compile(f, backend=backend, fullgraph=True)(torch.ones(2))
        """,
    )
    assert ran.result["verdict"] == "failure"
    assert (ran.failure["repro"]["verified"], ran.failure["repro"]["form"]) == (True, "frame")
    assert ran.failure["case"] == "cases/f1"
    assert "the third graph is too much" in (ran.out / "repro.py").read_text()
    assert not any("with compilation off, and failed" in note for note in ran.result["notes"])


def test_a_crash_in_a_child_of_a_shell_script(tmp_path: Path) -> None:
    (tmp_path / "job.sh").write_text("echo starting\npython child.py\nexit $?\n")
    ran = torchsleuth_run(
        tmp_path,
        "sh",
        "job.sh",
        child="""
        import torch
        from torchsleuth.backends import faulty
        torch.compile(lambda x: torch.relu(x) * 2, backend=faulty("relu", "crash"))(torch.ones(3))
        """,
    )
    assert ran.stdout.startswith("starting\n")
    assert (ran.result["verdict"], ran.result["exit_code"]) == ("failure", 139)
    assert (ran.failure["kind"], ran.failure["fingerprint"], ran.failure["phase"]) == (
        "crash",
        "SIGSEGV",
        "run-forward",
    )
    assert ran.failure["repro"]["verified"]
    assert "The process dies with SIGSEGV." in ran.repro


def test_torchrun(tmp_path: Path) -> None:
    if shutil.which("torchrun", path=str(Path(sys.executable).parent)) is None:
        pytest.skip("torchrun is not installed")
    ran = torchsleuth_run(
        tmp_path,
        "torchrun", "--nproc-per-node", "2", "--master-port", "0", "rank.py",
        rank="""
        import os, torch

        def backend(gm, inputs):
            raise ValueError(f"no kernel on rank {os.environ['RANK']}")

        torch.compile(torch.sin, backend=backend)(torch.ones(3))
        """,
    )  # fmt: skip
    assert ran.result["exit_code"] == 1
    assert ran.result["watched"]["processes"] >= 2
    assert len(ran.result["failures"]) == 1
    assert ran.failure["kind"] == "compile-error"
