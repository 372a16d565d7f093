"""What the generated code of a failing kernel says of where it came from.

A trial compiles into a cache folder of its own.  There stands the Python that Inductor wrote, and what it calls: a
traceback (of an exception, or of a signal) gives the line that called the kernel; a C++ compiler that gave up leaves a
source without a library.  Kernels are named after their ATen operators, and comments name the graph's own nodes.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from torchsleuth.operators.names import parse

_PLACE = re.compile(r'File "([^"\n]+\.py)", line (\d+)')
_SOURCE = re.compile(r"(/[^\s\"':]+\.cpp)\b")
_FAILED_IMPORT = re.compile(r"Failed to import (/\S+\.py)\b")
_TRITON = re.compile(r"^def (triton_\w*fused_\w+)\(", re.M)
_CALLED = re.compile(r"^\s*(?:[\w, ()]+ = )?([\w.]+)\(")
_KERNEL = re.compile(r"^(\w+) = async_compile\.\w+\([^\n]*?'''(.*?)'''", re.S | re.M)
_NODES = re.compile(r"Source Nodes: \[([^\]]*)\]")
_ATEN = re.compile(r"Original ATen: \[([^\]]*)\]")
_MOST_FILES = 400


@dataclass(frozen=True)
class Noted:
    """Names that are worth a guess; none of them is proof."""

    nodes: tuple[str, ...] = ()  # of the graph that was compiled
    operators: str = ""  # ATen names joined by "_", as kernels are named: mul_relu

    def names(self, operator: str) -> bool:
        return bool(operator) and f"_{operator}_" in f"_{self.operators}_"


def noted_in(cache: Path, text: str) -> Noted:
    """The nodes and operators of the kernel that failed, given the traceback; nothing where no kernel is known."""
    wrappers = {str(path.resolve()): path for path in sorted(cache.rglob("*.py"))[:_MOST_FILES]}
    sources = _without_library(sorted(cache.rglob("*.cpp"))[:_MOST_FILES])
    return _noted(wrappers, [p for p in sources if p.name in text] or sources, text)


def noted_by(text: str) -> Noted:
    """The same of a program, whose caches hold what others left there: only files that its traceback names are read."""
    wrappers = {named: Path(named) for named, _ in _PLACE.findall(text) if _is_generated(Path(named))}
    sources = [Path(named) for named in dict.fromkeys(_SOURCE.findall(text))]
    return _noted(wrappers, _without_library(path for path in sources if path.is_file()), text)


def _noted(wrappers: Mapping[str, Path], not_built: Sequence[Path], text: str) -> Noted:
    called = [_read_call(wrappers[p], int(line)) for p, line in _PLACE.findall(text) if p in wrappers]
    found = [noted for noted in called if noted is not None][-1:]
    found = found or [*_not_built(not_built, wrappers.values()), *_not_imported(text)]
    nodes = tuple(dict.fromkeys(name for noted in found for name in noted.nodes))
    return Noted(nodes, "_".join(dict.fromkeys(n.operators for n in found if n.operators)))


def _is_generated(path: Path) -> bool:
    try:
        return "async_compile = AsyncCompile()" in path.read_text(errors="replace")
    except OSError:
        return False


def _without_library(sources: Iterable[Path]) -> list[Path]:
    return [path for path in sources if not path.with_suffix(".so").exists()]


def _read_call(wrapper: Path, line: int) -> Noted | None:
    lines = wrapper.read_text(errors="replace").splitlines()
    if not 0 < line <= len(lines):
        return None
    call = _CALLED.match(lines[line - 1])
    if call is None or call.group(1).startswith("async_compile"):
        return None
    comments, above = [], line - 2
    while above >= 0 and lines[above].lstrip().startswith("#"):
        comments.append(lines[above])
        above -= 1
    return _of_name(call.group(1), "\n".join(comments))


def _not_built(sources: Sequence[Path], wrappers: Iterable[Path]) -> Iterator[Noted]:
    """Kernels whose C++ the compiler gave up."""
    code = [path.read_text(errors="replace") for path in sources]
    for wrapper in wrappers:
        whole = wrapper.read_text(errors="replace")
        for kernel in _KERNEL.finditer(whole):
            if any(kernel.group(2).strip() in one for one in code):
                yield _of_name(kernel.group(1), _comments_above(whole[: kernel.start()]))


def _not_imported(text: str) -> Iterator[Noted]:
    """Triton kernels, each in a file of its own, that are not valid Python."""
    for named in dict.fromkeys(_FAILED_IMPORT.findall(text)):
        with contextlib.suppress(OSError):
            kernel = _TRITON.search(Path(named).read_text(errors="replace"))
            if kernel is not None:
                yield _of_name(kernel.group(1), "")


def _comments_above(text: str) -> str:
    lines: list[str] = []
    for line in reversed(text.rstrip().splitlines()):
        if not line.startswith("#"):
            break
        lines.append(line)
    return "\n".join(lines)


def _of_name(kernel: str, comments: str) -> Noted:
    nodes = [n.strip() for part in _NODES.findall(comments) for n in part.split(",") if n.strip()]
    aten = [parse(n.strip()).name for part in _ATEN.findall(comments) for n in part.split(",") if n.strip()]
    if "fused_" in kernel:
        aten.append(re.sub(r"_\d+$", "", kernel.partition("fused_")[2]))
    elif not aten:
        aten.append(parse(kernel).name)
    return Noted(tuple(nodes), "_".join(aten))
