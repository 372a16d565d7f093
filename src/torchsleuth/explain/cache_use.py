"""How often compiled graphs came out of torch's caches, and why the caches were bypassed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from torchsleuth.explain.cache_lookups import Cache, Lookup, State
from torchsleuth.explain.compiles import Compile
from torchsleuth.explain.outside import OutsideGraph
from torchsleuth.explain.owners import Owners


@dataclass(frozen=True)
class Bypass:
    cache: Cache
    function: str
    reason: str  # "" where the trace does not tell
    count: int


@dataclass(frozen=True)
class CacheUse:
    numbers: Mapping[Cache, Mapping[State, int]] = field(default_factory=dict)  # of lookups; only what was seen
    bypasses: tuple[Bypass, ...] = ()


def cache_use(compiles: Sequence[Compile], outside: Sequence[OutsideGraph], owners: Owners) -> CacheUse:
    numbers: dict[Cache, Counter[State]] = {}
    bypassed: Counter[tuple[Cache, str, str]] = Counter()
    for function, lookup in _lookups(compiles, outside, owners):
        numbers.setdefault(lookup.cache, Counter())[lookup.state] += 1
        if lookup.state is State.BYPASS:
            bypassed[lookup.cache, function, lookup.reason] += 1
    bypasses = tuple(Bypass(*key, count) for key, count in bypassed.most_common())
    return CacheUse({cache: dict(states) for cache, states in numbers.items()}, bypasses)


def _lookups(
    compiles: Sequence[Compile], outside: Sequence[OutsideGraph], owners: Owners
) -> Iterable[tuple[str, Lookup]]:
    for compile in compiles:
        for lookup in compile.lookups:
            yield owners.of(compile).function, lookup
    for graph in outside:
        for lookup in graph.lookups:
            yield "a graph without torch.compile" if graph.what == "unknown" else graph.what, lookup
