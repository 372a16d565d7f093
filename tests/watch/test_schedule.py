"""Which calls are compared with eager."""

from __future__ import annotations

from torchsleuth.watch.schedule import Schedule


def looked_at(schedule: Schedule, calls: int, seconds: float, graph: int = 1) -> list[int]:
    found = []
    for call in range(1, calls + 1):
        if schedule.due(graph, call):
            found.append(call)
            schedule.looked(graph, seconds, wrong=False)
    return found


def test_a_slow_graph_is_looked_at_less_and_less() -> None:
    assert looked_at(Schedule(), 70, seconds=1.0) == [1, 2, 3, 4, 8, 16, 32, 64]


def test_a_quick_graph_is_looked_at_each_time_until_that_adds_up() -> None:
    found = looked_at(Schedule(), 5000, seconds=0.01)
    assert found[:100] == list(range(1, 101))
    assert len(found) < 3100


def test_after_much_time_only_first_calls_are_looked_at() -> None:
    schedule = Schedule()
    looked_at(schedule, 8, seconds=100.0)
    assert looked_at(schedule, 9, seconds=1.0, graph=2) == [1]


def test_a_graph_that_is_known_to_be_wrong_is_left_alone() -> None:
    schedule = Schedule()
    schedule.looked(1, 0.0, wrong=True)
    assert not schedule.due(1, 2)
    assert schedule.due(2, 1)
