"""A run of a model as a record of what each operator gave, and where two such runs part.

Two machines, two versions of torch, eager and compiled: operators are aligned by module path, name and turn.  Of a
value so much is kept as says whether another is the same: its shape, its dtype, its size, and some of its elements.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from torchsleuth.errors import BadUsage

SCHEMA = 1
_SAMPLE = 4096  # elements kept of a value
_TIMES_INHERITED = 8.0  # an operator that makes an error so much larger than it got it is to blame
_LEAST_LIMIT = 100 * 2.0**-23
_ROUNDINGS = 4.0


@dataclass(frozen=True)
class Record:
    module: str
    op: str
    turn: int  # of this operator in this module
    source: str
    shape: tuple[int, ...]
    dtype: str
    rms: float
    inputs: tuple[int, ...]  # places of the records that it was computed from
    sample: torch.Tensor = field(compare=False)

    @property
    def key(self) -> tuple[str, str, int]:
        return self.module, self.op, self.turn

    @property
    def name(self) -> str:
        return f"{self.op} in {self.module}" if self.module else self.op


def sampled(value: torch.Tensor) -> tuple[torch.Tensor, float]:
    """Some of its elements, wide, and the size of all."""
    flat = value.detach().cpu()
    flat = torch.view_as_real(flat) if flat.is_complex() else flat
    flat = flat.reshape(-1)
    wide = flat.to(torch.float64 if flat.is_floating_point() else torch.int64)
    step = max(1, math.ceil(wide.numel() / _SAMPLE))
    finite = wide[wide.isfinite()].to(torch.float64)
    return wide[::step].clone(), float(finite.square().mean().sqrt()) if finite.numel() else 0.0


@dataclass(frozen=True)
class Parting:
    """An operator of both runs: how far apart it is, and how far what it was given is."""

    record: Record
    error: float  # relative; infinite where shape, dtype or what is finite differ
    inherited: float
    said: str

    @property
    def limit(self) -> float:
        dtype = getattr(torch, self.record.dtype.removeprefix("torch."))
        return max(_LEAST_LIMIT, _ROUNDINGS * torch.finfo(dtype).eps) if dtype.is_floating_point else 0.0

    @property
    def apart(self) -> bool:
        return self.error > self.limit

    @property
    def to_blame(self) -> bool:
        return self.apart and self.error > _TIMES_INHERITED * self.inherited


@dataclass(frozen=True)
class Comparison:
    partings: tuple[Parting, ...]
    only_first: int
    only_second: int

    @property
    def apart(self) -> list[Parting]:
        return [p for p in self.partings if p.apart]

    def __str__(self) -> str:
        count = f"{len(self.partings)} operators compared"
        if self.only_first or self.only_second:
            count += f" ({self.only_first} are only in the record, {self.only_second} only in this run)"
        if not self.apart:
            worst = max(self.partings, key=lambda p: p.error, default=None)
            return f"alike: {count}" + (f"; furthest apart by {worst.error:.2g}: {worst.record.name}" if worst else "")
        first = next((p for p in self.apart if p.to_blame), self.apart[0])
        lines = [f"they part at {first.record.name}: {first.said}"]
        lines += [f"  {first.record.source}"] if first.record.source else []
        lines.append(f"  what it was given is {first.inherited:.2g} apart")
        others = [p for p in self.apart if p.to_blame and p is not first]
        lines += [f"  and at {p.record.name}: {p.said}" for p in others[:5]]
        carriers = len(self.apart) - 1 - len(others)
        lines.append(f"  {count}; {carriers} more carry it on" if carriers else f"  {count}")
        return "\n".join(lines)


def compare(first: Sequence[Record], second: Sequence[Record]) -> Comparison:
    known = {record.key: record for record in first}
    errors: dict[int, float] = {}
    found: list[Parting] = []
    for place, record in enumerate(second):
        before = known.pop(record.key, None)
        inherited = max((errors[i] for i in record.inputs if i in errors), default=0.0)
        if before is None:
            errors[place] = inherited  # nothing is known of it: what it was given goes on
            continue
        error, said = _apart(before, record)
        errors[place] = error
        found.append(Parting(record, error, inherited, said))
    return Comparison(tuple(found), len(known), len(second) - len(found))


def _apart(a: Record, b: Record) -> tuple[float, str]:
    if (a.shape, a.dtype) != (b.shape, b.dtype):
        return math.inf, f"{a.dtype} {list(a.shape)} in the record, {b.dtype} {list(b.shape)} in this run"
    x, y = a.sample.to(torch.float64), b.sample.to(torch.float64)
    if not torch.equal(x.isnan(), y.isnan()) or not torch.equal(x.isinf(), y.isinf()):
        return math.inf, "other elements are nan or infinite"
    if a.sample.dtype is torch.int64:
        share = float((x != y).double().mean()) if x.numel() else 0.0
        return share, f"{share:.2g} of its elements differ"
    finite = x.isfinite()
    error = float((x - y)[finite].square().mean().sqrt()) if bool(finite.any()) else 0.0
    relative = error / (a.rms or 1.0)
    return relative, f"relative difference {relative:.2g}"


def save(folder: Path, records: Sequence[Record], about: Mapping[str, Any]) -> None:
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    rows = [{k: v for k, v in asdict(r).items() if k != "sample"} for r in records]
    text = json.dumps({"schema": SCHEMA, **about, "records": rows}, indent=1)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        save_file({str(i): r.sample.contiguous() for i, r in enumerate(records)}, str(folder / "values.safetensors"))
        (folder / "records.json").write_text(text, encoding="utf-8")
    except (OSError, SafetensorError) as error:
        raise BadUsage(f"Cannot write {folder}: {error}. Name another folder with --record.") from None


def load(folder: Path) -> list[Record]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        data = json.loads((folder / "records.json").read_text(encoding="utf-8"))
        if data["schema"] > SCHEMA:
            raise BadUsage(f"{folder} was recorded by a newer torchsleuth. Update this one, or record it again.")
        values = load_file(str(folder / "values.safetensors"))
        return [
            Record(
                str(r["module"]), str(r["op"]), int(r["turn"]), str(r["source"]), tuple(map(int, r["shape"])),
                str(r["dtype"]), float(r["rms"]), tuple(map(int, r["inputs"])), values[str(i)],
            )
            for i, r in enumerate(data["records"])
        ]  # fmt: skip
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        raise BadUsage(f"{folder} is no record that can be read ({error}). Make one with --record.") from None
