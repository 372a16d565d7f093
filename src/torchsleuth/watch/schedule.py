"""Which calls of compiled graphs are compared with eager."""

from __future__ import annotations

_ALWAYS = 3  # the first calls of every graph
_CHEAP = 0.05  # seconds; so quick a graph is looked at each time it is called
_CHEAP_SECONDS = 30.0  # spent on all graphs, before even the quick ones are sampled
_MOST_SECONDS = 300.0  # spent on all graphs, before only first calls are looked at


class Schedule:
    """Which calls are looked at: the first ones, then ever fewer; a program must end in its lifetime."""

    def __init__(self) -> None:
        self._spent = 0.0
        self._cost: dict[int, float] = {}
        self._wrong: set[int] = set()

    def due(self, graph: int, call: int) -> bool:
        if graph in self._wrong:
            return False
        if self._spent > _MOST_SECONDS:
            return call == 1
        sampled = call <= _ALWAYS or call & (call - 1) == 0
        return sampled or (self._cost.get(graph, 1.0) < _CHEAP and self._spent < _CHEAP_SECONDS)

    def looked(self, graph: int, seconds: float, *, wrong: bool) -> None:
        self._spent += seconds
        self._cost[graph] = seconds
        if wrong:
            self._wrong.add(graph)
