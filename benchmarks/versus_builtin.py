"""The same failing programs through torchsleuth and through torch's own minifier, in one run.

    python benchmarks/versus_builtin.py [--limit S] [--out DIR] PROGRAM.py... "PROGRAM.py ARGUMENT"...

Each program is run under both, one after the other, each with private caches.  Torch's minifier is told what its user
would have to know: level 4 where the program's own words are of wrong numbers, 2 elsewhere, after AOTAutograd; where
that leaves no launcher, once more after Dynamo.  Written to DIR: versus.md (a table), versus.svg (a picture) and
versus.json.  Seconds are of the whole command, the program's own run included; "small after" are those until a verified
script of the final size stood in its place.  A repro counts when a fresh process fails with the error of the program;
"needs only torch" when it reads no file and imports nothing else.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import html
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

LIMIT = 600.0
_WRONG_NUMBERS = re.compile(r"AssertionError|not close|accuracy", re.I)
_ERROR = re.compile(r"^(?:[\w.]+\.)?(\w*(?:Error|Exception|Failed|Unsupported))\b", re.M)


@dataclass(frozen=True)
class Ended:
    """What one of the two made of one program."""

    found: bool = False
    ops: int | None = None  # operator calls left in the final script
    asked: int | None = None  # judgements, or queries
    seconds: float = 0.0
    small_after: float | None = None  # seconds until a verified script of the final size was there
    fails_alike: bool = False
    only_torch: bool = False
    said: str = ""  # why there is nothing, in a few words


@dataclass(frozen=True)
class Row:
    program: str
    torchsleuth: Ended
    builtin: Ended


@dataclass(frozen=True)
class Program:
    path: Path
    arguments: tuple[str, ...] = ()

    @staticmethod
    def of(text: str) -> Program:
        path, *arguments = shlex.split(text)
        return Program(Path(path).resolve(), tuple(arguments))

    @property
    def name(self) -> str:
        return " ".join([self.path.stem, *self.arguments])

    @property
    def command(self) -> list[str]:
        return [sys.executable, str(self.path), *self.arguments]


class Sightings:
    """What stood at a path, and after how many seconds, looked at while something else runs."""

    def __init__(self, path: Path) -> None:
        self._path, self._over, self._began = path, threading.Event(), time.monotonic()
        self._seen: list[tuple[float, str]] = []
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while not self._over.wait(0.2):
            with contextlib.suppress(OSError):
                text = self._path.read_text(encoding="utf-8")
                if not self._seen or self._seen[-1][1] != text:
                    self._seen.append((time.monotonic() - self._began, text))

    def first_as_small_as_the_last(self) -> float | None:
        self._over.set()
        self._thread.join()
        sizes = [(after, statements(text)) for after, text in self._seen]
        return next((after for after, size in sizes if size <= sizes[-1][1]), None) if sizes else None


@dataclass(frozen=True)
class Process:
    status: int | None  # None: ended by us
    text: str


def run(command: Sequence[str], cwd: Path, limit: float, extra: Mapping[str, str]) -> Process:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("TORCH")}
    with (cwd / "said.txt").open("w+b") as said:
        process = subprocess.Popen(
            list(command), cwd=cwd, env={**kept, "TORCHINDUCTOR_CACHE_DIR": str(cwd / "cache"), **extra},
            stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        status: int | None
        try:
            status = process.wait(limit)
        except subprocess.TimeoutExpired:
            status = None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        said.seek(0)
        return Process(status, said.read().decode(errors="replace"))


def fresh(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def with_torchsleuth(program: Program, folder: Path, limit: float) -> Ended:
    sightings = Sightings(folder / "out" / "repro.py")
    began = time.monotonic()
    command = [sys.executable, "-m", "torchsleuth", "run", "--out", str(folder / "out"), *program.command]
    run(command, folder, limit + 300, {})
    seconds = time.monotonic() - began
    small_after = sightings.first_as_small_as_the_last()
    try:
        failures = json.loads((folder / "out" / "result.json").read_text())["failures"]
    except OSError:
        return Ended(seconds=seconds, said="not finished")
    if not failures or failures[0]["repro"] is None:
        return Ended(bool(failures), seconds=seconds, said="no repro")
    repro, script = failures[0]["repro"], folder / "out" / failures[0]["repro"]["path"]
    return Ended(
        True, repro["ops"], failures[0]["reduction"]["judged"], seconds, small_after,
        _fails_alike(script, program, folder, limit), needs_only_torch(script.read_text(encoding="utf-8")),
    )  # fmt: skip


def with_minifier(program: Program, folder: Path, limit: float) -> Ended:
    first = run(program.command, folder, limit, {})
    level = "4" if _WRONG_NUMBERS.search(first.text[-4000:]) else "2"
    began = time.monotonic()
    launcher = None
    for after in ("aot", "dynamo"):
        settings = {"TORCHDYNAMO_REPRO_AFTER": after, "TORCHDYNAMO_REPRO_LEVEL": level}
        run(program.command, folder, limit, settings)
        launcher = max(folder.glob("torch_compile_debug/run*/minifier/minifier_launcher.py"), default=None, key=_age)
        if launcher is not None:
            break
    if launcher is None:
        return Ended(seconds=time.monotonic() - began, said="no launcher was written")
    left = max(1.0, limit - (time.monotonic() - began))
    minified = run([sys.executable, str(launcher)], folder, left, {})
    seconds = time.monotonic() - began
    queries = re.findall(r"Made (\d+) queries", minified.text)
    asked = int(queries[-1]) if queries else None  # said at the end only
    script = next((s for s in (folder / "repro.py", *_checkpoints(folder)) if s.exists()), None)
    if script is None:
        said = "not finished in time" if minified.status is None else _last_line(minified.text)
        return Ended(False, asked=asked, seconds=seconds, said=said)
    text = script.read_text(encoding="utf-8")
    alike = _fails_alike(script, program, folder, limit)
    said = "not finished in time" if minified.status is None else ""
    return Ended(alike, operators(text), asked, seconds, None, alike, needs_only_torch(text), said)


def _checkpoints(folder: Path) -> list[Path]:
    """What the minifier had when it was ended, smallest first."""
    found = folder.glob("torch_compile_debug/run*/minifier/checkpoints/*.py")
    return sorted(found, key=lambda path: int("".join(re.findall(r"\d+", path.stem)) or 0))


def _age(path: Path) -> float:
    return path.stat().st_mtime


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:80] if lines else "it said nothing"


def _fails_alike(script: Path, program: Program, folder: Path, limit: float) -> bool:
    """A fresh process fails, and names an error that the program named too."""
    place = fresh(folder / "alike")
    of_program = run(program.command, place, limit, {})
    of_script = run([sys.executable, str(script)], place, limit, {})
    if of_script.status in (0, None):
        return of_script.status is None and of_program.status is None
    if of_program.status is not None and of_program.status < 0:
        return of_script.status == of_program.status
    wrong = [bool(_WRONG_NUMBERS.search(each.text[-4000:])) for each in (of_program, of_script)]
    return all(wrong) or bool(set(_ERROR.findall(of_program.text)) & set(_ERROR.findall(of_script.text)))


def operators(text: str) -> int:
    """Calls in the graph of a script that torch wrote: the forward of its class Repro."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef) and node.name == "Repro":
            return sum(isinstance(step, ast.Assign) and isinstance(step.value, ast.Call) for step in ast.walk(node))
    return 0


