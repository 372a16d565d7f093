"""Steps of the source reducer for what users write: loops, argument parsers, modules of modules."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Callable, Iterator, Sequence

from torchsleuth.reduce.source import arguments, expressions, loops, modules
from torchsleuth.reduce.source.backends import failing_on_recompile, in_one_graph, on_backend
from torchsleuth.reduce.source.shrink import Shrinker, written


def proposals(propose: Callable[[ast.Module], Iterator[ast.Module]], text: str) -> list[str]:
    return [w.strip() for t in propose(ast.parse(textwrap.dedent(text))) if (w := written(t)) is not None]


def test_a_loop_becomes_its_first_round() -> None:
    assert proposals(loops.first_rounds, "for i, b in enumerate(xs):\n    f(i, b)") == ["i = 0\nb = xs[0]\nf(i, b)"]
    assert proposals(loops.first_rounds, "for n in range(3, 9):\n    f(n)") == ["n = 3\nf(n)"]
    assert proposals(loops.first_rounds, "for a, b in zip(xs, [1, 2]):\n    f(a, b)") == ["a = xs[0]\nb = 1\nf(a, b)"]
    assert not proposals(loops.first_rounds, "for a in xs:\n    break")


def test_a_comprehension_becomes_one_element_and_a_range_two() -> None:
    assert proposals(loops.shorter, "y = [f() for _ in range(n)]") == ["y = [f()]", "y = [f() for _ in range(2)]"]
    assert not proposals(loops.shorter, "y = [f(i) for i in range(2)]")


def test_the_defaults_of_a_parser_stand_for_its_arguments() -> None:
    text = """
        p.add_argument("--n-steps", "-n", type=int, default=4)
        p.add_argument("--fast", action="store_true")
        p.add_argument("--must")
        args = p.parse_args()
        f(args.n_steps, args.fast, args.must, self.fast)
    """
    last = [text.splitlines()[-1] for text in proposals(arguments.defaults, text)]
    assert last == ["f(4, args.fast, args.must, self.fast)", "f(args.n_steps, False, args.must, self.fast)"]


NETWORK = """
class Part(nn.Module):
    def forward(self, x, scale):
        return bug(x)

class Whole(nn.Module):
    def __init__(self):
        self.part = Part()
    def forward(self, x, scale):
        return self.part(x, scale)

net = Whole()
net.compile(backend="eager")
net(x, 2)
"""


def test_a_part_stands_for_the_whole_model() -> None:
    assert any("net = Part()" in text for text in proposals(modules.parts, NETWORK))


def test_inputs_of_modules_go_with_what_is_given_for_them() -> None:
    made = proposals(modules.inputs, NETWORK)
    assert any("def forward(self, x):\n        return self.part(x, scale)" in t and "net(x)" in t for t in made)
    assert any("def forward(self, x):\n        return bug(x)" in t and "self.part(x)" in t for t in made)


def test_a_module_that_keeps_nothing_becomes_a_function() -> None:
    text = "class Net(nn.Module):\n    def forward(self, x):\n        return bug(x)\nnet = Net()\nnet.compile()\nnet(x)"
    assert proposals(modules.functions, text) == [
        "def net_forward(x):\n    return bug(x)\nnet = net_forward\nnet = torch.compile(net)\nnet(x)"
    ]
    keeps = text.replace("bug(x)", "bug(self.x)")
    assert not proposals(modules.functions, keeps)


def test_settings_of_torch_compile() -> None:
    tree = ast.parse("import re\nre.compile('a')\nf = torch.compile(g, mode='x')\n@torch.compile\ndef h():\n    pass")
    eager = written(on_backend(tree, "eager"))
    assert eager is not None
    assert "re.compile('a')" in eager
    assert "torch.compile(g, backend='eager')" in eager
    assert "@torch.compile(backend='eager')" in eager
    whole = written(in_one_graph(ast.parse("net.compile(fullgraph=False)\ntorch.compile(f)")))
    assert whole == "net.compile(fullgraph=True)\ntorch.compile(f, fullgraph=True)\n"
    again = written(failing_on_recompile(ast.parse("import torch\nfrom torch import nn\nf()")))
    setting = "torch._dynamo.config.error_on_recompile = True"
    assert again == f"import torch\nfrom torch import nn\n{setting}\nf()\n"
    assert written(failing_on_recompile(ast.parse("f()"))) == f"import torch\n{setting}\nf()\n"


def test_next_best_goes_to_larger_texts() -> None:
    """The smallest comes first, then others that failed, each larger than the one before."""
    text = "\n".join(f"a{n} = {n}" for n in range(12)) + "\n"
    shrinker = Shrinker(text, lambda texts: ["a3" in t for t in texts])
    assert shrinker.shrink().strip() == "a3 = 2"
    order = list(shrinker.next_best())
    assert order[0] == shrinker.text
    assert len(order) > 2
    assert [len(t) for t in order] == sorted(len(t) for t in order)


def test_a_loop_that_lost_its_way_out_is_not_judged() -> None:
    text = "def f():\n    while True:\n        n = bug()\n        if n:\n            return n\nf()\n"
    judged: list[str] = []

    def judge(texts: Sequence[str]) -> list[bool]:
        judged.extend(texts)
        return ["bug" in t for t in texts]

    Shrinker(text, judge).shrink()
    assert judged
    assert not any("while True" in t and "return" not in t for t in judged)


def test_what_a_module_keeps_stands_where_it_is_read() -> None:
    text = """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.parts = [bug]
                self.count = 0
            def forward(self):
                self.count += 1
                self.parts[0]()
    """
    [made] = proposals(modules.attributes, text)  # what changes is kept
    assert "[bug][0]()" in made
    assert "self.parts" not in made


def test_an_element_stands_for_a_list_that_is_indexed() -> None:
    made = [written(t) for t in expressions.simpler(ast.parse("f([a, b][1], [c][n])"))]
    assert "f(b, [c][n])\n" in made


class Module:
    """As torch's calls `forward`."""

    def __call__(self, *given: object) -> object:
        return self.forward(*given)  # type: ignore[attr-defined]


def test_a_model_of_parts_becomes_a_function() -> None:
    text = """
        class Part(Module):
            def forward(self, x):
                bug(x)
        class Net(Module):
            def __init__(self):
                super().__init__()
                self.parts = [Part() for _ in range(3)]
            def forward(self, x):
                for n, part in enumerate(self.parts):
                    part(x)
        Net()(1)
    """

    def judge(texts: Sequence[str]) -> list[bool]:
        found = []
        for one in texts:
            seen: list[object] = []
            try:
                exec(one, {"bug": seen.append, "Module": Module, "__name__": "toy"})
            except Exception:
                seen.clear()
            found.append(bool(seen))
        return found

    assert Shrinker(textwrap.dedent(text), judge).shrink().strip() == "bug(1)"
