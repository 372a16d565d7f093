"""A trace that is cut or damaged: what it leaves open is said, and nothing is said to have not happened."""

from __future__ import annotations

from pathlib import Path

import pytest
from traces import artifact, beginning, ended, explained, graph, line, started, whole

from torchsleuth.explain.as_json import to_json
from torchsleuth.explain.explanation import Explanation
from torchsleuth.explain.outcomes import Outcome
from torchsleuth.write.explain_words import no_break, no_recompilation
from torchsleuth.write.explained import headline, text


def told(found: Explanation) -> str:
    return "\n".join(text(to_json(found, version="0", command=(), exit_code=None)))


def test_a_trace_that_is_whole_leaves_nothing_open(tmp_path: Path) -> None:
    found = explained(tmp_path, beginning(), whole("0/0"))
    assert found.not_known == ()
    assert headline(to_json(found, version="0", command=(), exit_code=0)).startswith("1 graph, 1 operator")


def test_a_trace_that_begins_within_a_payload_is_cut(tmp_path: Path) -> None:
    found = explained(tmp_path, "\t    the rest of a graph\n", whole("0/1"))
    assert found.not_known == ("what was compiled before trace.log begins: it is cut at its start",)
    assert "torchsleuth: at least 1 graph" in told(found)


def test_a_trace_that_begins_with_a_later_compilation_is_cut(tmp_path: Path) -> None:
    assert explained(tmp_path, whole("3/0")).not_known
    assert explained(tmp_path, whole("0/0")).not_known == ()  # older releases write no version first


def test_a_compilation_without_its_beginning_is_not_nothing(tmp_path: Path) -> None:
    """Only its graph and its end are there: it was compiled, and the trace is cut."""
    found = explained(tmp_path, graph("0/0", "torch.relu(x)"), ended("0/0"))
    assert found.graph_count == 1
    assert found.not_known
    assert "no compilation was seen" not in told(found)


def test_after_a_cut_a_number_that_comes_again_is_another_compilation(tmp_path: Path) -> None:
    """torch._dynamo.reset() let the numbers begin anew; the first 0/0 has lost its beginning."""
    found = explained(tmp_path, graph("0/0", "torch.relu(x)"), ended("0/0"), whole("0/0"))
    assert found.graph_count == 2


def test_a_compilation_without_an_end_is_not_known(tmp_path: Path) -> None:
    found = explained(tmp_path, beginning(), whole("0/0"), started("1/0", "slow"), graph("1/0", "torch.sin(x)"))
    assert {f.place.function: f.outcome for f in found.frames} == {
        "toy": Outcome.COMPILED,
        "slow": Outcome.NOT_KNOWN,
    }
    assert found.not_known == ("what came of the compilation of slow: its end is not in the trace",)


@pytest.mark.parametrize(
    ("before", "after"),
    [("builtin print", "builtin prinz"), ("\tGraph break", "\tGraph"), ("\tReason: it\n", "")],
)
def test_a_damaged_payload_is_counted_and_said(tmp_path: Path, before: str, after: str) -> None:
    """Without its break the function would be told as captured whole."""
    text = "Graph break in user code at /home/me/train.py:12\nbuiltin print\nReason: it"
    broken = started("0/0") + artifact("0/0", "dynamo_graph_break_reason", text) + ended("0/0")
    found = explained(tmp_path, beginning(), broken)
    assert (len(found.breaks), found.not_known) == (1, ())
    damaged = explained(tmp_path, beginning(), broken.replace(before, after))
    assert damaged.breaks == ()
    assert damaged.frames[0].outcome is Outcome.NOT_KNOWN
    assert damaged.not_known[0] == "what dynamo_graph_break_reason of toy told: it cannot be read"
    assert damaged.not_known[1].startswith("what 1 record of the trace held: damaged")
    sentence, well = no_break(to_json(damaged, version="0", command=(), exit_code=None))
    assert not well
    assert "captured whole" not in sentence


def test_a_carriage_return_is_part_of_a_payload(tmp_path: Path) -> None:
    found = explained(tmp_path, beginning(), whole("0/0"), artifact("0/0", "other", "one\r\ntwo\r"))
    assert found.not_known == ()


def test_compiled_again_without_a_reason(tmp_path: Path) -> None:
    found = explained(tmp_path, beginning(), whole("0/0"), whole("0/1"))
    assert found.not_known == ("why toy was compiled again: the trace holds no guard that failed",)
    failed = started("0/0") + ended("0/0", failed="InductorError: no")
    assert explained(tmp_path, beginning(), failed, whole("0/1")).not_known == ()  # there was nothing to serve


def test_compiled_again_after_a_reset_is_said_so(tmp_path: Path) -> None:
    found = explained(tmp_path, beginning(), whole("0/0"), whole("0/0"))
    assert found.frames[0].ends.after_reset == 1
    sentence, well = no_recompilation(to_json(found, version="0", command=(), exit_code=0))
    assert (
        sentence
        == "No guard was seen to fail. toy (/home/me/train.py:9) was compiled twice after torch._dynamo.reset()."
    )
    assert not well


def test_what_is_in_the_limit_alone_is_told(tmp_path: Path) -> None:
    reason = "0/0: tensor 'x' dtype mismatch. expected Float, actual Double"
    limit = artifact("0/1", "recompile_reasons", reason) + ended("0/1", failed="X: recompile limit exceeded")
    (found,) = explained(tmp_path, beginning(), whole("0/0"), limit).recompiles
    assert (found.count, found.limit_hit) == (0, True)


def test_two_functions_of_one_name_recompile_apart(tmp_path: Path) -> None:
    again = "".join(
        whole(f"{n}/0", "forward", first=line)
        + artifact(f"{n}/1", "recompile_reasons", f"{n}/0: scale == 0.5")
        + whole(f"{n}/1", "forward", first=line)
        for n, line in ((0, 10), (1, 20))
    )
    found = explained(tmp_path, beginning(), again).recompiles
    assert [(r.function.line, r.count) for r in found] == [(10, 1), (20, 1)]


def test_a_trace_without_a_record_is_not_called_cut(tmp_path: Path) -> None:
    assert explained(tmp_path).not_known == ()
    assert "no compilation was seen" in told(explained(tmp_path, line({"artifact": {"name": "torch_version"}})))
