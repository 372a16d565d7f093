"""Is rounding blamed on the compiler, or a bug on rounding?  `python benchmarks/conditioning.py [--only NAME]`.

Each program of `conditioning/sensitive` fails under torch.compile because it is ill-conditioned, and none may be called
the compiler's; each of `conditioning/bugs` looks like one and fails by a bug, real or planted, and none may be lost.
One row each, with the verdict, the component and the seconds; status 1 where a row is wrong.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

PROGRAMS = Path(__file__).resolve().parent / "conditioning"


def judged(program: Path, out: Path) -> dict[str, Any]:
    options = ["--budget", "60", "--no-minimize", "--out", str(out)]
    command = [sys.executable, "-m", "torchsleuth", "run", *options, sys.executable, str(program)]
    subprocess.run(command, capture_output=True, check=False)
    result: dict[str, Any] = json.loads((out / "result.json").read_text(encoding="utf-8"))
    return result


def is_right(program: Path, result: dict[str, Any]) -> bool:
    if program.parent.name == "bugs":
        return bool(result["failures"]) and result["verdict"] != "program-error"
    to_blame = any("to blame" in note and "not known" not in note for note in result["notes"])
    return result["verdict"] == "program-error" and not result["failures"] and not to_blame


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--only", default="", help="programs whose name holds this")
    only = parser.parse_args().only
    wrong = 0
    print("| program | kind | verdict | component | s | |\n|---|---|---|---|---|---|")
    for program in sorted(PROGRAMS.glob("*/*.py")):
        if only not in program.stem:
            continue
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as place:
            result = judged(program, Path(place) / "out")
        components = ", ".join(str(failure["component"]) for failure in result["failures"])
        right = is_right(program, result)
        wrong += not right
        seconds = time.monotonic() - began
        row = (program.stem, program.parent.name, result["verdict"], components, f"{seconds:.0f}")
        print(f"| {' | '.join(row)} | {'' if right else 'WRONG'} |", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