def statements(text: str) -> int:
    """Of the longest function: a measure of size that is the same for two scripts with the same operators."""
    defined = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
    return max((len(node.body) for node in defined), default=0)


def needs_only_torch(text: str) -> bool:
    modules = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            modules |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules.add(node.module.split(".")[0])
    reads = re.search(r"reader\.storage\('|torch\.load\(", text)
    return modules <= {"torch", *sys.stdlib_module_names} and reads is None


HEAD = (
    "| program | | reproduced | operators left | asked | s | small after, s | fails alike | needs only torch |\n"
    "|---|---|---|---|---|---|---|---|---|"
)


def table(rows: Sequence[Row]) -> str:
    lines = [HEAD]
    for row in rows:
        for name, end in (("torchsleuth", row.torchsleuth), ("torch's minifier", row.builtin)):
            what = f"{'yes' if end.found else 'no'}{f' ({end.said})' if end.said else ''}"
            cells = [
                row.program, name, what, _number(end.ops), _number(end.asked), f"{end.seconds:.0f}",
                _number(None if end.small_after is None else round(end.small_after)),
                "yes" if end.fails_alike else "no", "yes" if end.only_torch else "no",
            ]  # fmt: skip
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _number(value: int | None) -> str:
    return "" if value is None else str(value)


