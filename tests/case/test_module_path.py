"""The module that an operator ran in, as a user would write it."""

from __future__ import annotations

import pytest
import torch

from torchsleuth.case.from_torch import source_of


def _node(path: str, trace: str = "") -> torch.fx.Node:
    node = torch.fx.Graph().placeholder("x")
    node.meta["nn_module_stack"] = {"0": ("L['self']", object), "1": (path, object)}
    if trace:
        node.meta["stack_trace"] = trace
    return node


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("L['self'].decoder.layers.3.mlp", "decoder.layers[3].mlp"),
        ("L['self']._modules['decoder']._modules['layers']._modules['3']", "decoder.layers[3]"),
        ("L['model'].encoder.0", "model.encoder[0]"),
        ("L['fn'].1", "model[1]"),
    ],
)
def test_the_path_reads_like_python(path: str, shown: str) -> None:
    found = source_of(_node(path, '  File "/a/model.py", line 7, in forward\n    return self.mlp(x)\n'))
    assert found is not None
    assert (found.module, found.file, found.line) == (shown, "/a/model.py", 7)


def test_the_module_is_known_where_the_line_is_not() -> None:
    found = source_of(_node("L['fn'].1"))
    assert found is not None
    assert (found.module, found.file) == ("model[1]", "")
