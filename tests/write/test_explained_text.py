"""What `explain` says on the terminal."""

from __future__ import annotations

from explained_by_hand import a_break, a_frame, a_recompile, explained

from torchsleuth.write.explained import headline, text


def said(**changes: object) -> str:
    return "\n".join(text(explained(**changes)))


def test_the_headline_counts() -> None:
    data = explained(recompiles=[a_recompile(count=2), a_recompile(count=1)])
    assert headline(data) == "3 graphs, 6 operators, 1 graph break, 3 recompilations, 0.8 s of compiling"
    assert headline(explained(frames=[])) == "no compilation was seen"


def test_a_break_has_its_line_its_number_and_what_to_do() -> None:
    shown = said()
    assert "train.py:16 in toy: print() (hit 3 times)" in shown
    assert "-> Take the print out." in shown
    assert "met by 1 compilation" in said(breaks=[a_break(counted=False)])
    assert "an error, because of fullgraph=True" in said(breaks=[a_break(raised=True)])


def test_a_recompilation_has_its_values_and_what_was_tried() -> None:
    shown = said(recompiles=[a_recompile(limit_hit=True, tried="Tried: with x marked dynamic, it is gone.")])
    assert "scale == 0.5 (once; seen: 0.5, 1.5)" in shown
    assert "The limit is reached: grow runs uncompiled" in shown
    assert "Tried: with x marked dynamic" in shown


def test_a_long_list_is_cut_and_says_so() -> None:
    assert "... and 5 more; see the report" in said(breaks=[a_break() for _ in range(15)])


def test_a_long_path_loses_its_beginning_and_never_the_function() -> None:
    frame = a_frame("forward", source="/a/very/long/path/that/does/not/fit/in/here/model.py:58")
    assert "  forward (...t/in/here/model.py:58)      3 " in said(frames=[frame])


def test_a_failure_is_one_line_and_says_what_to_do() -> None:
    shown = said(failures=["forward: InductorError: C++ compile error\n\nCommand:\ng++ ..."])
    assert "  failed: forward: InductorError: C++ compile error Command: g++ ..." in shown
    assert "torchsleuth run" in shown
