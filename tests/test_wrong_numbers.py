"""Wrong numbers, from a program that only says that it failed, to a repro."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from command_line import RunCli, torch_script

pytestmark = pytest.mark.slow

_MODEL = """
    from torchsleuth.backends import faulty

    def f(x, w):
        for _ in range(4):
            x = torch.sin(x @ w)
        x = torch.tanh(x)
        for _ in range(4):
            x = torch.cos(x @ w)
        return x

    torch.manual_seed(0)
    inputs = torch.randn(5, 7), torch.randn(7, 7)
"""


def found(run_cli: RunCli, script: Path, out: Path, *options: str) -> dict[str, Any]:
    run_cli("run", "--out", out, *options, script, timeout=900)
    result: dict[str, Any] = json.loads((out / "result.json").read_text())
    return result


def test_the_operator_that_is_to_blame_is_left(run_cli: RunCli, tmp_path: Path) -> None:
    script = torch_script(
        tmp_path,
        _MODEL
        + """
    got = torch.compile(f, backend=faulty("tanh", "accuracy"))(*inputs)
    assert torch.allclose(got, f(*inputs)), "the loss is off"
    """,
    )
    result = found(run_cli, script, tmp_path / "out")
    [failure] = result["failures"]
    assert (result["verdict"], result["exit_code"], failure["kind"]) == ("failure", 1, "accuracy")
    assert result["watched"]["numbers_checked"] == 1
    assert (failure["component"], failure["phase"]) == ("backend", "run-forward")
    assert "tanh" in failure["culprit"]["op"]
    assert (failure["repro"]["verified"], failure["repro"]["ops"], failure["repro"]["data_bytes"]) == (True, 1, 0)
    assert failure["reduction"]["judged_to_smallest"] <= 10
    assert "torch.testing.assert_close" in (tmp_path / "out" / "repro.py").read_text()


def test_gradients_are_compared_where_the_program_used_them(run_cli: RunCli, tmp_path: Path) -> None:
    script = torch_script(
        tmp_path,
        """
    from torchsleuth.backends import faulty

    def f(x):
        return torch.sigmoid(torch.tanh(x) * 2)

    x = torch.linspace(-1, 1, 6, requires_grad=True)
    torch.compile(f, backend=faulty("tanh_backward", "accuracy", where="backward"))(x).sum().backward()
    got, x.grad = x.grad, None
    f(x).sum().backward()
    assert torch.allclose(got, x.grad)
    """,
    )
    result = found(run_cli, script, tmp_path / "out", "--no-minimize")
    [failure] = result["failures"]
    assert (failure["kind"], failure["phase"]) == ("accuracy", "run-backward")
    assert failure["repro"]["verified"]
    assert ".backward(" in (tmp_path / "out" / "repro.py").read_text()


def test_a_program_whose_own_assertion_is_wrong_is_not_the_compilers(run_cli: RunCli, tmp_path: Path) -> None:
    script = torch_script(
        tmp_path, "torch.compile(torch.sin, backend='aot_eager')(torch.ones(3))\nassert False, 'my own'\n"
    )
    result = found(run_cli, script, tmp_path / "out")
    assert (result["verdict"], result["failures"]) == ("program-error", [])
    assert any("fails with compilation off, too" in note for note in result["notes"])


def test_what_float64_sides_with_is_no_bug(run_cli: RunCli, tmp_path: Path) -> None:
    script = torch_script(
        tmp_path,
        """
    def backend(graph, inputs):
        return lambda *inputs: tuple(t.half() for t in graph.forward(*(i.float() for i in inputs)))

    def f(x):
        return ((x * x).sqrt(),)

    x = torch.full((4,), 300.0).half()
    torch.testing.assert_close(torch.compile(f, backend=backend)(x), f(x))
    """,
    )
    result = found(run_cli, script, tmp_path / "out")
    assert (result["verdict"], result["failures"]) == ("program-error", [])
    assert any("float64 sides with compiled" in note for note in result["notes"])


def test_numbers_can_be_asked_for_at_once(run_cli: RunCli, tmp_path: Path) -> None:
    script = torch_script(tmp_path, _MODEL + "\n    torch.compile(f, backend=faulty('tanh', 'accuracy'))(*inputs)\n")
    assert found(run_cli, script, tmp_path / "plain")["verdict"] == "ok"
    asked = found(run_cli, script, tmp_path / "asked", "--numerics", "--no-minimize")
    assert (asked["verdict"], asked["exit_code"]) == ("failure", 0)


def test_what_dynamo_loses_is_dynamos(run_cli: RunCli, tmp_path: Path) -> None:
    script = torch_script(
        tmp_path,
        """
    def f(x):
        y = x.clone()
        y.as_strided_((2, 2), (2, 1))
        return y.sum(0), y.size()[0]

    want = f(torch.arange(4.0))[1]
    got = torch.compile(f, backend="eager")(torch.arange(4.0))[1]
    assert got == want
    """,
    )
    result = found(run_cli, script, tmp_path / "out", "--budget", "300")
    if result["exit_code"] == 0:
        pytest.skip("this torch has no such bug any more")
    [failure] = result["failures"]
    assert (result["verdict"], failure["component"]) == ("failure", "dynamo")
    assert (failure["repro"]["form"], failure["repro"]["verified"]) == ("frame", True)
    assert failure["repro"]["ops"] >= 1  # counted in a run of its own
    assert "as_strided_" in (tmp_path / "out" / "repro.py").read_text()


def test_a_program_that_differs_although_no_graph_does_is_reproduced_from_its_source(
    run_cli: RunCli, tmp_path: Path
) -> None:
    """What is lost is that two results share memory; the program tells of it by its exit status."""
    script = torch_script(
        tmp_path,
        """
    import sys

    def cloning(gm, inputs):
        return lambda *args: tuple(t.clone() for t in gm(*args))

    def f(x):
        y = x.sin()
        return y, y.view(-1)

    unrelated = torch.ones(3)
    whole, view = torch.compile(f, backend=cloning)(torch.zeros(2, 2))
    view.add_(1)
    print("filled with", whole.sum(), unrelated)
    if whole.sum() != 4:
        sys.exit(1)
    """,
    )
    result = found(run_cli, script, tmp_path / "out", "--budget", "300")
    [failure] = result["failures"]
    assert (result["verdict"], failure["kind"], failure["component"]) == ("failure", "accuracy", "backend")
    assert (failure["repro"]["form"], failure["repro"]["verified"]) == ("frame", True)
    text = (tmp_path / "out" / "repro.py").read_text()
    assert "AssertionError" in text
    assert "sys" not in text
    assert "unrelated" not in text
    assert any("the backend is to blame" in note for note in result["notes"])


def test_a_result_in_another_order_of_memory_is_found_where_no_number_is_wrong(run_cli: RunCli, tmp_path: Path) -> None:
    script = torch_script(
        tmp_path,
        """
    def in_rows(gm, inputs):
        return lambda *args: tuple(t.contiguous() for t in gm(*args))

    def f(x):
        y = x.sin().cos()
        return y.t().add(1)

    torch.compile(f, backend=in_rows)(torch.ones(2, 3)).t().view(-1)  # in eager, it is one row after the other
    """,
    )
    result = found(run_cli, script, tmp_path / "out", "--budget", "300")
    [failure] = result["failures"]
    assert failure["fingerprint"] == "accuracy: stride"
    assert failure["repro"]["form"] == "torch.compile"
    assert failure["repro"]["verified"]
    assert failure["repro"]["ops"] == 1
    assert failure["culprit"]["source"] == "program.py:8"
    assert "check_stride=True" in (tmp_path / "out/repro.py").read_text()
    assert any("(the strides) of a result" in note for note in result["notes"])


def test_an_input_that_a_compiled_backward_overwrites_is_found(run_cli: RunCli, tmp_path: Path) -> None:
    """No operator of the graph writes, and the forward is right."""
    script = torch_script(
        tmp_path,
        """
    from functorch.compile import make_boxed_func
    from torch._dynamo.backends.common import aot_autograd

    def spoiling(gm, inputs):
        def run(*args):
            given = gm(*args)
            for arg in args[:-1]:  # what the forward saved; the last is the gradient that is given
                arg.zero_()
            return given
        return make_boxed_func(run)

    backend = aot_autograd(fw_compiler=lambda gm, _: make_boxed_func(gm), bw_compiler=spoiling)

    def f(x):
        return (x.sin() + 1).abs()

    x = torch.ones(4, requires_grad=True)
    torch.compile(f, backend=backend)(x).sum().backward()
    if not bool(x.all()):
        raise SystemExit("x is not what it was")
    """,
    )
    result = found(run_cli, script, tmp_path / "out", "--budget", "300")
    [failure] = result["failures"]
    assert (failure["kind"], failure["phase"]) == ("accuracy", "run-backward")
    assert (failure["repro"]["verified"], failure["repro"]["form"], failure["repro"]["ops"]) == (
        True,
        "torch.compile",
        1,
    )
    assert "    return x\n" in (tmp_path / "out/repro.py").read_text()


def test_a_nan_that_is_lost_is_found_with_one_that_is_made(run_cli: RunCli, tmp_path: Path) -> None:
    """Deep in the model, and in one row of many: no random input has one."""
    script = torch_script(
        tmp_path,
        """
    def clean(gm, inputs):
        for node in gm.graph.nodes:
            if "hardshrink" in str(node.target):
                with gm.graph.inserting_after(node):
                    mended = gm.graph.call_function(torch.nan_to_num, (node,))
                node.replace_all_uses_with(mended)
                mended.args = (node,)
        gm.recompile()
        return gm

    def f(x, w):
        for _ in range(3):
            x = torch.tanh(x @ w)
        x = torch.nn.functional.hardshrink(x, 0.1)
        return x + 1

    torch.manual_seed(0)
    x, w = torch.randn(12, 8), torch.randn(8, 8)
    x[5, 2] = float("nan")
    torch.testing.assert_close(torch.compile(f, backend=clean)(x, w), f(x, w), equal_nan=True)
    """,
    )
    result = found(run_cli, script, tmp_path / "out", "--budget", "300")
    [failure] = result["failures"]
    assert failure["fingerprint"] == "accuracy: nan"
    assert (failure["repro"]["verified"], failure["repro"]["ops"], failure["repro"]["data_bytes"]) == (True, 1, 0)
    assert 'torch.full((2,), float("nan"))' in (tmp_path / "out/repro.py").read_text()


def test_random_numbers_that_differ_by_design_are_said_to(run_cli: RunCli, tmp_path: Path) -> None:
    script = torch_script(
        tmp_path,
        """
    f = lambda x: torch.nn.functional.dropout(x, 0.5)
    torch.manual_seed(1)
    got = torch.compile(f)(torch.ones(64))
    torch.manual_seed(1)
    assert torch.equal(got, f(torch.ones(64)))
    """,
    )
    result = found(run_cli, script, tmp_path / "out")
    assert (result["verdict"], result["failures"]) == ("program-error", [])
    assert any("fallback_random" in note for note in result["notes"])


def test_memory_that_is_spoilt_and_shows_only_at_the_end_is_looked_for(run_cli: RunCli, tmp_path: Path) -> None:
    """The numbers are wrong, too, and the program dies after it has said so."""
    script = torch_script(
        tmp_path,
        _MODEL
        + """
    import atexit, os
    got = torch.compile(f, backend=faulty("tanh", "accuracy"))(*inputs)
    if not torch.allclose(got, f(*inputs)):
        atexit.register(os.abort)
    """,
    )
    result = found(run_cli, script, tmp_path / "out", "--no-minimize")
    [failure] = result["failures"]
    assert (result["verdict"], result["exit_code"], failure["kind"]) == ("failure", -6, "accuracy")


def test_wrong_numbers_behind_functorchs_levels_are_reduced_after_aotautograd(run_cli: RunCli, tmp_path: Path) -> None:
    script = torch_script(
        tmp_path,
        """
    import torch._inductor.config
    torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"

    f = torch.vmap(lambda x: torch.relu(x.sin() * 3).cos().sum())
    x = torch.linspace(-2, 2, 20).reshape(4, 5)
    assert torch.allclose(torch.compile(f)(x), f(x))
    """,
    )
    result = found(run_cli, script, tmp_path / "out")
    [failure] = result["failures"]
    assert (result["verdict"], failure["kind"], failure["repro"]["ops"]) == ("failure", "accuracy", 1)
    assert "functorch" not in (tmp_path / "out" / "repro.py").read_text()


def test_the_users_cache_of_kernels_is_left_as_it_was(
    run_cli: RunCli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program is run again to compare numbers, with another setting: nothing of that may stay."""
    cache = tmp_path / "cache"
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(cache))
    (tmp_path / "plant.py").write_text(
        "import torch\nfrom torch._inductor import lowering\n\n"
        "table, old = lowering.lowerings, lowering.lowerings[torch.ops.aten.asinh.default]\n\n"
        "def wrong(x):\n    return table[torch.ops.aten.add.Tensor](old(x), 1)\n\n"
        "lowering.lowerings[torch.ops.aten.asinh.default] = wrong\n"
    )
    script = torch_script(
        tmp_path,
        """
    import plant

    def f(x):
        return torch.asinh(x).cos()

    x = torch.arange(9.0)
    torch.testing.assert_close(torch.compile(f)(x), f(x))
    """,
    )
    subprocess.run([sys.executable, str(script)], cwd=tmp_path, capture_output=True, check=False)
    before = contents(cache)
    result = found(run_cli, script, tmp_path / "out", "--no-minimize")
    [failure] = result["failures"]
    assert (failure["kind"], failure["repro"]["verified"]) == ("accuracy", True)
    assert before
    assert contents(cache) == before


def contents(folder: Path) -> dict[str, bytes]:
    files = [p for p in folder.rglob("*") if p.is_file() and p.suffix != ".lock"]
    return {str(p.relative_to(folder)): p.read_bytes() for p in files}
