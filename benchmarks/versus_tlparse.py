"""`torchsleuth explain` beside tlparse and depyf: what each shows of the same programs, and what it costs.

    pip install tlparse depyf
    python benchmarks/versus_tlparse.py [--sizes 1 20 200] [--times 3]

First, one program with known breaks and recompilations is given to all three, and each fact is looked for in all that
the tool wrote (pages, texts, sources).  Then traces of the sizes named (MB: the trace of that program, its frames
numbered anew as often as it takes) are turned into a page by tlparse, which is written in Rust, and by us, in turns:
medians of wall time and of peak memory, and their ratios.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

PROGRAM = """
import torch

def helper(x):
    print("in helper")
    return x.cos()

def f(x, scale):
    y = x.sin() * scale
    if y.sum() > 0:
        y = y + 1
    return helper(y)

compiled = torch.compile(f)
for n, scale in ((3, 0.5), (3, 1.5), (4, 0.5), (5, 0.5), (3, 0.5), (3, 0.5)):
    compiled(torch.ones(n), scale)
"""
WITH_DEPYF = "import depyf\nwith depyf.prepare_debug({folder!r}):\n" + "".join(
    f"    {line}\n" if line else "\n" for line in PROGRAM.splitlines()
)

# What a user wants to know of it, and how one would recognise it in what a tool wrote.
FACTS = {
    "the line of the print": r"program\.py[:\", line]+\d*\D{0,40}helper|program\.py:5\b",
    "why it breaks, in torch's words": r"Failed to trace builtin operator",
    "why it breaks, in plain words": r"print\(\)",
    "what to do about the print": r"[Tt]ake the print out|reorderable_logging_functions",
    "how often the print was hit": r"hit 6 times",
    "the branch on a tensor's value": r"[Dd]ata-dependent branching|branch on the value",
    "the guard that failed: scale": r"scale(?:&#39;\])? ?== ?0\.5|L\['scale'\] == 0\.5",
    "the values that scale had": r"0\.5, 1\.5",
    "the size that changed": r"size mismatch at index 0",
    "what to do about the size": r"mark_dynamic",
    "how often a function was compiled": r"(?:compiled again|compiled</t|\d+x\b)",
    "guards of each graph": r"TENSOR_MATCH|check_tensor|guards",
    "graph as captured": r"def forward\(self, L_x_|torch\.sin|l_x_\.sin|L_x_\.sin",
    "generated code": r"extern \"C\"|cpp_fused|cpp_pybinding",
    "kernel to operator to line": r"kernels\.txt|Topologically Sorted Source Nodes",
    "Dynamo's bytecode as Python": r"__compiled_fn_\w+\(",
    "compile time by phase": r"AOTAutograd|aot_|dynamo_timed",
    "trace for Perfetto": r"traceEvents|chromium",
    "one file that needs no network": r"",  # looked at apart
}


@dataclass(frozen=True)
class Cost:
    seconds: float
    peak_mb: float


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="*", type=int, default=[1, 20, 200], metavar="MB")
    parser.add_argument("--times", type=int, default=3)
    given = parser.parse_args()
    if shutil.which("tlparse") is None:
        print("tlparse is not installed: pip install tlparse depyf", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="versus-tlparse-") as place:
        trace = shown(Path(place))
        cost(Path(place), trace, given.sizes, given.times)
    return 0


def shown(place: Path) -> Path:
    """The table of facts; gives the trace of the program."""
    (place / "program.py").write_text(PROGRAM)
    trace = place / "trace"
    trace.mkdir()
    _run([sys.executable, "program.py"], place, {"TORCH_TRACE": str(trace)})
    log = next(trace.glob("*.log"))
    _run([*_tlparse(), str(log), "-o", "tlparse"], place, {})
    _run([sys.executable, "-m", "torchsleuth", "explain", "--out", "ours", sys.executable, "program.py"], place, {})
    texts = {"torchsleuth": _all_text(place / "ours"), "tlparse": _all_text(place / "tlparse")}
    if importlib.util.find_spec("depyf"):
        (place / "with_depyf.py").write_text(WITH_DEPYF.format(folder=str(place / "depyf")))
        _run([sys.executable, "with_depyf.py"], place, {}, check=False)
        texts["depyf"] = _all_text(place / "depyf")
    print("| of one program |", " | ".join(texts), "|")
    print("|---|" + "---|" * len(texts))
    for fact, pattern in FACTS.items():
        if pattern:
            print(f"| {fact} |", " | ".join("yes" if re.search(pattern, t) else "no" for t in texts.values()), "|")
    pages = {"torchsleuth": place / "ours" / "report.html", "tlparse": place / "tlparse" / "index.html"}
    alone = {tool: _is_alone(page) for tool, page in pages.items()}
    print(
        "| the page is one file |",
        " | ".join({True: "yes", False: "no"}.get(alone.get(t), "no page") for t in texts),
        "|",
    )
    return log


def cost(place: Path, trace: Path, sizes: list[int], times: int) -> None:
    print("\n| trace, MB | tlparse, s | torchsleuth, s | ratio | tlparse, peak MB | torchsleuth, peak MB | ratio |")
    print("|---|---|---|---|---|---|---|")
    for size in sizes:
        folder = place / f"trace-{size}"
        folder.mkdir()
        log = folder / "dedicated_log_torch_trace_made.log"
        real = repeated(trace, log, size * 2**20) / 2**20
        theirs, ours = [], []
        for _ in range(times):  # in turns, so that the machine's mood falls on both
            theirs.append(_cost([*_tlparse(), str(log), "-o", "theirs"], place))
            ours.append(_cost([sys.executable, "-m", "torchsleuth", "explain", "--out", "mine", str(folder)], place))
            shutil.rmtree(place / "mine")
        a, b = _median(theirs), _median(ours)
        print(
            f"| {real:.0f} | {a.seconds:.2f} | {b.seconds:.2f} | {b.seconds / a.seconds:.2f} | {a.peak_mb:.0f} | "
            f"{b.peak_mb:.0f} | {b.peak_mb / a.peak_mb:.2f} |",
            flush=True,
        )
        shutil.rmtree(folder)


def repeated(trace: Path, target: Path, size: int) -> int:
    """The trace again and again, each time with other frames: as if a longer program had been traced."""
    text = trace.read_text(encoding="utf-8", errors="replace")
    frames = 1 + max(int(n) for n in re.findall(r'"frame_id": (\d+)', text))
    written, rounds = 0, 0
    with target.open("w", encoding="utf-8") as file:
        while written < size:
            shift = rounds * frames
            moved = re.sub(r'"frame_id": (\d+)', lambda m, shift=shift: f'"frame_id": {int(m[1]) + shift}', text)
            written += file.write(moved)
            rounds += 1
    return target.stat().st_size


def _tlparse() -> list[str]:
    return [str(shutil.which("tlparse")), "--overwrite", "--no-browser"]


def _run(command: list[str], place: Path, extra: dict[str, str], *, check: bool = True) -> None:
    done = subprocess.run(command, cwd=place, env={**os.environ, **extra}, capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr[-2000:]}")


def _cost(command: list[str], place: Path) -> Cost:
    began = time.perf_counter()
    process = subprocess.Popen(command, cwd=place, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    return Cost(time.perf_counter() - began, usage.ru_maxrss / 1024)


def _median(costs: list[Cost]) -> Cost:
    return Cost(statistics.median(c.seconds for c in costs), statistics.median(c.peak_mb for c in costs))


def _all_text(folder: Path) -> str:
    files = [p for p in sorted(folder.rglob("*")) if p.is_file() and "/logs/" not in str(p)]
    return "\n".join(f"{p.name}\n{p.read_text(encoding='utf-8', errors='replace')}" for p in files)


def _is_alone(page: Path) -> bool:
    text = page.read_text(encoding="utf-8", errors="replace")
    return not re.search(r"<(?:script|link|img)[^>]+(?:src|href)=[\"']?(?!data:|#)[^>\"']+\.(?:js|css|png)", text)


if __name__ == "__main__":
    sys.exit(main())
