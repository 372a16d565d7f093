"""Source made smaller, with toy judges that only read the text."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings, strategies as st

from torchsleuth.reduce.oracle import OutOfBudget
from torchsleuth.reduce.source import expressions, inlining, statements
from torchsleuth.reduce.source.backends import on_backend
from torchsleuth.reduce.source.shrink import Shrinker, written


def reaches(judged: Callable[[object], bool]) -> Callable[[Sequence[str]], list[bool]]:
    """Fails alike: the text runs to its end, and calls bug() with what is judged so."""

    def judge(texts: Sequence[str]) -> list[bool]:
        found = []
        for text in texts:
            seen: list[object] = []
            try:
                exec(text, {"__name__": "__main__", "bug": seen.append})
                found.append(any(map(judged, seen)))
            except Exception:
                found.append(False)
        return found

    return judge


def shrunk(text: str, judged: Callable[[object], bool], width: int = 1) -> str:
    return Shrinker(textwrap.dedent(text), reaches(judged), width=width).shrink()


@pytest.mark.parametrize("width", [1, 3])
def test_a_program_shrinks_to_what_matters(width: int) -> None:
    text = shrunk(
        '''
        """A program."""
        import math
        import os

        SIZE = 12

        class Model:
            def __init__(self, size):
                self.size = size

            def forward(self, x):
                y = x + self.size
                with open(os.devnull):
                    z = math.sqrt(y)
                    bug(z)
                return z * 2

        def make():
            model = Model(SIZE)
            return model

        def main():
            model = make()
            for _ in range(3):
                print(end="")
            result = model.forward(4)
            assert result

        if __name__ == "__main__":
            main()
        ''',
        lambda seen: isinstance(seen, float),
        width,
    )
    assert text.split() == (
        "import math class Model: def forward(self, x): bug(math.sqrt(x)) Model().forward(2)".split()
    )


def test_a_call_is_replaced_by_what_it_does() -> None:
    text = shrunk("def f(a):\n    b = [a]\n    return b\nc = f(3)\nbug(c)\n", lambda seen: isinstance(seen, list))
    assert text == "bug([])\n"


def test_what_only_returns_is_replaced_by_what_it_returns() -> None:
    tree = ast.parse("def g():\n    return [1]\ndef h():\n    pass\nf(g(), h())\n")
    assert {written(t).splitlines()[-1] for t in inlining.results(tree)} == {"f([1], h())", "f(g(), None)"}  # type: ignore[union-attr]
    (spread,) = inlining.results(ast.parse("f(1, **{'a': 2, 'b': 3}, c=4)"))
    assert written(spread) == "f(1, a=2, b=3, c=4)\n"


def test_a_tuple_of_values_is_taken_apart_first() -> None:
    text = "def g():\n    x = 1\n    return [x]\na, b = (g(), 7)\nbug(a)\nprint(b, end='')\n"
    assert shrunk(text, lambda seen: isinstance(seen, list)) == "bug([])\n"


def test_values_take_the_place_of_names() -> None:
    tree = ast.parse("a = [1, 2]\nprint(a)\n")
    assert [written(t) for t in inlining.values(tree)] == ["print([1, 2])\n"]
    assert list(inlining.values(ast.parse("a = 1\na = 2\nprint(a)\n"))) == []


def test_bodies_are_never_left_empty() -> None:
    tree = ast.parse("def f():\n    return 1\nif x:\n    y\nelse:\n    z\n")
    texts = [written(statements.without(tree, {n})) for n in range(len(statements.numbered(tree)))]
    assert texts[1] == "def f():\n    pass\nif x:\n    y\nelse:\n    z\n"
    assert texts[4] == "def f():\n    return 1\nif x:\n    y\n"


def test_what_is_called_does_not_stand_for_its_result() -> None:
    texts = {written(t) for t in expressions.simpler(ast.parse("f(x.g(1), k=2)\n"))}
    assert {"x.g(1)\n", "2\n", "f(x, k=2)\n", "f(1, k=2)\n", "f(k=2)\n", "f(x.g(1))\n"} <= texts
    assert "f\n" not in texts


def test_a_spent_budget_leaves_the_smallest_so_far() -> None:
    asked = 0

    def judge(texts: Sequence[str]) -> list[bool]:
        nonlocal asked
        asked += len(texts)
        if asked > 6:
            raise OutOfBudget
        return ["needed" in t for t in texts]

    text = "\n".join([*(f"x{i} = {i}" for i in range(40)), "needed = 1"])
    found = Shrinker(text, judge).shrink()
    assert "needed" in found
    assert len(found) < len(text)


_NAMES = st.sampled_from(["a", "b", "c"])
_LINES = st.one_of(
    st.builds(lambda n, v: f"{n} = {v}", _NAMES, st.integers(0, 9)),
    st.builds(lambda n, m: f"{n} = [{m}, 1] if {m} else {m}", _NAMES, _NAMES),
    st.builds(lambda n: f"if {n}:\n    {n} = ({n}, {n})\nelse:\n    pass", _NAMES),
    st.builds(lambda n: f"def f_{n}({n}):\n    return {n} or 2", _NAMES),
    st.builds(lambda n, m: f"{n} = f_{m}({n})", _NAMES, _NAMES),
)


@settings(max_examples=30, deadline=None)
@given(st.lists(_LINES, max_size=8))
def test_every_proposal_is_python_or_nothing(body: list[str]) -> None:
    tree = ast.parse("\n".join(body))
    for propose in (statements.unwrapped, inlining.calls, inlining.values, expressions.simpler):
        for proposal in propose(tree):
            text = written(proposal)
            assert text is None or ast.parse(text) is not None
    assert ast.unparse(tree) == ast.unparse(ast.parse("\n".join(body))), "the tree itself is left alone"


def test_fullgraph_goes_first_where_it_does_not_matter() -> None:
    tree = ast.parse("kw = {'backend': 'eager', 'fullgraph': True}\ncompile(f, fullgraph=True, dynamic=True)")
    assert written(expressions.with_breaks_allowed(tree)) == "kw = {'backend': 'eager'}\ncompile(f, dynamic=True)\n"
    asked: list[str] = []

    def judge(texts: Sequence[str]) -> list[bool]:
        asked.extend(texts)
        return [True] * len(texts)

    Shrinker("go(fullgraph=True)\nstay()\n", judge).shrink()
    assert asked[0] == "go()\nstay()\n"


def test_a_parameter_goes_with_its_default() -> None:
    found = shrunk(
        """
        def f(a, b=3, c=4):
            bug(a + c)
        f(1)
        """,
        lambda seen: seen == 5,
    )
    assert "=" not in found.replace("c=4", "")
    assert "b" not in found.replace("bug", "")


def test_a_comprehension_that_chooses_nothing_goes() -> None:
    found = shrunk("bug([s for s in [o for o in [1, 2] if isinstance(o, int)]])\n", lambda seen: seen == [1, 2])
    assert found == "bug([1, 2])\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("torch.compile(f)(x)", "torch.compile(f, backend='eager')(x)"),
        ("torch.compile(f, mode='max-autotune', dynamic=True)", "torch.compile(f, dynamic=True, backend='eager')"),
        ("torch.compile(f, backend='inductor', options={})", "torch.compile(f, backend='eager')"),
        ("@torch.compile\ndef f(x):\n    return x", "@torch.compile(backend='eager')\ndef f(x):\n    return x"),
        ("@torch.compile(dynamic=True)\ndef f():\n    pass",
         "@torch.compile(dynamic=True, backend='eager')\ndef f():\n    pass"),
        ("re.compile(f)", "re.compile(f)"),
    ],
)  # fmt: skip
def test_every_compilation_takes_another_backend(before: str, after: str) -> None:
    assert written(on_backend(ast.parse(before), "eager")) == after + "\n"


def test_a_backend_that_is_sooner_done_is_kept_where_it_fails_alike() -> None:
    def judge(texts: Sequence[str]) -> list[bool]:
        return ["torch.compile" in text and "bug" in text and "eager" in text for text in texts]

    text = "unused = 1\ntorch.compile(bug)\n"
    assert Shrinker(text, judge, backend="eager").shrink() == "torch.compile(bug, backend='eager')\n"
    assert "inductor" not in Shrinker(text, judge, backend="inductor").shrink()
