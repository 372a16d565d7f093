"""Graph breaks, each cause once, the costliest first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from torchsleuth.explain.break_text import BreakText, Place, parse_break
from torchsleuth.explain.compiles import Compile
from torchsleuth.explain.owners import Owners
from torchsleuth.explain.reasons import meaning


@dataclass(frozen=True)
class GraphBreak:
    reason: str
    place: Place
    advice: str
    count: int  # how often the program came to it
    counted: bool  # False: only the compilations that met it are known
    in_loop: bool
    gave_up: bool
    raised: bool  # fullgraph=True: it was an error
    compiles: int  # compilations that ended at it
    pieces: tuple[int, ...]  # operators of the graphs that it cut
    kind: str
    explanation: str
    stack: tuple[Place, ...]
    lost: tuple[Place, ...] = ()  # functions that run uncompiled because of it
    lost_itself: bool = False  # the function that holds it is one of those

    @property
    def cost(self) -> float:
        """More hits, smaller pieces, whole frames lost: the worse."""
        lost = 4.0 if self.in_loop else 3.0 if self.gave_up else 1.0
        smallest = min(self.pieces, default=0)
        return self.count * (lost + 1.0 / (1 + smallest))


@dataclass(frozen=True)
class _Met:
    found: BreakText
    compile: Compile
    function: Place  # that was compiled
    own: bool  # whether that function itself holds it: what was inlined runs as a frame of its own, and meets it there
    raised: bool = False

    @property
    def hits(self) -> int:
        if self.raised:
            return 1
        return self.compile.line_hits or self.compile.calls or 0

    @property
    def same_again(self) -> bool:
        """Going on after the break meets it once more and gives up: the program came to that line once."""
        return self.found.gave_up and self.compile.resumed_at == self.found.place.line

    @property
    def counted(self) -> bool:
        return self.raised or self.compile.calls is not None or self.compile.line_hits > 0


def find_breaks(compiles: Iterable[Compile], owners: Owners) -> tuple[GraphBreak, ...]:
    groups: dict[tuple[str, int, str], list[_Met]] = {}
    for compile in compiles:
        error = _raised(compile) if compile.met is None else None
        found = compile.met or error
        if found is not None:
            key = (found.place.file, found.place.line, meaning(found).reason)
            function = owners.of(compile)
            own = owners.around(found.place) == function
            groups.setdefault(key, []).append(_Met(found, compile, function, own, raised=error is not None))
    return tuple(sorted(map(_group, groups.values()), key=lambda b: (-b.cost, b.place.file, b.place.line)))


def _group(met: list[_Met]) -> GraphBreak:
    own = [m for m in met if m.own]
    counting = [m for m in (own if any(m.hits for m in own) else met) if not m.same_again] or met
    first = (own or met)[0].found
    said = meaning(first)
    hits = sum(m.hits for m in counting)
    return GraphBreak(
        said.reason,
        first.place,
        said.advice,
        hits or len(counting),
        any(m.counted for m in counting) and hits > 0,
        any(m.found.in_loop for m in met),
        any(m.found.gave_up for m in met),
        any(m.raised for m in met),
        len(met),
        tuple(m.compile.ops for m in met),
        first.kind,
        first.explanation,
        first.stack,
        tuple(dict.fromkeys(m.function for m in met if m.found.gave_up)),
        any(m.own and m.found.gave_up for m in met),
    )


def _raised(compile: Compile) -> BreakText | None:
    """A break that was an error, because the program asked for one graph."""
    if compile.compiled or compile.limit_hit or not compile.failed.startswith("Unsupported:"):
        return None
    found = parse_break(f"Graph Break Reason: {compile.failed.removeprefix('Unsupported:').strip()}\n")
    where = compile.failed_at or (compile.file, compile.line)
    return BreakText(
        found.kind, found.explanation, found.context, found.hints,
        (*compile.stack, Place(where[0], where[1], compile.function)), found.in_loop, False,
    )  # fmt: skip
