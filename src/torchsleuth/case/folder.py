"""A Case on disk: graph.py to read, case.json beside it, tensors.safetensors for what was kept of memory.

Opening one runs nothing and imports neither torch nor anything that the Case names.  Every file is checked before it is
believed: schema, shape of the JSON, names in the graph text, the length of the tensor file.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from torchsleuth.case import checks, codec, files, graph_text
from torchsleuth.case.failure import Failure, Kind, Phase
from torchsleuth.case.model import SCHEMA, Case, Check, Input, Level, Opaque, Scalar, Storage, Surroundings, Tensor
from torchsleuth.errors import DamagedCase, NewerSchema

GRAPH, META, TENSORS = "graph.py", "case.json", "tensors.safetensors"
_INPUTS: dict[str, type[Tensor] | type[Scalar] | type[Opaque]] = {"tensor": Tensor, "scalar": Scalar, "opaque": Opaque}


_NOT_THE_USERS = {*sys.stdlib_module_names, "torch", "torchsleuth", "numpy", "builtins"}


def save(case: Case, folder: Path) -> None:
    """Everything but the tensors' bytes, which `tensors.save` writes."""
    text = graph_text.write(case.graph)  # raises what it cannot hold, before there is half a Case
    folder.mkdir(parents=True, exist_ok=True)
    files.write_text(folder / GRAPH, text)
    files.write_json(folder / META, to_json(case))


def to_json(case: Case) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "level": case.level.value,
        "phase": case.phase.value,
        "compile_id": case.compile_id,
        "failure": case.failure.to_json() if case.failure else None,
        "versions": dict(case.versions),
        "inputs": [{"kind": _kind(i), **codec.encode(i)} for i in case.inputs],
        "constants": codec.encode(case.constants),
        "storages": codec.encode(case.storages),
        "surroundings": codec.encode(case.surroundings),
        "context": codec.encode(case.context),
        "check": codec.encode(case.check),
        "graph": graph_text.table(case.graph),
    }


def _kind(value: Input) -> str:
    return next(name for name, kind in _INPUTS.items() if isinstance(value, kind))


def load(folder: Path, *, ours: bool = False) -> Case:
    """The Case in `folder`.  `ours`: this run wrote it, so every name in it was a function that Dynamo called."""
    try:
        data = json.loads((folder / META).read_text(encoding="utf-8"))
        text = (folder / GRAPH).read_text(encoding="utf-8")
    except FileNotFoundError as error:
        missing = Path(str(error.filename)).name
        raise DamagedCase(
            f"{folder} is not a Case: {missing} is missing. Name a folder like torchsleuth-out/.../cases/f1."
        ) from None
    except (OSError, ValueError, RecursionError, MemoryError) as error:
        raise DamagedCase(f"The Case in {folder} cannot be read: {str(error)[:200]}. Take a fresh capture.") from None
    case = from_json(data, text, ours=ours)
    check_tensor_file(case, folder)
    return case


def from_json(data: Any, text: str, *, ours: bool = False) -> Case:
    if not isinstance(data, dict) or type(data.get("schema")) is not int or data["schema"] < 1:
        raise DamagedCase("case.json holds no Case. Take a fresh capture.")
    if data["schema"] > SCHEMA:
        raise NewerSchema(
            f"This Case was written by a newer torchsleuth (schema {data['schema']}, this one reads {SCHEMA}). "
            "Upgrade torchsleuth."
        )
    try:
        surroundings: Surroundings = codec.decode(Surroundings, data["surroundings"], "surroundings")
        failure = Failure.from_json(data["failure"]) if data["failure"] else None
        case = Case(
            Level(data["level"]),
            graph_text.parse(text, data["graph"], None if ours else _modules(surroundings)),
            tuple(codec.decode(_INPUTS[i["kind"]], i, "input") for i in data["inputs"]),
            codec.decode(tuple[Tensor, ...], data["constants"], "constants"),
            codec.decode(tuple[Storage, ...], data["storages"], "storages"),
            surroundings,
            Phase(data["phase"]),
            failure,
            codec.decode(dict[str, str], data["versions"], "versions"),
            codec.decode(str, data["compile_id"], "compile_id"),
            codec.decode(dict[str, Any], data["context"], "context"),
            _check(data, failure),
        )
        checks.check_case(case)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, RecursionError) as error:
        raise DamagedCase(
            f"case.json is incomplete ({type(error).__name__}: {str(error)[:200]}). Take a fresh capture."
        ) from None
    return case


def _check(data: dict[str, Any], failure: Failure | None) -> Check | None:
    """What is compared with eager.

    Folders written before `check` was kept lack the entry; wrong numbers cannot show without a comparison, so a Case of
    that kind gets the default one.
    """
    found: Check | None = codec.decode(Check | None, data.get("check"), "check")
    return Check() if found is None and failure is not None and failure.kind is Kind.ACCURACY else found


def _modules(surroundings: Surroundings) -> frozenset[str]:
    """Modules of the user's whose functions the graph may call; never those that every interpreter has."""
    named = {m for code in checks.codes(surroundings) for m in code.imports}
    return frozenset(m for m in named if m.split(".")[0] not in _NOT_THE_USERS)


def check_tensor_file(case: Case, folder: Path) -> None:
    """The header of the tensor file tells its length: a truncated one is refused before anything reads it."""
    kept = {f"storage_{i}": s.nbytes for i, s in enumerate(case.storages) if s.kept}
    if not kept:
        return
    path = folder / TENSORS
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if length > min(size, 100_000_000):
                raise ValueError("its header is cut off")
            header = json.loads(file.read(length))
        for name, nbytes in kept.items():
            begin, end = header[name]["data_offsets"]
            if end - begin != nbytes or not 0 <= begin <= end <= size - 8 - length:
                raise ValueError(f"{name} is cut off")
            if header[name]["dtype"] != "U8" or header[name]["shape"] != [nbytes]:
                raise ValueError(f"{name} holds no bytes")
    except (OSError, ValueError, KeyError, TypeError, RecursionError, MemoryError) as error:
        raise DamagedCase(f"{path} is damaged: {error}. Take a fresh capture.") from None
