"""torchsleuth doctor: can torchsleuth work here?"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from cli_helpers import Cli

from command_line import torch_script
from torchsleuth import __version__
from torchsleuth.doctor import checks, interpreter, trial
from torchsleuth.doctor.checks import Check, State
from torchsleuth.doctor.interpreter import Answer, Interpreter
from torchsleuth.errors import JudgeBroken
from torchsleuth.torch_api.hook_table import HOOKS

HERE = Interpreter("/bin/python", "3.11.7")
HEALTHY: dict[str, Any] = {
    "fork": True,
    "entry_points": [{"value": "torchsleuth_autoload:start", "version": __version__, "trouble": ""}],
    "temporary": {"path": "/tmp", "free": 50 << 30, "no_exec": False},
    "headers": "/usr/include/python3.11",
    "torch": {"version": "2.13.0+cpu", "built_for": "CPU", "device": ""},
    "hooks": [{"name": "torch.x.Y", "does": "sees it", "required": True, "missing": ""}],
    "compiler": "g++",
}

MISSING = {"name": "torch.z", "does": "", "required": True, "missing": "torch has no usable torch.z: nothing is seen"}


@pytest.fixture(autouse=True)
def memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "available_memory", lambda: 8 << 30)


def examined(
    monkeypatch: pytest.MonkeyPatch,
    changes: Mapping[str, Any] | None = None,
    *,
    troubles: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    python: Interpreter = HERE,
) -> list[Check]:
    """The checks that do not say ok, for an interpreter whose probe answers HEALTHY with `changes`."""
    facts = {name: {"answer": answer, "trouble": ""} for name, answer in {**HEALTHY, **(changes or {})}.items()}
    facts.update({name: {"answer": None, "trouble": why} for name, why in (troubles or {}).items()})
    monkeypatch.setattr(checks, "ask", lambda command, environment: Answer("torch says hi\n" + json.dumps(facts)))
    found = list(checks.examine(python, environment or {}))
    return [check for check in found if check.state is not State.OK]


def only(found: list[Check], state: State, what: str) -> str:
    """The line of the one check that does not say ok."""
    [check] = found
    assert (check.state, check.what) == (state, what)
    return check.line


def test_a_healthy_interpreter_has_nothing_to_mend(monkeypatch: pytest.MonkeyPatch) -> None:
    assert examined(monkeypatch) == []


@pytest.mark.parametrize(
    ("change", "what", "said"),
    [
        ({"torch": {**HEALTHY["torch"], "version": "2.10.1"}}, "torch", "needs 2.11 or newer: upgrade torch."),
        ({"hooks": [*HEALTHY["hooks"], MISSING]}, "hook", "torch has no usable torch.z: nothing is seen. Upgrade"),
        ({"hooks": []}, "hooks", "torch could not be probed for them (the probe gave no answer)"),
        ({"entry_points": []}, "entry point", "not installed in this Python. Install torchsleuth into /bin/python"),
        ({"entry_points": HEALTHY["entry_points"] * 2}, "entry point", "registered 2 times"),
        (
            {"entry_points": [{**HEALTHY["entry_points"][0], "trouble": "ImportError: x"}]},
            "entry point",
            "torchsleuth_autoload:start does not load (ImportError: x)",
        ),
        ({"temporary": {**HEALTHY["temporary"], "no_exec": True}}, "temporary folder", "/tmp is mounted noexec"),
        ({"temporary": {**HEALTHY["temporary"], "path": "/my tmp"}}, "temporary folder", "Point TMPDIR elsewhere."),
        ({"temporary": {**HEALTHY["temporary"], "free": 1 << 29}}, "disk", "0.5 GiB free in /tmp. 1 GiB is needed"),
        ({"fork": False}, "fork", "Raise the limit of processes"),
    ],
)
def test_a_problem_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, change: Mapping[str, Any], what: str, said: str
) -> None:
    assert said in only(examined(monkeypatch, change), State.PROBLEM, what)


@pytest.mark.parametrize(
    ("question", "trouble", "what", "said"),
    [
        ("hooks", "KeyError: 3", "hooks", "torch could not be probed for them (KeyError: 3). Upgrade torchsleuth"),
        ("compiler", "InvalidCxxCompiler: none", "C++ compiler", "finds none (InvalidCxxCompiler: none). Install g++"),
        ("headers", "FileNotFoundError: Python.h", "Python.h", "apt install python3-dev"),
        ("temporary", "FileNotFoundError: No usable", "temporary folder", "Point TMPDIR to a folder"),
        ("fork", "BlockingIOError: no", "fork", "fails (BlockingIOError: no). Raise the limit"),
    ],
)
def test_a_question_that_fails_is_a_problem(
    monkeypatch: pytest.MonkeyPatch, question: str, trouble: str, what: str, said: str
) -> None:
    assert said in only(examined(monkeypatch, troubles={question: trouble}), State.PROBLEM, what)


@pytest.mark.parametrize(
    ("trouble", "said"),
    [
        ("ModuleNotFoundError: No module named 'torch'", "torch: not installed. Install it: /bin/python -m pip"),
        ("OSError: libcudart.so: no", "torch: cannot be imported (OSError: libcudart.so: no). Install it"),
    ],
)
def test_without_torch_the_compiler_is_not_asked_for(monkeypatch: pytest.MonkeyPatch, trouble: str, said: str) -> None:
    found = examined(monkeypatch, troubles={"torch": trouble, "compiler": trouble})
    assert said in only(found, State.PROBLEM, "torch")


@pytest.mark.parametrize(
    ("variable", "what"),
    [
        ("TORCH_DEVICE_BACKEND_AUTOLOAD", "autoload"),
        ("TORCH_COMPILE_DISABLE", "torch.compile"),
        ("TORCHDYNAMO_DISABLE", "torch.compile"),
    ],
)
def test_a_variable_that_switches_something_off(monkeypatch: pytest.MonkeyPatch, variable: str, what: str) -> None:
    off = "0" if variable.endswith("AUTOLOAD") else "1"
    on = "1" if off == "0" else "0"
    line = only(examined(monkeypatch, environment={variable: off}), State.PROBLEM, what)
    assert variable in line
    assert line.endswith("Unset it.")
    assert examined(monkeypatch, environment={variable: on}) == []


@pytest.mark.parametrize(
    ("version", "state"), [("3.9.18", State.PROBLEM), ("2.7.18", State.PROBLEM), ("3.14.0", State.NOTE)]
)
def test_other_pythons(monkeypatch: pytest.MonkeyPatch, version: str, state: State) -> None:
    only(examined(monkeypatch, python=Interpreter("/bin/python", version)), state, "Python")


def test_notes_do_not_stand_in_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    older = {"entry_points": [{**HEALTHY["entry_points"][0], "version": "0.0.9"}]}
    assert "torchsleuth 0.0.9 there" in only(examined(monkeypatch, older), State.NOTE, "entry point")
    only(examined(monkeypatch, environment={"TORCHSLEUTH_WATCH": "/x"}), State.NOTE, "TORCHSLEUTH_WATCH")
    only(examined(monkeypatch, {"hooks": [*HEALTHY["hooks"], {**MISSING, "required": False}]}), State.NOTE, "hook")


@pytest.mark.parametrize(("free", "state"), [(1 << 29, State.PROBLEM), (3 << 29, State.NOTE)])
def test_little_memory(monkeypatch: pytest.MonkeyPatch, free: int, state: State) -> None:
    monkeypatch.setattr(checks, "available_memory", lambda: free)
    only(examined(monkeypatch), state, "memory")


def test_an_import_that_kills_the_process_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "ask", lambda *_: Answer(trouble="it ended with status -11"))
    last = list(checks.examine(HERE, {}))[-1]
    assert last.line.startswith(
        "problem  torch: importing it ended the process: it ended with status -11. Try `/bin/python"
    )


def test_the_command_prints_a_line_a_check_and_its_conclusion(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreter, "find", lambda word, environment: HERE)
    good, bad = Check(State.OK, "fork", "works"), Check(State.PROBLEM, "disk", "full", "Free some.")
    monkeypatch.setattr(checks, "examine", lambda *_: [good])
    said = cli("doctor")
    assert (said.status, said.out) == (0, "ok       fork: works\ntorchsleuth can work here. (--deep tries it out.)\n")
    monkeypatch.setattr(checks, "examine", lambda *_: [good, bad])
    said = cli("doctor", "--deep")
    assert said.status == 2
    assert said.out.splitlines()[1:] == [
        "problem  disk: full. Free some.",
        "torchsleuth cannot work here: 1 problem, see above.",
    ]
    said = cli("doctor", "--json")
    assert json.loads(said.out)["works"] is False
    assert json.loads(said.out)["checks"][1] == {
        "state": "problem", "what": "disk", "found": "full", "advice": "Free some.",
    }  # fmt: skip


def test_deep_counts_what_judging_finds(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreter, "find", lambda word, environment: HERE)
    monkeypatch.setattr(checks, "examine", lambda *_: [])
    monkeypatch.setattr(trial, "open_judge", _broken)
    said = cli("doctor", "--deep")
    assert said.status == 2
    assert said.out.startswith("problem  judging: it dies at once")


def _broken(*_: object, **__: object) -> None:
    raise JudgeBroken("it dies at once")


def test_a_python_that_does_not_exist(cli: Cli) -> None:
    said = cli("doctor", "--python", "no-such-python")
    assert said.status == 2
    assert said.out.startswith("problem  Python: no-such-python cannot be started: there is no such program.")


def test_an_interpreter_with_nothing_in_it(tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)  # where torchsleuth is found so, the bare one finds it too
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True)
    said = cli("doctor", "--python", "bare/bin/python")
    problems = [line.split()[1] for line in said.out.splitlines() if line.startswith("problem")]
    assert (said.status, problems) == (2, ["torch:", "entry"])


@pytest.mark.slow
def test_it_works_here(run_cli) -> None:
    done = run_cli("doctor", "--deep", env={"TMPDIR": "/tmp"})
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "torchsleuth can work here."
    assert f"ok       hooks: torch has all {len(HOOKS)} places" in done.stdout
    assert "ok       hook: " not in done.stdout
    assert "and a planted failure was seen" in done.stdout


@pytest.mark.slow
def test_a_compiler_that_is_missing_is_found_out(run_cli) -> None:
    done = run_cli("doctor", env={"CXX": "/no/such/compiler"})
    assert done.returncode == 2
    assert "problem  C++ compiler: Inductor finds none" in done.stdout


WITHOUT = """
import sys

