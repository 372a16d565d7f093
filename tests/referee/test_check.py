"""`torchsleuth.check` and the backend "torchsleuth"."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
import torch

import torchsleuth
from torchsleuth.backends import faulty
from torchsleuth.errors import BadUsage
from torchsleuth.library import checking
from torchsleuth.library.check_file import model_and_inputs
from torchsleuth.referee.wrong import WrongNumbers

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
