"""`minimize` on scripts: any that fails, those that torch's own tools write, those that a command judges."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from command_line import RunCli, environment_without_torch_settings, torch_script
from torchsleuth.commands import scripts
from torchsleuth.errors import BadUsage
from torchsleuth.watch import foreign

LAUNCHER = """
import torch
mod = torch.nn.Identity()
if __name__ == '__main__':
    from torch._dynamo.repro.{tool} import run_repro
    run_repro(mod, lambda reader: None, command='minify')
"""


@pytest.mark.parametrize("tool", ["after_aot", "after_dynamo"])
def test_what_torch_wrote_is_run_by_us_and_not_minified_by_torch(tmp_path: Path, tool: str) -> None:
    script = tmp_path / "minifier_launcher.py"
    script.write_text(LAUNCHER.format(tool=tool))
    assert scripts.command_of(script) == [sys.executable, "-m", "torchsleuth.watch.foreign", str(script)]


def test_any_other_script_is_a_program(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("print('from torch._dynamo.repro.after_aot import run_repro')\n")
    assert scripts.command_of(script) == [sys.executable, str(script)]
    assert foreign.written_by_torch(script.read_text()) is None


def test_scripts_that_do_not_parse_are_refused_with_the_line(tmp_path: Path) -> None:
    script = tmp_path / "minifier_launcher.py"
    script.write_text("import torch\ndef f(x):\n    return <built-in>\n")
    with pytest.raises(BadUsage, match=r"line 3.*torchsleuth run"):
        scripts.command_of(script)


def test_repros_of_aotinductor_are_refused(tmp_path: Path) -> None:
    script = tmp_path / "repro.py"
    script.write_text(LAUNCHER.format(tool="aoti"))
    with pytest.raises(BadUsage, match="AOTInductor"):
        scripts.command_of(script)


PROGRAM = """
    import torch._inductor.config
    torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "compile_error"

    def f(x, w):
        return torch.relu(torch.sin(x) @ w).cos()

    torch.compile(f)(torch.randn(4, 8), torch.randn(8, 8, requires_grad=True))
"""


@pytest.mark.slow
@pytest.mark.parametrize("after", ["dynamo", "aot"])
def test_a_launcher_that_torch_wrote_is_reduced_to_one_operator(tmp_path: Path, run_cli: RunCli, after: str) -> None:
    program = torch_script(tmp_path, PROGRAM)
    environment = {
        **environment_without_torch_settings(),
        "TORCHDYNAMO_REPRO_AFTER": after,
        "TORCHDYNAMO_REPRO_LEVEL": "2",
        "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache"),
    }
    subprocess.run([sys.executable, program], cwd=tmp_path, env=environment, capture_output=True, check=False)
    [launcher] = tmp_path.glob("torch_compile_debug/*/minifier/minifier_launcher.py")
    done = run_cli("minimize", "--out", "small", launcher, timeout=600)
    assert done.returncode == 1, done.stderr
    [failure] = json.loads((tmp_path / "small" / "result.json").read_text())["failures"]
    assert failure["component"] == "inductor"
    assert failure["repro"]["verified"]
    assert failure["repro"]["ops"] == 1
    assert "relu" in failure["culprit"]["op"]
    assert failure["workaround"], "leaving out the switch that plants the bug helps"
    assert "inject_relu_bug" in failure["workaround"]


WORKS = """
    def f(x):
        for _ in range(5):
            x = torch.sin(x) + 1
        return torch.cos(torch.relu(x))

    torch.compile(f, backend="eager")(torch.randn(4, 4))
"""


@pytest.mark.slow
def test_a_command_says_what_to_look_for(tmp_path: Path, run_cli: RunCli) -> None:
    program = torch_script(tmp_path, WORKS)
    done = run_cli("minimize", "--out", "small", "--check", "grep -q torch.relu {} && exit 1 || exit 0", program)
    assert done.returncode == 1, done.stderr
    [failure] = json.loads((tmp_path / "small" / "result.json").read_text())["failures"]
    assert failure["repro"] | {"lines": 0, "imports": []} == {
        "path": "repro.py", "verified": True, "failed_runs": 3, "runs": 3, "form": "torch.compile", "ops": 1,
        "lines": 0, "imports": [], "data_bytes": 0, "literal_numbers": 0, "source_lines": 0,
    }  # fmt: skip
    assert failure["reduction"]["ops_before"] == 12
    text = (tmp_path / "small" / "repro.py").read_text()
    assert "grep -q torch.relu" in text
    run = subprocess.run([sys.executable, tmp_path / "small" / "repro.py"], env={**os.environ}, check=False)
    assert run.returncode == 0, "what is written runs"

    again = run_cli("minimize", "--out", "again", "--check", "grep -q torch.tanh {} && exit 1 || exit 0", "small")
    assert again.returncode == 3, again.stderr
    assert "the check finds nothing wrong" in again.stdout

    wrong = run_cli("minimize", "--out", "wrong", "--check", "no-such-command-here", "small")
    assert wrong.returncode == 2
    assert "no-such-command-here" in wrong.stderr
    assert "Traceback" not in wrong.stderr