def picture(rows: Sequence[Row]) -> str:
    """Two bars a program: how long it took, with the operators that were left written behind."""
    left, wide, high = 250, 420, 18
    most = max((end.seconds for row in rows for end in (row.torchsleuth, row.builtin)), default=1.0) or 1.0
    drawn = []
    for number, row in enumerate(rows):
        top = 34 + number * (2 * high + 16)
        drawn.append(f'<text x="{left - 10}" y="{top + high + 4}" text-anchor="end">{html.escape(row.program)}</text>')
        for place, (end, colour) in enumerate(((row.torchsleuth, "#1f6feb"), (row.builtin, "#9aa4ae"))):
            y, width = top + place * high, max(2.0, wide * end.seconds / most)
            outcome = f"{end.ops} left" if end.fails_alike and end.ops is not None else "nothing that fails alike"
            drawn.append(f'<rect x="{left}" y="{y}" width="{width:.1f}" height="{high - 3}" fill="{colour}"/>')
            soon = f" ({end.small_after:.0f} s to the first so small)" if end.small_after is not None else ""
            text = f"{end.seconds:.0f} s, {outcome}{soon}"
            drawn.append(f'<text x="{left + width + 6:.1f}" y="{y + high - 6}">{html.escape(text)}</text>')
    height = 40 + len(rows) * (2 * high + 16)
    legend = (
        f'<rect x="{left}" y="8" width="12" height="12" fill="#1f6feb"/><text x="{left + 18}" y="18">torchsleuth</text>'
        f'<rect x="{left + 120}" y="8" width="12" height="12" fill="#9aa4ae"/>'
        f'<text x="{left + 138}" y="18">torch\'s own minifier</text>'
    )
    style = "<style>text{font:12px sans-serif;fill:#57606a}</style>"
    size = f'viewBox="0 0 {left + wide + 330} {height}" width="{left + wide + 330}" height="{height}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{style}{legend}{"".join(drawn)}</svg>\n'


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="*", type=Program.of)
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds for the minifier; torchsleuth has its own")
    parser.add_argument("--out", type=Path, default=Path("versus"))
    arguments = parser.parse_args()
    example = Program(Path(__file__).resolve().parent.parent / "examples" / "relu.py")
    out = arguments.out.resolve()
    rows: list[Row] = []
    for program in arguments.programs or [example]:
        place = out / program.name.replace(" ", "-")
        ours = with_torchsleuth(program, fresh(place / "torchsleuth"), arguments.limit)
        theirs = with_minifier(program, fresh(place / "minifier"), arguments.limit)
        rows.append(Row(program.name, ours, theirs))
        (out / "versus.json").write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
        (out / "versus.md").write_text(table(rows))
        (out / "versus.svg").write_text(picture(rows))
    print(table(rows), end="")


if __name__ == "__main__":
    main()
