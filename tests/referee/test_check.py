"""`torchsleuth.check` and the backend "torchsleuth"."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
import torch

import torchsleuth
from torchsleuth.backends import faulty, registered
from torchsleuth.errors import BadUsage
from torchsleuth.library import checking
from torchsleuth.library.check_file import model_and_inputs
from torchsleuth.referee import script
from torchsleuth.referee.graph import check_graph
from torchsleuth.referee.referee import Status
from torchsleuth.referee.wrong import NotChecked, WrongNumbers

WRONG = {"backend": faulty("relu", "accuracy")}
RIGHT = {"backend": "aot_eager"}


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)
        self.norm = torch.nn.BatchNorm1d(4)

    def forward(self, x: torch.Tensor, scale: float = 1.0) -> dict[str, torch.Tensor]:
        return {"logits": self.norm(self.fc(x)).relu() * scale}


def test_a_right_model_is_fine_and_stays_as_it_is() -> None:
    net, x = Net(), torch.randn(8, 4)
    before = {k: v.clone() for k, v in net.state_dict().items()}
    verdict = torchsleuth.check(net, x, scale=2.0, compile=RIGHT)
    assert verdict
    assert verdict.backward
    assert "agrees with eager" in str(verdict)
    assert all(torch.equal(v, before[k]) for k, v in net.state_dict().items())
    assert all(p.grad is None for p in net.parameters())
    assert verdict.raise_if_wrong() is verdict


def test_a_wrong_one_is_told_by_paths() -> None:
    verdict = torchsleuth.check(Net(), torch.randn(8, 4), compile=WRONG)
    assert not verdict
    assert verdict.wrong[0].path == "out['logits']"
    assert "<td>out[&#x27;logits&#x27;]</td>" in verdict._repr_html_()
    with pytest.raises(WrongNumbers, match="compiled is wrong in"):
        verdict.raise_if_wrong()


def test_without_gradients_only_the_forward_is_compared() -> None:
    with torch.no_grad():
        assert not torchsleuth.check(Net(), torch.randn(8, 4), compile=RIGHT).backward
    assert not torchsleuth.check(torch.sin, torch.ones(2), compile=RIGHT).backward


@pytest.mark.parametrize(
    "names",
    [
        {"make_model": Net, "make_inputs": lambda: (torch.ones(2, 4),)},
        {"model": Net(), "inputs": (torch.ones(2, 4),)},
        {"model": Net(), "inputs": {"x": torch.ones(2, 4)}},
        {"model": Net(), "inputs": torch.ones(2, 4)},
        {"model": lambda: (Net(), (torch.ones(2, 4),))},
    ],
)
def test_models_and_inputs_of_a_file(names: dict[str, Any]) -> None:
    model, inputs = model_and_inputs(names, "", "f.py")
    assert isinstance(model, Net)
    assert model(**inputs) if isinstance(inputs, dict) else model(*inputs)


@pytest.mark.parametrize(
    ("names", "name", "said"),
    [
        ({}, "", "defines no make_model or model"),
        ({"model": Net()}, "", "no inputs for model"),
        ({"model": 3, "inputs": ()}, "model", "cannot be called"),
        ({"model": Net()}, "net", "defines no net"),
    ],
)
def test_what_is_missing_is_said(names: dict[str, Any], name: str, said: str) -> None:
    with pytest.raises(BadUsage, match=said):
        model_and_inputs(names, name, "f.py")


def test_the_fixture_fails_a_test(torchsleuth_check: Any) -> None:
    assert torchsleuth_check(Net(), torch.randn(8, 4), compile=RIGHT)
    with pytest.raises(WrongNumbers):
        torchsleuth_check(Net(), torch.randn(8, 4), compile=WRONG)


@pytest.mark.slow
def test_the_backend_raises_before_a_wrong_result_is_used() -> None:
    def shift(x: torch.Tensor) -> torch.Tensor:
        x[1:] = x[:-1].clone()
        return x

    x = torch.rand(3, 16, 16)
    before = x.clone()
    verdict = torchsleuth.check(shift, x)
    net = torch.nn.Linear(3, 3)
    torch.compile(net, backend="torchsleuth")(torch.rand(2, 3)).sum().backward()
    assert net.weight.grad is not None
    if verdict:
        pytest.skip("this torch has no such bug any more")
    with pytest.raises(WrongNumbers):
        torch.compile(shift, backend="torchsleuth")(x)
    assert torch.equal(x, before)


@pytest.mark.slow
def test_the_command_line(tmp_path: Path, run_cli: Any) -> None:
    (tmp_path / "m.py").write_text(
        "import torch\nfrom torchsleuth.backends import faulty\n"
        "def good():\n    return torch.nn.Linear(2, 2), (torch.ones(1, 2),)\n"
        "def broken():\n    raise ValueError('no model')\n"
    )
    right = run_cli("check", tmp_path / "m.py:good")
    assert (right.returncode, "agrees with eager" in right.stdout) == (0, True)
    assert run_cli("check", tmp_path / "m.py:broken").returncode == 2
    assert run_cli("check", tmp_path / "nothing.py").returncode == 2


def test_a_check_is_none_of_eager_with_itself_however_many_there_were() -> None:
    """Dynamo compiles one function so often and then runs it in eager: what is wrong would agree."""
    torch.compiler.reset()
    limit = torch._dynamo.config.recompile_limit
    for size in range(2, limit + 4):
        model = torch.nn.Sequential(*[torch.nn.ReLU() for _ in range(size)])
        assert not torchsleuth.check(model, torch.ones(size), compile={"backend": faulty("relu", "accuracy")})
    assert torch._dynamo.config.recompile_limit == limit


def test_what_is_compiled_too_often_in_one_check_is_said_to_run_in_eager(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.compiler.reset()
    monkeypatch.setattr(checking, "_checks", itertools.count(1))

    def each(x: torch.Tensor, by: int) -> torch.Tensor:
        torch._dynamo.graph_break()
        return x * by

    def often(x: torch.Tensor) -> torch.Tensor:
        for by in range(2, 40):
            x = each(x, by) / by
        return x

    with torch._dynamo.config.patch(recompile_limit=1, automatic_dynamic_shapes=False):
        verdict = torchsleuth.check(often, torch.ones(2), compile={"backend": "eager"})
    assert verdict
    assert "ran in eager" in str(verdict)
    assert "ran in eager" not in str(torchsleuth.check(torch.sin, torch.ones(2), compile={"backend": "eager"}))


# --- neither right nor wrong ----------------------------------------------------------------------------------------


@torch.compiler.disable
def by_hand(x: torch.Tensor) -> torch.Tensor:
    return x + 1


def refusing(graph: Any, inputs: Any) -> Any:
    raise RuntimeError("no backend today")


@pytest.mark.parametrize(
    ("function", "options", "configured", "why"),
    [
        (lambda x: by_hand(x), RIGHT, {}, "Skip calling `torch.compiler.disable()`d function"),
        (lambda x: 3, RIGHT, {}, "Dynamo captured no operator"),
        (lambda x: [x, x], RIGHT, {}, "Dynamo captured no operator"),
        (torch.nn.ReLU(), {"disable": True}, {}, "disable=True"),
        (torch.nn.ReLU(), RIGHT, {"disable": True}, "torch._dynamo.config.disable is set"),
        (torch.nn.ReLU(), {"backend": refusing}, {"suppress_errors": True}, "no backend today"),
    ],
)
def test_where_nothing_is_compiled_nothing_agrees(
    function: Any, options: dict[str, Any], configured: dict[str, Any], why: str
) -> None:
    torch.compiler.reset()
    with torch._dynamo.config.patch(**configured):
        verdict = torchsleuth.check(function, torch.ones(2), compile=options)
    assert not verdict
    assert verdict.status is Status.NOTHING_COMPILED
    assert verdict.wrong == ()
    assert str(verdict).startswith("nothing was compiled, so there is nothing to compare with eager: ")
    assert why in str(verdict)
    assert "agrees" not in str(verdict)
    with pytest.raises(NotChecked, match="nothing was compiled"):
        verdict.raise_if_wrong()


def test_a_setting_of_the_process_that_keeps_everything_in_eager_is_named() -> None:
    with torch.compiler.set_stance("force_eager"):
        verdict = torchsleuth.check(torch.nn.ReLU(), torch.ones(2), compile=RIGHT)
    assert 'set_stance("force_eager")' in str(verdict)


def test_what_an_earlier_check_compiled_is_compiled_again() -> None:
    torch.compiler.reset()
    net = torch.nn.Linear(2, 2)
    assert [bool(torchsleuth.check(net, torch.ones(2), compile=RIGHT)) for _ in range(3)] == [True] * 3


def test_a_part_that_fell_back_to_eager_is_noted() -> None:
    def backend(graph: torch.fx.GraphModule, _: Any) -> Any:
        if any("sin" in node.name for node in graph.graph.nodes):
            raise RuntimeError("no sin today")
        return graph.forward

    def function(x: torch.Tensor) -> torch.Tensor:
        y = x.cos()
        torch._dynamo.graph_break()
        return y.sin()

    with torch._dynamo.config.patch(suppress_errors=True):
        verdict = torchsleuth.check(function, torch.ones(2), compile={"backend": backend})
    assert "part of it was compared with itself" in str(verdict)
    assert "no sin today" in str(verdict)


def test_eager_runs_nothing_that_the_program_compiled_itself() -> None:
    """A compiled model would be compared with itself."""
    torch.compiler.reset()
    verdict = torchsleuth.check(torch.compile(Net(), **WRONG), torch.randn(8, 4))
    assert "out['logits']" in {d.path for d in verdict.wrong}


@pytest.mark.parametrize(
    "backend",
    [
        {"backend": faulty("tanh", "accuracy", may_miss=True)},
        {"backend": faulty("threshold_backward", "accuracy", where="backward")},
        {"backend": "sleuth_faulty", "options": {"op": "tanh", "kind": "accuracy", "may_miss": True}},
    ],
)
def test_a_faulty_backend_that_planted_nothing_says_nothing_of_the_model(backend: dict[str, Any]) -> None:
    registered.register()
    with torch.no_grad():
        verdict = torchsleuth.check(torch.nn.ReLU(), torch.ones(2), compile=backend)
    assert verdict.status is Status.NOTHING_PLANTED
    assert "planted no fault" in str(verdict)
    assert "agrees" not in str(verdict)


def test_a_result_that_cannot_be_compared_fails_the_judged_script() -> None:
    def run(function: Any) -> Any:
        return function(torch.ones(2))

    def made() -> Any:
        return lambda x: iter([x + 1])

    with pytest.raises(NotChecked, match=r"nothing could be compared with eager: out \(iterator\)"):
        script.check(run, made, made, ["out"])


def test_a_graph_without_numbers_is_not_called_compared() -> None:
    meta = torch.ones(2, device="meta")
    report = check_graph(lambda x: x + 1, lambda x: x + 1, [meta], backward=False)
    assert report.status is Status.NOTHING_COMPARED
    assert [str(one) for one in report.not_compared] == [
        "out (meta tensor: it has no numbers)",
        "inputs[0] (meta tensor: it has no numbers)",
    ]


@pytest.mark.parametrize(
    ("text", "status", "first"),
    [
        ("model = lambda x: 3", 2, "nothing was compiled, so there is nothing to compare with eager: "),
        ("model = lambda x: iter([x + 1])", 2, "nothing that is returned could be compared with eager; not compared: "),
        ("model = lambda x: x + 1", 0, "compiled agrees with eager: "),
    ],
)
def test_the_command_line_says_agrees_only_where_something_was_compared(
    tmp_path: Path, run_cli: Any, text: str, status: int, first: str
) -> None:
    (tmp_path / "m.py").write_text(
        f"import torch\n{text}\ninputs = (torch.ones(2),)\nCOMPILE_KWARGS = {{'backend': 'eager'}}\n"
    )
    done = run_cli("check", "m.py")
    assert (done.returncode, done.stdout.startswith(first)) == (status, True), done.stdout + done.stderr
