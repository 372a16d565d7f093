"""Is there a whole result wherever `torchsleuth run` is cut short?  `python benchmarks/cut_short.py PROGRAM.py...`

Each program is run with each `--budget`, and with Ctrl-C at random moments after its end.  A run is right when it exits
within `--allow` seconds of the end of its budget, or of the signal; result.json is there and valid; each repro.py that
it names as verified exists, no other stands in the output folder, and with `--run-repros` it fails when it is run; and
no process that the run started is left.  Where torchsleuth has a command `audit`, that must hold, too.  Exit status 1
where a run is not right.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

BUDGETS = (3.0, 6.0, 12.0, 25.0, 50.0)
MARK = "CUT_SHORT_RUN"  # an environment variable that every process of a run inherits
TOOL = (sys.executable, "-m", "torchsleuth")
LATEST = 40.0  # seconds after the program's end, for Ctrl-C
FORGOTTEN = 300.0  # seconds after which a run that should have ended is killed
VERDICTS = {"ok": 0, "failure": 1, "not-watched": 2, "not-reproduced": 3, "program-error": 4}
KEYS = ("torchsleuth", "torch", "command", "exit_code", "verdict", "watched", "notes", "failures", "report")


@dataclass(frozen=True)
class Cut:
    """How a run is cut short: by its budget, or by Ctrl-C so many seconds after the program's end."""

    budget: float = 600.0
    signal_after: float | None = None

    def __str__(self) -> str:
        return f"budget {self.budget:g}" if self.signal_after is None else f"Ctrl-C at {self.signal_after:.1f}"

    @property
    def seconds(self) -> float:
        return self.budget if self.signal_after is None else self.signal_after


@dataclass(frozen=True)
class Run:
    status: int
    late: float  # seconds from the cut to the exit; negative: it had ended before
    left: tuple[str, ...]  # processes that it left


@dataclass(frozen=True)
class Options:
    allow: float
    run_repros: bool
    audits: bool
    more: tuple[str, ...]  # further options of `torchsleuth run`


def run(program: Path, cut: Cut, out: Path, options: Options) -> Run:
    mark = uuid.uuid4().hex
    command = [*TOOL, "run", "--out", str(out), "--budget", f"{cut.budget:g}", *options.more, str(program)]
    with (out.parent / f"{out.name}.txt").open("wb") as output:
        tool = subprocess.Popen(
            command, env={**os.environ, MARK: mark}, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            start_new_session=True,
        )  # fmt: skip
    ended = wait_for_program(tool) + cut.seconds
    if cut.signal_after is not None and not exits_before(tool, ended):
        tool.send_signal(signal.SIGINT)
    if not exits_before(tool, ended + FORGOTTEN):
        tool.kill()
    late = time.monotonic() - ended
    time.sleep(1.0)  # what was told to end may take a moment to be gone
    return Run(tool.wait(), late, tuple(left_over(mark)))


def wait_for_program(tool: subprocess.Popen[bytes]) -> float:
    """When the program, the first process that the tool starts, was gone."""
    children: list[psutil.Process] = []
    while not children and tool.poll() is None:
        time.sleep(0.02)
        try:
            children = psutil.Process(tool.pid).children()
        except psutil.Error:
            break
    if children:
        psutil.wait_procs(children[:1])
    return time.monotonic()


def exits_before(tool: subprocess.Popen[bytes], moment: float) -> bool:
    try:
        tool.wait(max(0.0, moment - time.monotonic()))
    except subprocess.TimeoutExpired:
        return False
    return True


def left_over(mark: str) -> Iterator[str]:
    """Processes of a run that still live; they are killed."""
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                yield " ".join(process.cmdline())[:80]
                process.kill()
        except psutil.Error:
            continue


