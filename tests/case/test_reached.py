"""How a value is reached, in words that the user wrote."""

from __future__ import annotations

import pytest
import torch

from torchsleuth.case import from_torch
from torchsleuth.case.program.names import short_name
from torchsleuth.case.reached import reached


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("L['self']._modules['fc']._parameters['weight']", "self.fc.weight"),
        ("L['self'].__dict__['_modules']['time_embedding']._modules['act']", "self.time_embedding.act"),
        ("G['model'].__dict__['_buffers']['mean']", "model.mean"),
        ("L['self']._modules['heads']._modules['to-q']", "self.heads.to-q"),
        ("L['x']", "x"),
        ("L['xs'][0]", "xs[0]"),
    ],
)
def test_what_dynamo_writes_as_a_person_would(source: str, words: str) -> None:
    assert reached(source) == words


def test_inputs_have_names_without_the_steps_between() -> None:
    assert short_name("L['self'].__dict__['_modules']['fc']._parameters['weight']", "x") == "fc_weight"


class Old(torch.nn.Module):
    """As libraries do that keep old names of attributes alive."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = torch.nn.ModuleList([torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())])

    def __getattr__(self, name: str) -> object:
        return super().__getattr__(name)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.blocks[0](x)


def test_the_module_of_a_class_that_looks_its_attributes_up_itself() -> None:
    paths: list[str | None] = []

    def backend(gm: torch.fx.GraphModule, inputs: object) -> object:
        found = [from_torch.source_of(n) for n in gm.graph.nodes if n.op == "call_function"]
        paths.extend(s.module for s in found if s is not None)
        return gm.forward

    torch.compile(Old(), backend=backend)(torch.ones(1, 2))
    assert paths == ["blocks[0][0]", "blocks[0][1]"]
