"""Which failures count as one: a second graph that is wrong, or hangs, is another; the same in all ranks is one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from torchsleuth.case.failure import Failure, Fingerprint, Kind, Phase, of_hang, wrong_numbers
from torchsleuth.case.ir import Arg, Graph, Node, Op, Ref, Source, Value
from torchsleuth.commands.run import Seen
from torchsleuth.commands.verdict import notes_of
from torchsleuth.watch.alike import digest, key_of
from torchsleuth.watch.found import summarise
from torchsleuth.watch.launcher import Ended
from torchsleuth.watch.ledger import Ledger
from torchsleuth.watch.session import Options, Outbox, processes

LINE = Source("model.py", 3, "forward", "return torch.sin(x)")


def graph(
    *targets: str, size: int = 4, args: Sequence[Arg] = (), dtype: str = "torch.float32", source: Source = LINE
) -> Graph:
    square = Value(dtype, (size, size), (size, 1))
    nodes = [Node("x", Op.PLACEHOLDER, "x", value=square)]
    for number, target in enumerate(targets):
        given = (Ref(nodes[-1].name), *args)
        nodes.append(Node(f"op_{number}", Op.CALL_FUNCTION, target, given, value=square, source=source))
    nodes.append(Node("output", Op.OUTPUT, "output", ((Ref(nodes[-1].name),),)))
    return Graph(tuple(nodes))


SINE = graph("torch.sin")


def wrong(*paths: str, how: str = "values", phase: Phase = Phase.RUN_FORWARD) -> Failure:
    text = "\n".join(f"{path}: {how}: off by 0.1" for path in paths)
    return wrong_numbers(how, phase, text, f"{paths[0]} is wrong: off by 0.1")


@pytest.mark.parametrize(
    "other",
    [
        key_of(wrong("out"), graph("torch.cos")),
        key_of(wrong("out"), graph("torch.sin", "torch.sin")),
        key_of(wrong("out"), graph("torch.sin", args=(0.5,))),
        key_of(wrong("out"), graph("torch.sin", dtype="torch.float16")),
        key_of(wrong("out"), graph("torch.sin", source=replace(LINE, line=9))),
        key_of(wrong("out[1]"), SINE),
        key_of(wrong("out", how="nan"), SINE),
        key_of(wrong("out", phase=Phase.RUN_BACKWARD), SINE),
        key_of(of_hang(Phase.RUN_FORWARD), SINE),
    ],
)
def test_another_graph_output_or_way_of_being_wrong_is_another_failure(other: str) -> None:
    assert other != key_of(wrong("out"), SINE)


def test_a_second_graph_that_hangs_is_another_failure() -> None:
    hang = of_hang(Phase.RUN_FORWARD)
    assert key_of(hang, SINE) != key_of(hang, graph("torch.cos"))
    assert key_of(hang, SINE) == key_of(hang, graph("torch.sin"))


def test_the_names_of_values_and_the_sizes_do_not_matter() -> None:
    """Dynamo compiles one function again for another size; the ranks of a job have parts of one model."""
    assert key_of(wrong("out"), graph("torch.sin", size=8)) == key_of(wrong("out"), SINE)
    renamed = Graph(tuple(replace(n, name=f"{n.name}_1", args=_renamed(n.args)) for n in SINE.nodes))
    assert digest(renamed) == digest(SINE)
    assert digest(graph("torch.sum", args=(1,))) == digest(graph("torch.sum", args=(2,)))


def test_a_graph_that_is_compiled_again_with_symbolic_sizes_is_the_same() -> None:
    square = Value("torch.float32", ("s77", 4), (4, 1))
    static = graph("torch.ones_like", "torch.reshape", args=((4, 4),))
    dynamic = Graph(
        (
            Node("s77", Op.PLACEHOLDER, "s77"),
            Node("x", Op.PLACEHOLDER, "x", value=square),
            Node("op_0", Op.CALL_FUNCTION, "torch.ones_like", (Ref("x"), (4, 4)), value=square, source=LINE),
            Node("half", Op.CALL_FUNCTION, "operator.floordiv", (Ref("s77"), 2), source=LINE),
            Node("op_1", Op.CALL_FUNCTION, "torch.reshape", (Ref("op_0"), (Ref("half"), 8)), value=square, source=LINE),
            Node("output", Op.OUTPUT, "output", ((Ref("op_1"),),)),
        )
    )
    assert digest(dynamic) == digest(static)
    other = graph("torch.ones_like", "torch.flatten", args=((4, 4),))
    assert digest(dynamic) != digest(other)


def _renamed(args: tuple[Arg, ...]) -> tuple[Arg, ...]:
    return tuple(Ref(f"{a.name}_1") if isinstance(a, Ref) else _renamed(a) if isinstance(a, tuple) else a for a in args)


def test_bodies_count() -> None:
    one = replace(SINE, bodies={"true": graph("torch.cos")})
    assert len({digest(one), digest(SINE), digest(replace(SINE, bodies={"true": graph("torch.tan")}))}) == 3


def test_an_exception_says_by_itself_which_it_is() -> None:
    error = Failure(Kind.RUNTIME_ERROR, Phase.RUN_FORWARD, Fingerprint("ValueError", "no kernel"))
    assert key_of(error, SINE) == key_of(error, graph("torch.cos")) == key_of(error)


def rank(session: Path, *failures: tuple[Failure, Graph]) -> None:
    box = Outbox(session, Options())
    box.hello()
    for number, (failure, of) in enumerate(failures, start=1):
        event = "suspect" if failure.kind is Kind.HANG else "failure"
        box.event(event, number=number, failure=failure.to_json(), key=key_of(failure, of), case=None)


def test_a_second_wrong_graph_does_not_vanish_and_ranks_count_once(tmp_path: Path) -> None:
    cosine = graph("torch.cos")
    for _ in range(2):
        rank(tmp_path, (wrong("out"), SINE), (wrong("out"), cosine), (of_hang(Phase.RUN_FORWARD), SINE))
    rank(tmp_path, (of_hang(Phase.RUN_FORWARD), cosine))
    found = summarise(tmp_path, 0).found
    assert [f.failure.kind for f in found] == [Kind.ACCURACY, Kind.ACCURACY, Kind.HANG, Kind.HANG]


def test_what_is_beyond_the_cases_that_are_kept_is_counted_and_told(tmp_path: Path) -> None:
    for _ in range(2):  # ranks
        box = Outbox(tmp_path, Options(most_cases=3))
        box.hello()
        ledger = Ledger(box)
        for number in (*range(5), 4, 0):
            error = ValueError(f"kind {'abcde'[number]}")
            failure = Failure(Kind.RUNTIME_ERROR, Phase.RUN_FORWARD, Fingerprint("ValueError", str(error)))
            ledger.tell_alone(failure, error)
        assert [e["number"] for e in [*processes(tmp_path)][-1].of("failure")] == [1, 2, 3]
    summary = summarise(tmp_path, 1)
    assert (len(summary.found), summary.not_kept) == (3, 2)
    assert "2 more failures were seen and not kept: one process keeps the graphs of a limited number of them" in (
        notes_of(Seen(summary, Ended(1, 1.0)))
    )
    assert summarise(tmp_path / "nothing", 1).not_kept == 0