class Finder:  # takes an attribute away from a module of torch, as soon as it is imported
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name != "torch._functorch.aot_autograd":
            return None
        import importlib.machinery
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        execute = spec.loader.exec_module
        def exec_module(module):
            execute(module)
            del module.aot_stage2_compile
        spec.loader.exec_module = exec_module
        return spec

sys.meta_path.insert(0, Finder)
"""
NAMED = "torch has no usable torch._functorch.aot_autograd.aot_stage2_compile (no such attribute)"


@pytest.mark.slow
def test_a_place_that_torch_lost_is_named_by_doctor_and_by_the_run(run_cli, tmp_path: Path) -> None:
    (tmp_path / "without").mkdir()
    (tmp_path / "without" / "sitecustomize.py").write_text(WITHOUT)
    env = {"PYTHONPATH": str(tmp_path / "without")}
    done = run_cli("doctor", env=env)
    assert done.returncode == 2
    assert f"problem  hook: {NAMED}" in done.stdout
    script = torch_script(tmp_path, "torch.compile(lambda x: x + 1, backend='eager')(torch.ones(2))")
    ran = run_cli("run", "--out", "out", str(script), env=env)
    assert NAMED in (tmp_path / "out" / "result.json").read_text()
    assert NAMED in ran.stdout + ran.stderr
