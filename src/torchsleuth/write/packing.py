"""One zip to attach to an issue: what is in it, what is left out, and nothing that tells who somebody is."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path, PurePosixPath
from typing import Any

from torchsleuth.case import files
from torchsleuth.case.folder import GRAPH, META, TENSORS
from torchsleuth.errors import BadUsage, OutputUnwritable
from torchsleuth.judge import judgement as judgements
from torchsleuth.judge.judgement import CANDIDATES
from torchsleuth.write import account, manifest, own_data, stored
from torchsleuth.write.account import DamagedResult
from torchsleuth.write.manifest import LeftOut, Packed
from torchsleuth.write.own_data import NOTHING, OwnData
from torchsleuth.write.redaction import Redactor

MANIFEST = "MANIFEST.txt"
_REPRO_DATA = "repro_data"


class Data(str, Enum):
    """How much tensor data goes along."""

    NONE = "none"
    REPRO = "repro"  # what repro.py needs in order to fail
    ALL = "all"  # also what was kept of the program's tensors, weights included


@dataclass(frozen=True)
class Member:
    name: str  # in the zip
    path: Path
    own: OwnData = NOTHING  # what its text holds of the user's
    binary: bool = False  # values of tensors, in a file of bytes

    @property
    def holds_data(self) -> bool:
        return self.binary or self.own.numbers > 0


@dataclass(frozen=True)
class Plan:
    run: Path
    members: tuple[Member, ...]
    left_out: tuple[LeftOut, ...]


def plan(run: Path, data: Data) -> Plan:
    scripts = dict(_scripts(run))
    members, left_out = [], []
    for path in sorted(_files(run)):
        name = path.relative_to(run).as_posix()
        why = _why_not(name, path, data)
        if why:
            left_out.append(LeftOut(name, path.lstat().st_size, why))
        else:
            own = scripts.get(name) or (_of_case(path) if path.name in (META, GRAPH) else NOTHING)
            members.append(Member(name, path, own, _is_data(path.name)))
    return Plan(run, tuple(members), tuple(left_out))


def _scripts(run: Path) -> Iterator[tuple[str, OwnData]]:
    """Repros, and the pages that quote them, with what they hold of the user's."""
    result = stored.read_result(run)
    account.of_json(result)  # raises where it is damaged
    for failure in result["failures"]:
        if failure["repro"]:
            place = str(PurePosixPath(failure["repro"]["path"]))
            own = own_data.of_repro(failure["repro"], _text(run / place))
            yield place, own
            yield from ((page, own) for page in ("issue.md", "report.html") if place == "repro.py")


def _of_case(path: Path) -> OwnData:
    """What a file of a Case holds: numbers in the text of its graph, carried source in its case.json."""
    text = _text(path)
    if path.name == GRAPH:
        return own_data.of_script(text)
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):  # said when it is packed
        return NOTHING
    return own_data.of_case(data) if isinstance(data, dict) else NOTHING


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _files(run: Path) -> Iterator[Path]:
    """Files of the run; logs are for its owner, and links are not followed out of it.

    Of the candidates, those go along that claims rest on: `torchsleuth audit` runs them again.
    """
    claimed = set(_claimed(run))
    for here, folders, names in os.walk(run, followlinks=False):
        if Path(here) == run:
            folders[:] = [folder for folder in folders if folder in ("cases", CANDIDATES)]
        elif Path(here) == run / CANDIDATES:
            folders[:] = [folder for folder in folders if folder in claimed]
        yield from (Path(here) / name for name in names)


def _claimed(run: Path) -> Iterator[str]:
    """The keys of the candidates whose judgements back a claim."""
    entries = account.of_json(stored.read_result(run)).entries
    named = {name for entry in entries for claim in entry.claims for name in claim.judgements}
    return (one.candidate for one in judgements.read(run) if one.id in named)


def _is_data(name: str) -> bool:
    return name == TENSORS or name.startswith(_REPRO_DATA)


