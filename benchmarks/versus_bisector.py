"""`torchsleuth run` beside torch's own `compiler_bisector run`, on faults planted inside the compiler.

    python benchmarks/versus_bisector.py [PLACE...] [--kind error|numbers] [--side forward|backward]

The same programs as in planted.py, one after the other in one run: what each says, how often it ran or judged the
program, how long it took, and whether a cache folder that was there before is there after, byte for byte.  torch's
bisector asks that the program take its backend from TORCH_COMPILE_BACKEND; ours are changed so for it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from planted import PLACES, Place

# What torch's bisector would have to say for each place; nothing: it has no word for it.
SUBSYSTEM = {
    "decomposition": "decomposition",
    "joint pass": "joint_graph_passes",
    "post-grad pass": "post_grad_passes",
    "custom pass": "post_grad_passes",
    "lowering": "lowerings",
}
COUNTING = "import os\nwith open(os.environ['RUNS'], 'a') as file:\n    file.write('.')\n"
LIMIT = 900.0


@dataclass(frozen=True)
class Told:
    said: str
    right: bool
    runs: int
    seconds: float
    cache_kept: bool

    @property
    def row(self) -> str:
        kept = "yes" if self.cache_kept else "NO"
        return f"{self.said} | {'yes' if self.right else 'NO'} | {self.runs} | {self.seconds:.0f} | {kept}"


def compare(name: str, kind: str, side: str) -> tuple[Told, Told] | None:
    place = PLACES[name]
    operator = place.forward if side == "forward" else place.backward
    assert operator is not None
    with tempfile.TemporaryDirectory(prefix="bisected-") as folder:
        here = Path(folder)
        source = place.source.replace("OP", operator).replace("ERROR", str(kind == "error"))
        (here / "plant.py").write_text(COUNTING + source)
        program = place.program.replace("{grad}", str(side == "backward"))
        (here / "program.py").write_text(program)
        environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(here / "cache"), "RUNS": str(here / "runs")}
        if _run([sys.executable, "program.py"], here, environment)[0] == 0:
            return None
        (here / "cache").mkdir(exist_ok=True)
        (here / "cache" / "mine.txt").write_text("something of the user's")
        ours = _ours(here, environment, place, operator)
        theirs = _theirs(here, environment, program, name, operator)
    return ours, theirs


def _ours(here: Path, environment: dict[str, str], place: Place, operator: str) -> Told:
    before = _fingerprint(here / "cache")
    command = [sys.executable, "-m", "torchsleuth", "run", "--out", "out", sys.executable, "program.py"]
    _, _, seconds = _run(command, here, environment)
    [*failures] = json.loads((here / "out" / "result.json").read_text())["failures"]
    if not failures:
        return Told("no failure was found", False, 0, seconds, before == _fingerprint(here / "cache"))
    found = failures[0]
    said = found["culprit"]["pass"] or ""
    wanted = place.says.replace("OP", operator)
    right = found["component"] == place.component and said.startswith(wanted)
    judged = (found["reduction"] or {}).get("judged", 0) + int((found["inside"] or {}).get("judged") or 0)
    told = f"{found['component']}: {said}" if said else found["component"]
    return Told(told, right, judged, seconds, before == _fingerprint(here / "cache"))


def _theirs(here: Path, environment: dict[str, str], program: str, name: str, operator: str) -> Told:
    chosen = 'torch.compile(f, backend=__import__("os").environ.get("TORCH_COMPILE_BACKEND", "inductor"))'
    (here / "program.py").write_text(program.replace("torch.compile(f)", chosen))
    runs = here / "runs"
    runs.write_text("")
    before = _fingerprint(here / "cache")
    command = [sys.executable, "-m", "torch._inductor.compiler_bisector", "run", sys.executable, "program.py"]
    _, text, seconds = _run(command, here, environment)
    answer = re.search(r"Bisection complete: (.*)", text)
    said = " ".join(answer[1].split())[:160] if answer else "it gave no answer"
    subsystem = SUBSYSTEM.get(name)
    right = subsystem is not None and f"'{subsystem}'" in said and (name != "lowering" or operator in said)
    return Told(said.replace("|", "/"), right, len(runs.read_text()), seconds, before == _fingerprint(here / "cache"))


def _run(command: list[str], here: Path, environment: dict[str, str]) -> tuple[int, str, float]:
    began = time.perf_counter()
    try:
        done = subprocess.run(
            command, cwd=here, env=environment, capture_output=True, text=True, check=False, timeout=LIMIT
        )
    except subprocess.TimeoutExpired:
        return 124, "", time.perf_counter() - began
    return done.returncode, done.stdout + done.stderr, time.perf_counter() - began


def _fingerprint(folder: Path) -> str:
    """Of the kernels and of what the user put there: locks and times are nobody's."""
    digest = hashlib.sha256()
    for path in sorted(p for p in folder.rglob("*") if p.is_file() and p.suffix != ".lock"):
        digest.update(f"{path.relative_to(folder)}".encode() + path.read_bytes())
    return digest.hexdigest()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("places", nargs="*", default=[])
    parser.add_argument("--kind", choices=("error", "numbers"))
    parser.add_argument("--side", choices=("forward", "backward"))
    asked = parser.parse_args()
    print(
        "| place | fault | side | who | says | right | runs | s | cache kept |\n|---|---|---|---|---|---|---|---|---|"
    )
    for name in asked.places or PLACES:
        place = PLACES[name]
        for kind in (k for k in place.kinds if asked.kind in (None, k)):
            for side in ("forward", "backward"):
                if asked.side not in (None, side) or getattr(place, side) is None:
                    continue
                found = compare(name, kind, side)
                for who, told in zip(("torchsleuth", "bisector"), found or (), strict=False):
                    print(f"| {name} | {kind} | {side} | {who} | {told.row} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
