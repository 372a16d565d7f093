"""What is read from an operator's name."""

from __future__ import annotations

import pytest

from torchsleuth.case.operator_names import bare


@pytest.mark.parametrize(
    ("target", "word"),
    [
        ("torch.nn.functional.relu", "relu"),
        ("torch.ops.aten.relu.default", "relu"),
        ("aten.cummin.default", "cummin"),
        ("aten::index_put_", "index_put"),
        ("operator.add", "add"),
    ],
)
def test_an_operator_is_known_by_its_bare_name(target, word):
    assert bare(target) == word
