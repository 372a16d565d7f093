"""What symbolic sizes stood for, read from a graph's shape environment."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import sympy
from torch.utils._sympy.numbers import int_oo

from torchsleuth.torch_api import symbols_of


def module_with(known: dict[Any, Any], ranges: dict[Any, Any]) -> Any:
    environment = SimpleNamespace(backed_var_to_val=known, var_to_range=ranges)
    value = SimpleNamespace(fake_mode=SimpleNamespace(shape_env=environment))
    nodes = [SimpleNamespace(meta={}), SimpleNamespace(meta={"val": value})]
    return SimpleNamespace(graph=SimpleNamespace(nodes=nodes))


@pytest.mark.parametrize("infinity", [sympy.oo, int_oo])
def test_each_symbol_with_its_value_and_range(infinity: Any) -> None:
    s0 = sympy.Symbol("s0")
    between = SimpleNamespace(lower=sympy.Integer(2), upper=infinity)
    found = symbols_of(module_with({s0: sympy.Integer(8)}, {s0: between}))
    assert found == {"s0": {"value": 8, "low": 2, "high": None}}


def test_the_size_of_a_jagged_dimension_is_no_number() -> None:
    s0, s1 = sympy.symbols("s0 s1")
    found = symbols_of(module_with({s0: sympy.Symbol("j0"), s1: sympy.Integer(3)}, {}))
    assert found == {"s1": {"value": 3, "low": None, "high": None}}


def test_a_graph_without_sizes_has_none() -> None:
    assert symbols_of(SimpleNamespace(graph=SimpleNamespace(nodes=[SimpleNamespace(meta={})]))) == {}