def _why_not(name: str, path: Path, data: Data) -> str:
    base = PurePosixPath(name).name
    known = {"result.json", "repro.py", "issue.md", "report.html", GRAPH, META, judgements.NAME}
    if path.is_symlink():
        return "it is a link"
    if base == TENSORS and data is not Data.ALL:
        return "tensors of the program, weights among them; --data packs them"
    if base.startswith(_REPRO_DATA) and data is Data.NONE:
        return "tensors that repro.py reads: it does not run without them; leave --no-data out to pack them"
    if base not in known and not _is_data(base):
        return "not a file that a reader of the issue needs"
    return ""


def check_output(output: Path, force: bool) -> None:
    if output.exists() and not force:
        raise BadUsage(f"{output} exists already. Name another file with --output, or allow its loss with --force.")


def write(plan: Plan, output: Path, redactor: Redactor) -> tuple[Packed, str]:
    """The zip, whole or not at all; what it holds, and its manifest."""
    try:
        with files.replacing(output) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
            packed = _fill(archive, plan, redactor)
            text = manifest.write(packed)
            archive.writestr(MANIFEST, text)
    except OutputUnwritable as error:
        why = str(error).partition(". Free")[0]
        raise OutputUnwritable(f"{why}. Free some space there, or name another file with --output.") from None
    return packed, text


def _fill(archive: zipfile.ZipFile, plan: Plan, redactor: Redactor) -> Packed:
    rows: list[tuple[str, int, bool]] = []
    environment: dict[str, str] = {}
    names = {member.name for member in plan.members}
    for member in plan.members:
        if member.binary:
            archive.write(member.path, member.name)
            rows.append((member.name, member.path.stat().st_size, True))
            continue
        text = _redacted(member, redactor, environment, lean=_tensors_of(member) not in names)
        archive.writestr(member.name, text)
        rows.append((member.name, len(text.encode()), member.holds_data))
    command = redactor.text(" ".join(map(str, stored.read_result(plan.run)["command"])))
    return Packed(
        redactor.text(plan.run.resolve().name), command, tuple(rows), plan.left_out, tuple(sorted(environment.items())),
        redactor, tuple((member.name, member.own) for member in plan.members if member.own.phrases),
    )  # fmt: skip


def _tensors_of(member: Member) -> str:
    return str(PurePosixPath(member.name).with_name(TENSORS))


def _redacted(member: Member, redactor: Redactor, environment: dict[str, str], *, lean: bool) -> str:
    """`lean`: the tensors of the Case stay behind, so that its case.json must not promise them."""
    text = member.path.read_text(encoding="utf-8", errors="replace")
    if member.path.suffix == ".py":
        return redactor.python(text)
    if member.path.suffix == ".jsonl":
        return "".join(f"{line}\n" for line in _redacted_rows(text, redactor))
    if member.path.suffix != ".json":
        return redactor.text(text)
    try:
        data = redactor.json(json.loads(text))
    except (ValueError, RecursionError) as error:
        raise DamagedResult(
            f"{member.path} is damaged ({error}). Remove its folder, or run the program again."
        ) from None
    environment.update(_environment(data))
    if lean and member.path.name == META and isinstance(data, dict):
        for storage in data.get("storages") or ():
            storage["kept"] = False
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


def _redacted_rows(text: str, redactor: Redactor) -> Iterator[str]:
    """Redact one JSON object a line; a line that was cut off is left out."""
    for line in text.splitlines():
        try:
            yield json.dumps(redactor.json(json.loads(line)))
        except (ValueError, RecursionError):
            continue


def _environment(data: Any) -> dict[str, str]:
    """The variables that a case.json carries."""
    surroundings = data.get("surroundings") if isinstance(data, dict) else None
    found = surroundings.get("environment") if isinstance(surroundings, dict) else None
    return {str(name): str(value) for name, value in found.items()} if isinstance(found, dict) else {}
