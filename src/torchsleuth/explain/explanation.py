"""The whole of what is known of a program under torch.compile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from torchsleuth.explain.break_text import Place
from torchsleuth.explain.breaks import GraphBreak, find_breaks
from torchsleuth.explain.cache_use import CacheUse
from torchsleuth.explain.compiles import Compile
from torchsleuth.explain.other_instances import OtherInstance
from torchsleuth.explain.outcomes import Ends, Outcome, ends_of, outcome_of
from torchsleuth.explain.outside import OutsideGraph
from torchsleuth.explain.owners import Owners
from torchsleuth.explain.ranks import Comparison, compare
from torchsleuth.explain.recompiles import Recompile, find_again
from torchsleuth.explain.times import STEP_ORDER, Clock, Slice, tree

PHASES = ("dynamo", "aot", "inductor")


@dataclass(frozen=True)
class Frame:
    """One user function, with all that was compiled of it."""

    place: Place
    graphs: int
    ops: int
    compiles: int
    calls: int | None
    seconds: float
    outcome: Outcome
    ends: Ends
    phases: dict[str, float]
    stack: tuple[Place, ...]  # how the program first came to it


@dataclass(frozen=True)
class Graph:
    compile_id: str
    process: str
    frame: Place
    ops: int
    guards: int
    seconds: float
    calls: int | None
    cache: str
    stack: tuple[Place, ...]
    breaks: bool
    folder: str | None
    artifacts: tuple[str, ...]


@dataclass(frozen=True)
class Explanation:
    torch: str
    breaks: tuple[GraphBreak, ...]
    recompiles: tuple[Recompile, ...]
    frames: tuple[Frame, ...]
    graphs: tuple[Graph, ...]
    phases: dict[str, float]
    steps: dict[str, float]
    picture: Slice
    processes: int
    failures: tuple[str, ...]
    others: tuple[OtherInstance, ...] = ()
    outside: tuple[OutsideGraph, ...] = ()
    caches: CacheUse = field(default_factory=CacheUse)
    comparison: Comparison = field(default_factory=Comparison)
    notes: tuple[str, ...] = ()
    not_known: tuple[str, ...] = ()  # what may have happened and cannot be seen

    @property
    def graph_count(self) -> int:
        return len(self.graphs)

    @property
    def op_count(self) -> int:
        return sum(g.ops for g in self.graphs)


def explain_compiles(
    compiles: Sequence[Compile], clock: Clock, torch: str, folder_of: Callable[[Compile], Path | None] = lambda _: None
) -> Explanation:
    owners = Owners(compiles)
    for compile in compiles:
        if compile.key in clock.phases:  # the trace's own sums leave the backward out
            compile.phases = clock.phases[compile.key]
            compile.seconds = sum(compile.phases.values())
    graphs = tuple(
        Graph(
            c.id, c.process, owners.of(c), ops_of(c), c.guards, c.seconds, c.calls, c.cache, c.stack, c.met is not None,
            str(folder.name) if (folder := folder_of(c)) is not None else None, tuple(c.artifacts),
        )
        for c in compiles
        if c.graphs
    )  # fmt: skip
    known = {"Unsupported"}
    failures = tuple(
        f"{owners.of(c).function}: {c.failed}" for c in compiles if c.failed and c.failed.partition(":")[0] not in known
    )
    again = find_again(compiles, owners)
    return Explanation(
        torch=torch,
        breaks=find_breaks(compiles, owners),
        recompiles=again.recompiles,
        frames=_frames(compiles, owners),
        graphs=graphs,
        phases={p: sum(c.phases.get(p, 0.0) for c in compiles) for p in PHASES},
        steps={s: clock.steps[s] for s in STEP_ORDER if s in clock.steps},
        picture=tree(clock),
        processes=len({c.process for c in compiles}),
        failures=failures,
        others=again.others,
        comparison=compare(compiles, owners),
    )


def ops_of(compile: Compile) -> int:
    return compile.ops or (compile.operators.number if compile.operators is not None else 0)


def _frames(compiles: Sequence[Compile], owners: Owners) -> tuple[Frame, ...]:
    groups: dict[Place, list[Compile]] = {}
    for compile in compiles:
        # Where the trace is cut, a graph is there without the beginning of its compilation.
        if compile.started or compile.graphs:
            groups.setdefault(owners.of(compile), []).append(compile)
    frames = []
    for place, members in groups.items():
        whole = [c for c in members if c.resumed_at is None] or members
        counted = [c.calls for c in whole if c.calls is not None]
        frames.append(
            Frame(
                place,
                sum(c.graphs for c in members),
                sum(ops_of(c) for c in members if c.graphs),
                len(whole),
                sum(counted) if counted else None,
                sum(c.seconds for c in members),
                outcome_of(members),
                ends_of(members),
                {p: sum(c.phases.get(p, 0.0) for c in members) for p in PHASES},
                whole[0].stack,
            )
        )
    return tuple(frames)
