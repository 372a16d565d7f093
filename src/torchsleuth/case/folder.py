"""A Case on disk: graph.py to read, case.json beside it, tensors.safetensors for what was kept of memory.

Opening one runs nothing and imports neither torch nor anything that the Case names.  Every file is checked before it is
believed: schema, shape of the JSON, names in the graph text, the length of the tensor file.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from torchsleuth.case import codec, files, graph_text
from torchsleuth.case.failure import Failure, Phase
from torchsleuth.case.model import SCHEMA, Case, Input, Level, Opaque, Scalar, Storage, Surroundings, Tensor
from torchsleuth.errors import DamagedCase, NewerSchema

GRAPH, META, TENSORS = "graph.py", "case.json", "tensors.safetensors"
_INPUTS: dict[str, type[Tensor] | type[Scalar] | type[Opaque]] = {"tensor": Tensor, "scalar": Scalar, "opaque": Opaque}


def save(case: Case, folder: Path) -> None:
    """Everything but the tensors' bytes, which `tensors.save` writes."""
    folder.mkdir(parents=True, exist_ok=True)
    files.write_text(folder / GRAPH, graph_text.write(case.graph))
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
        raise DamagedCase(
            f"{folder} is not a Case: {Path(str(error.filename)).name} is missing. Name a folder like torchsleuth-out/.../cases/f1."
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise DamagedCase(f"The Case in {folder} cannot be read: {error}. Take a fresh capture.") from None
    case = from_json(data, text, ours=ours)
    check_tensor_file(case, folder)
    return case


def from_json(data: Any, text: str, *, ours: bool = False) -> Case:
    if not isinstance(data, dict) or not isinstance(data.get("schema"), int):
        raise DamagedCase("case.json holds no Case. Take a fresh capture.")
    if data["schema"] > SCHEMA:
        raise NewerSchema(
            f"This Case was written by a newer torchsleuth (schema {data['schema']}, this one reads {SCHEMA}). Upgrade torchsleuth."
        )
    try:
        surroundings: Surroundings = codec.decode(Surroundings, data["surroundings"], "surroundings")
        modules = frozenset(m for c in _codes(surroundings) for m in c.imports)
        case = Case(
            Level(data["level"]),
            graph_text.parse(text, data["graph"], None if ours else modules),
            tuple(codec.decode(_INPUTS[i["kind"]], i, "input") for i in data["inputs"]),
            codec.decode(tuple[Tensor, ...], data["constants"], "constants"),
            codec.decode(tuple[Storage, ...], data["storages"], "storages"),
            surroundings,
            Phase(data["phase"]),
            Failure.from_json(data["failure"]) if data["failure"] else None,
            codec.decode(dict[str, str], data["versions"], "versions"),
            str(data["compile_id"]),
            data["context"] if isinstance(data["context"], dict) else {},
        )
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, SyntaxError, RecursionError) as error:
        raise DamagedCase(f"case.json is incomplete ({type(error).__name__}: {error}). Take a fresh capture.") from None
    _check_consistent(case)
    return case


def _codes(surroundings: Surroundings) -> list[Any]:
    return [*surroundings.code, *([surroundings.backend.code] if surroundings.backend.code else [])]


def _check_consistent(case: Case) -> None:
    if len(case.inputs) != len(case.graph.placeholders):
        raise DamagedCase(
            f"The graph takes {len(case.graph.placeholders)} inputs and the Case holds {len(case.inputs)}. Take a fresh capture."
        )
    tensors = [t for t in (*case.inputs, *case.constants) if isinstance(t, Tensor)]
    for tensor in tensors:
        sizes = (*tensor.shape, *tensor.stride, tensor.offset)
        if len(tensor.shape) != len(tensor.stride) and not tensor.unknown:
            raise DamagedCase("A tensor has more sizes than strides. Take a fresh capture.")
        if any(s < 0 for s in sizes) or not 0 <= tensor.storage < max(1, len(case.storages)):
            raise DamagedCase("A tensor describes memory that no storage has. Take a fresh capture.")
    for graph in case.graph.all_graphs():
        if any(not 0 <= index < len(case.constants) for index in graph.tensors.values()):
            raise DamagedCase("The graph names a constant that the Case does not hold. Take a fresh capture.")


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
        ends = {name: row["data_offsets"] for name, row in header.items() if name != "__metadata__"}
        for name, nbytes in kept.items():
            begin, end = ends[name]
            if end - begin != nbytes or 8 + length + end > size:
                raise ValueError(f"{name} is cut off")
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise DamagedCase(f"{path} is damaged: {error}. Take a fresh capture.") from None
