"""Which module, and which line, a node of a kept graph is said to come from."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch._dynamo
import torch._inductor.config
from watched import Watch

from torchsleuth.backends import faulty
from torchsleuth.case import folder
from torchsleuth.case.model import Case

pytestmark = pytest.mark.slow


@pytest.fixture
def watch(tmp_path: Path) -> Watch:
    return Watch(tmp_path)


def test_of_a_module_of_torchs_own_the_line_is_the_one_that_called_it(watch: Watch) -> None:
    model = torch.compile(torch.nn.ReLU(), backend=faulty("relu", "compile-error"))

    def program() -> None:
        model(torch.ones(3))  # this line

    _, case = watch.one(program)
    [relu] = [n for n in case.graph.nodes if n.is_call]
    assert relu.source is not None
    assert Path(relu.source.file).name == "test_module_names.py"
    assert relu.source.code == "model(torch.ones(3))  # this line"
    assert relu.source.module == "model"


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc, self.act = torch.nn.Linear(2, 2), torch.nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.fc(x)
        torch._dynamo.graph_break()
        return self.act(y)


class Blocks(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stack = torch.nn.ModuleDict({"encoder": torch.nn.ModuleList([torch.nn.Tanh(), Block()])})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for part in self.stack["encoder"]:
            x = part(x)
        return x


@pytest.mark.parametrize(("op", "module"), [("addmm", "fc"), ("relu", "act")])
def test_modules_of_a_layer_that_is_compiled_by_itself_are_named_from_the_whole_model(
    watch: Watch, op: str, module: str
) -> None:
    model = torch.compile(Blocks(), backend=faulty(op, "compile-error"))
    _, case = watch.one(lambda: model(torch.ones(1, 2)))
    assert modules_of(case) == {f"stack.encoder[1].{module}"}


def test_so_are_those_of_the_graph_after_aot_autograd(watch: Watch) -> None:
    with torch._inductor.config.patch("cpp.inject_relu_bug_TESTING_ONLY", "compile_error"):
        found, _ = watch.one(lambda: torch.compile(Blocks())(torch.ones(1, 2)))
    assert found.case is not None
    assert modules_of(folder.load(found.case / "inner", ours=True)) - {""} == {"stack.encoder[1].act"}


def modules_of(case: Case) -> set[str]:
    return {n.source.module for n in case.graph.nodes if n.is_call and n.source}
