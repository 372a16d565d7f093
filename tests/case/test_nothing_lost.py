"""No field of a Case is lost on its way to disk and back: each is set to something else than its default."""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from case_helpers import exactly, relu_case, relu_graph

from torchsleuth.case import codec, folder
from torchsleuth.case.failure import Failure, Fingerprint, Kind, Phase
from torchsleuth.case.ir import Source
from torchsleuth.case.model import (
    Autocast,
    Backend,
    Case,
    Check,
    Code,
    Level,
    Opaque,
    Scalar,
    Storage,
    Surroundings,
    Tensor,
)
from torchsleuth.reduce.journal import Journal

WRONG = Failure(Kind.ACCURACY, Phase.RUN_FORWARD, Fingerprint("accuracy", "values"), "rows", "out is wrong")
CHECK = Check(("out[1]",), "ones", 1e-3, 1e-4, False, True, True)
# For each field of a Case, a Case in which it is not what `relu_case()` has.
CHANGED: dict[str, dict[str, Any]] = {
    "level": {"level": Level.ATEN},
    "graph": {"graph": dataclasses.replace(relu_graph(), nodes=tuple(
        dataclasses.replace(n, source=Source("model.py", 3, "f", "x.relu()")) for n in relu_graph().nodes
    ))},
    "inputs": {"inputs": (Tensor("torch.float64", (2, 3), (1, 2), source="L['x']"),), "storages": (Storage(48),)},
    "constants": {"constants": (Tensor("torch.int64", (2,), (1,), storage=0),)},
    "storages": {"storages": (Storage(24, digest="abc"),)},
    "surroundings": {"surroundings": Surroundings(dynamic=True)},
    "phase": {"phase": Phase.RUN_BACKWARD},
    "failure": {"failure": Failure(Kind.HANG, Phase.RUN_FORWARD, Fingerprint("hang"))},
    "versions": {"versions": {"torch": "2.13.0"}},
    "compile_id": {"compile_id": "1/0"},
    "context": {"context": {"kwargs": {"is_inference": True}}},
    "check": {"check": CHECK},
}  # fmt: skip


def test_every_field_of_a_case_is_tried() -> None:
    assert set(CHANGED) == {field.name for field in dataclasses.fields(Case)}


@pytest.mark.parametrize("name", sorted(CHANGED))
def test_a_field_of_a_case_is_kept_in_the_folder(name: str, tmp_path: Path) -> None:
    case = dataclasses.replace(relu_case(), **CHANGED[name])
    assert exactly(getattr(case, name)) != exactly(getattr(relu_case(), name))
    folder.save(case, tmp_path)
    assert exactly(folder.load(tmp_path, ours=True)) == exactly(case)


@pytest.mark.parametrize("name", sorted(set(CHANGED) - {"failure"}))
def test_a_field_of_a_case_is_kept_in_the_journal(name: str, tmp_path: Path) -> None:
    case = dataclasses.replace(relu_case(), **CHANGED[name])
    Journal(tmp_path / "journal.jsonl").note_smaller(case)
    assert exactly(Journal(tmp_path / "journal.jsonl").smallest(ours=True)) == exactly(case)


def other_than_default(kind: Any, name: str) -> Any:
    """A value of an annotated type that no default is."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        fields = {f.name: other_than_default(hints[f.name], f.name) for f in dataclasses.fields(kind)}
        return typing.cast(Any, kind)(**fields)
    if origin in (typing.Union, types.UnionType):
        return other_than_default(next(a for a in arguments if a is not type(None)), name)
    if origin is tuple:
        inner = arguments[:1] if arguments[-1] is Ellipsis else arguments
        return tuple(other_than_default(one, name) for one in inner)
    if origin is not None and issubclass(origin, Mapping):
        return {"key": other_than_default(arguments[1], name)}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return list(kind)[-1]
    return {bool: True, int: 7, float: 0.25, str: f"a {name}", typing.Any: "anything"}[kind]


@pytest.mark.parametrize("kind", [Surroundings, Backend, Autocast, Code, Tensor, Scalar, Opaque, Storage, Check])
def test_every_field_of_a_part_is_kept(kind: type[Any]) -> None:
    value = other_than_default(kind, "")
    flipped = {
        f.name: not getattr(value, f.name)
        for f in dataclasses.fields(kind)
        if isinstance(f.default, bool) and getattr(value, f.name) is f.default
    }
    value = dataclasses.replace(value, **flipped)
    for field in dataclasses.fields(kind):
        assert getattr(value, field.name) != field.default, f"{field.name} has its default"
    assert exactly(codec.decode(kind, json.loads(json.dumps(codec.encode(value))))) == exactly(value)


def test_every_field_of_a_failure_is_kept() -> None:
    whole = dataclasses.replace(WRONG, fingerprint=Fingerprint("accuracy", "values", ("graph.py:run",)))
    assert Failure.from_json(json.loads(json.dumps(whole.to_json()))) == whole
    assert all(getattr(whole, f.name) for f in dataclasses.fields(Failure))


@pytest.mark.parametrize(("failure", "check"), [(WRONG, Check()), (dataclasses.replace(WRONG, kind=Kind.HANG), None)])
def test_a_folder_from_before_the_check_was_kept_is_read(failure: Failure, check: Check | None, tmp_path: Path) -> None:
    """Wrong numbers show in a comparison only, so a Case of that kind is never without one."""
    folder.save(dataclasses.replace(relu_case(), failure=failure, check=CHECK), tmp_path)
    data = json.loads((tmp_path / folder.META).read_text())
    del data["check"]
    (tmp_path / folder.META).write_text(json.dumps(data))
    assert folder.load(tmp_path).check == check


def test_a_smallest_case_of_an_old_journal_is_not_taken_up_without_its_check(tmp_path: Path) -> None:
    """Its failure is not in the journal, so nobody could say what is to be compared."""
    place = tmp_path / "journal.jsonl"
    Journal(place).note_smaller(dataclasses.replace(relu_case(), check=CHECK))
    row = json.loads(place.read_text())
    del row["case"]["check"]
    place.write_text(json.dumps(row) + "\n")
    assert Journal(place).smallest(ours=True) is None