def problems(ran: Run, out: Path, options: Options) -> Iterator[str]:
    if ran.late > options.allow:
        yield f"exited {ran.late:.1f} s after the cut"
    for command in ran.left:
        yield f"left a process: {command}"
    try:
        result = json.loads((out / "result.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        yield f"no result.json: {error}"
        return
    yield from of_result(result, ran.status)
    verified = [f["repro"] for f in result.get("failures", ()) if (f.get("repro") or {}).get("verified")]
    for repro in verified:
        yield from of_repro(out / repro["path"], options)
    if (out / "repro.py").exists() and "repro.py" not in [repro["path"] for repro in verified]:
        yield "a repro.py that result.json does not name as verified"
    if options.audits:
        audit = subprocess.run([*TOOL, "audit", str(out)], capture_output=True, text=True, check=False)
        if audit.returncode:
            yield f"audit: {(audit.stdout or audit.stderr).strip().splitlines()[-1:]}"


def of_result(result: dict[str, Any], status: int) -> Iterator[str]:
    missing = [key for key in KEYS if key not in result]
    if result.get("schema") != 1 or missing:
        yield f"result.json: schema {result.get('schema')}, without {', '.join(missing) or 'nothing'}"
    if VERDICTS.get(str(result.get("verdict"))) != status:
        yield f"exit status {status} of a verdict {result.get('verdict')}"
    for failure in result.get("failures", ()):
        if not failure.get("why_not") and not (failure.get("repro") or {}).get("verified"):
            yield f"{failure.get('id')} has no repro, and nothing says why"


def of_repro(path: Path, options: Options) -> Iterator[str]:
    if not path.exists():
        yield f"{path.name} is named as verified and is not there"
    elif options.run_repros:
        with tempfile.TemporaryDirectory(prefix="cut-short-") as cache:
            environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": cache, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
            done = subprocess.run([sys.executable, str(path)], capture_output=True, env=environment, check=False)
        if not done.returncode:
            yield f"{path.name} is named as verified and does not fail"


def outcome(out: Path) -> str:
    """What the run came to, in a few words."""
    try:
        result = json.loads((out / "result.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return "-"
    sizes = [f"{f['repro']['ops']} ops, {f['repro']['failed_runs']}/{f['repro']['runs']}"
             for f in result["failures"] if (f.get("repro") or {}).get("verified")]  # fmt: skip
    return f"{result['verdict']}{' (' + '; '.join(sizes) + ')' if sizes else ''}"


def has_audit() -> bool:
    told = subprocess.run([*TOOL, "audit", "--help"], capture_output=True, check=False)
    return told.returncode == 0


def cuts(budgets: Sequence[float], signals: int, random_: random.Random) -> Iterator[Cut]:
    for budget in budgets:
        yield Cut(budget)
    for _ in range(signals):
        yield Cut(signal_after=LATEST * random_.random() ** 2)  # more of them early, where less is in place


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", type=Path, nargs="+", metavar="PROGRAM.py")
    parser.add_argument("--budgets", type=float, nargs="*", default=list(BUDGETS), metavar="S")
    parser.add_argument("--signals", type=int, default=20, metavar="N", help="runs that Ctrl-C ends, a program")
    parser.add_argument("--allow", type=float, default=5.0, metavar="S", help="seconds to exit in")
    parser.add_argument("--run-repros", action="store_true", help="run each verified repro.py once more")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--option", action="append", default=[], help="a further option of torchsleuth run")
    parser.add_argument("--keep", type=Path, help="where the output folders stay")
    given = parser.parse_args()
    options = Options(given.allow, given.run_repros, has_audit(), tuple(given.option))
    random_ = random.Random(given.seed)
    wrong = total = 0
    print("| program | cut | exit after the cut, s | result | problems |\n|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory(prefix="cut-short-") as scratch:
        root = given.keep or Path(scratch)
        root.mkdir(parents=True, exist_ok=True)
        for program in given.programs:
            for cut in cuts(given.budgets, given.signals, random_):
                out = root / f"{program.stem}-{total}"
                ran = run(program.resolve(), cut, out, options)
                found = list(problems(ran, out, options))
                total, wrong = total + 1, wrong + bool(found)
                late = f"{ran.late:.1f}" if ran.late >= 0 else "before"
                cells = [program.stem, str(cut), late, outcome(out), "; ".join(found) or "none"]
                print(f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |", flush=True)
    print(f"\n{total} runs, {wrong} with problems{'' if options.audits else '; there is no audit command yet'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
