"""The tables of properties: known operators, and agreement with the schemas of the installed torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from torchsleuth.case.ir import Node, Op, Ref
from torchsleuth.operators import properties, python_operators
from torchsleuth.operators.names import parse
from torchsleuth.operators.properties import is_in_place
from torchsleuth.operators.public import public_name
from torchsleuth.reduce.aliases import aten_names
from torchsleuth.reduce.edit import changed_by
from torchsleuth.reduce.passes.in_place import _plain

AUGMENTED = sorted(python_operators.IN_PLACE)
OPERANDS = (Ref("x"), Ref("y"))


def schemas() -> Iterator[tuple[str, Any]]:
    """Every ATen operator that has a kernel: its name, and its schema."""
    for schema in torch._C._jit_get_all_schemas():
        name = schema.name + (f".{schema.overload_name}" if schema.overload_name else "")
        if schema.name.startswith("aten::") and torch._C._dispatch_has_kernel(name):
            yield name, schema


def written(schema: Any) -> list[int]:
    """Places of the arguments that a call writes to, `out=` apart."""
    arguments = enumerate(schema.arguments)
    return [i for i, a in arguments if a.alias_info is not None and a.alias_info.is_write and not a.is_out]


def test_there_are_schemas_to_compare_with() -> None:
    assert len(list(schemas())) > 2000


def test_what_a_schema_writes_may_be_written_by_the_table() -> None:
    assert [name for name, schema in schemas() if written(schema) and not properties.may_write(name)] == []
    more = [name for name, schema in schemas() if any(written(schema)) and not properties.may_write_several(name)]
    assert more == []


def test_in_place_operators_write_by_their_schemas() -> None:
    assert [name for name, schema in schemas() if is_in_place(name) and not written(schema)] == []


def test_views_of_the_schemas_are_views_of_the_table() -> None:
    def is_view(schema: Any) -> bool:
        first = schema.arguments[0].alias_info if schema.arguments else None
        return first is not None and not written(schema) and any(r.alias_info is not None for r in schema.returns)

    found = [name for name, schema in schemas() if is_view(schema) and not properties.may_share_memory(name)]
    assert found == ["aten::_test_autograd_multiple_dispatch_view"]  # torch's own test


def test_operators_that_torch_tags_as_random_may_draw() -> None:
    words = sorted({schema.name.removeprefix("aten::") for _, schema in schemas()})
    packets = [getattr(torch.ops.aten, word) for word in words]
    overloads = [getattr(packet, name) for packet in packets for name in packet.overloads()]
    random = [str(o) for o in overloads if torch.Tag.nondeterministic_seeded in o.tags]
    assert len(random) > 100
    assert [name for name in random if not properties.may_draw(name)] == []


@pytest.mark.parametrize(
    "target",
    ["relu_", "torch.relu_", "torch.ops.aten.add_.Tensor", "operator.iadd", "_operator.iand", "operator.setitem",
     "__ior__", "torch.ops.aten.__ilshift__.Scalar", "torch.nn.functional.relu_"],
)  # fmt: skip
def test_operators_in_place(target: str) -> None:
    assert is_in_place(target)
    assert list(changed_by(Node("n", Op.CALL_FUNCTION, target, OPERANDS))) == ["x"]


@pytest.mark.parametrize(
    "target",
    ["relu", "operator.and_", "operator.not_", "operator.is_", "operator.invert", "operator.indexOf", "__and__",
     "torch.ops.aten.add.Tensor", "torch.ops.aten._to_copy.default"],
)  # fmt: skip
def test_operators_that_are_not_in_place(target: str) -> None:
    assert not is_in_place(target)
    assert list(changed_by(Node("n", Op.CALL_FUNCTION, target, OPERANDS))) == []


def test_a_submodule_is_no_operator_in_place() -> None:
    assert list(changed_by(Node("n", Op.CALL_MODULE, "layers.first_", OPERANDS))) == []


@pytest.mark.parametrize("name", AUGMENTED)
def test_every_augmented_assignment_is_known_to_all_who_ask(name: str) -> None:
    """The renderer, the pass that makes a new value, the aliases and the reducer read one table."""
    plain = python_operators.IN_PLACE[name]
    assert python_operators.augmented_sign(name) == f"{python_operators.INFIX[plain]}="
    node = Node("n", Op.CALL_FUNCTION, f"operator.{name}", OPERANDS)
    assert _plain(node) == f"operator.{plain}"
    assert list(changed_by(node)) == ["x"]
    assert plain.strip("_") in aten_names(name)


def test_pythons_own_in_place_operators_are_in_the_table() -> None:
    import operator

    functions = [name for name in dir(operator) if hasattr(operator, f"__{name}__") and name.startswith("i")]
    ours = {*AUGMENTED, "iconcat"}  # lists, not tensors
    not_in_place = {"index", "inv", "invert"}
    assert set(functions) - not_in_place == ours


@pytest.mark.parametrize(
    ("target", "public", "is_method"),
    [
        ("torch.ops.aten.relu.default", "torch.relu", False),
        ("torch.ops.aten.gelu.default", "torch.nn.functional.gelu", False),
        ("torch.ops.aten.add_.Tensor", "add_", True),
        ("torch.ops.aten._softmax.default", "torch.softmax", False),
        ("torch.ops.prims.rev.default", "torch.flip", False),
    ],
)
def test_public_names(target: str, public: str, is_method: bool) -> None:
    found = public_name(parse(target))
    assert found is not None
    assert (found.name, found.is_method) == (public, is_method)


@pytest.mark.parametrize("target", ["torch.ops.aten._weight_norm.default", "torch.ops.mylib.foo.default", "torch.relu"])
def test_no_public_name_is_guessed(target: str) -> None:
    assert public_name(parse(target)) is None
