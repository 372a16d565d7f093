"""Programs whose graph breaks and recompilations are known: each reason once, with the lines and the numbers.

A line that breaks is marked `# breaks: REASON xCOUNT`, one that a guard comes from `# recompiles: CAUSE xCOUNT`.  What
is expected is read from those marks, so that a program and its answer cannot drift apart.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass

_BREAK = re.compile(r"# breaks: (.+?) x(\d+)\s*$")
_RECOMPILE = re.compile(r"# recompiles: (.+?) x(\d+)\s*$")


@dataclass(frozen=True)
class Expected:
    breaks: frozenset[tuple[int, str, int]]  # line, reason, count
    recompiles: frozenset[tuple[int, str, int]]


@dataclass(frozen=True)
class Program:
    name: str
    source: str
    graphs: int
    ops: int

    @property
    def expected(self) -> Expected:
        breaks, recompiles = set(), set()
        for number, line in enumerate(self.source.splitlines(), start=1):
            if found := _BREAK.search(line):
                breaks.add((number, found[1], int(found[2])))
            if found := _RECOMPILE.search(line):
                recompiles.add((number, found[1], int(found[2])))
        return Expected(frozenset(breaks), frozenset(recompiles))


_HEAD = """
import copy, logging, threading, time
import torch
compiled = torch.compile(backend="eager")
"""


def _program(name: str, source: str, graphs: int, ops: int) -> Program:
    return Program(name, _HEAD.lstrip() + textwrap.dedent(source).lstrip(), graphs, ops)


PROGRAMS = (
    _program("print", """
        @compiled
        def f(x):
            y = x + 1
            print("here")  # breaks: print() x3
            return y * 2
        for _ in range(3):
            f(torch.ones(3))
    """, 2, 2),
    _program("item", """
        @compiled
        def f(x):
            n = x.sum().item()  # breaks: Tensor.item() x2
            return x * n
        f(torch.ones(3)), f(torch.ones(3))
    """, 2, 2),
    _program("branch", """
        @compiled
        def f(x):
            if x.sum() > 0:  # breaks: branch on the value of a tensor x2
                return x + 1
            return x - 1
        f(torch.ones(3)), f(-torch.ones(3))
    """, 3, 4),
    _program("while", """
        @compiled
        def f(x):
            while x.sum() < 10:  # breaks: branch on the value of a tensor x4
                x = x + 1
            return x * 2
        f(torch.ones(3))
    """, 3, 6),
    _program("builtin", """
        @compiled
        def f(x):
            y = x + 1
            open("/dev/null")  # breaks: open() x2
            return y * 2
        f(torch.ones(3)), f(torch.ones(3))
    """, 2, 2),
    _program("context_manager", """
        lock = threading.Lock()
        @compiled
        def f(x):
            y = x + 1
            with lock:  # breaks: with lock x2
                y = y * 2
            return y - 1
        f(torch.ones(3)), f(torch.ones(3))
    """, 0, 0),
    _program("not_python", """
        @compiled
        def f(x):
            y = x + 1
            time.sleep(0)  # breaks: time.sleep(), which is not written in Python x2
            return y * 2
        f(torch.ones(3)), f(torch.ones(3))
    """, 2, 2),
    _program("graph_break", """
        @compiled
        def f(x):
            y = x + 1
            torch._dynamo.graph_break()  # breaks: torch._dynamo.graph_break() x2
            return y * 2
        f(torch.ones(3)), f(torch.ones(3))
    """, 2, 2),
    _program("disabled", """
        @torch.compiler.disable
        def off(x):
            return x + 3
        @compiled
        def f(x):
            y = off(x * 2)  # breaks: off() is under torch.compiler.disable x2
            return y * 2
        f(torch.ones(3)), f(torch.ones(3))
    """, 2, 2),
    _program("nonzero", """
        @compiled
        def f(x):
            i = torch.nonzero(x * 2)  # breaks: nonzero: the size of its output depends on the data x2
            return i + 1
        f(torch.ones(3)), f(torch.ones(3))
    """, 2, 2),
    _program("logging", """
        log = logging.getLogger("program")
        @compiled
        def f(x):
            y = x + 1
            log.info("here")  # breaks: logging x2
            return y * 2
        f(torch.ones(3)), f(torch.ones(3))
    """, 2, 2),
    _program("deepcopy", """
        @compiled
        def f(x):
            y = copy.deepcopy(x + 1)  # breaks: copy.deepcopy() of a tensor x2
            return y * 2
        f(torch.ones(3)), f(torch.ones(3))
    """, 2, 2),
    _program("tolist", """
        @compiled
        def f(x):
            first = (x + 1).tolist()[0]  # breaks: Tensor.tolist() of a tensor that is not of integers x2
            return x * first
        f(torch.ones(3)), f(torch.ones(3))
    """, 2, 2),
    _program("in_a_loop", """
        @compiled
        def f(x):
            for i in range(4):
                x = x + i
                print(i)  # breaks: print() x8
            return x
        f(torch.ones(3)), f(torch.ones(3))
    """, 0, 0),
    _program("in_a_helper", """
        def helper(x):
            y = x + 1
            print("helper")  # breaks: print() x4
            return y * 2
        @compiled
        def f(x):
            x = helper(x)
            return helper(x) - 3
        f(torch.ones(3)), f(torch.ones(3))
    """, 3, 3),
    _program("in_a_helper_without_tensors", """
        def say(what):
            print(what)  # breaks: print() x5
        @compiled
        def f(x):
            x = x + 1
            say("here")
            return x * 2
        @compiled
        def g(x):
            for _ in range(3):
                x = x.sin()
                say("there")
            return x
        f(torch.ones(3)), f(torch.ones(3)), g(torch.ones(3))
    """, 2, 2),
    _program("constants_that_cannot_be_hashed", """
        @compiled
        def f(x):
            parts = {i: x + i for i in range(2)}
            torch._dynamo.graph_break()  # breaks: torch._dynamo.graph_break() x1
            return parts[0] + parts[1]
        f(torch.ones(3))
    """, 2, 3),
    _program("raises", """
        @compiled
        def f(x):
            y = x + 1
            if y.shape[0] == 3:
                raise ValueError("mine")  # breaks: raises ValueError x2
            return y
        for _ in range(2):
            try:
                f(torch.ones(3))
            except ValueError:
                pass
    """, 0, 0),
    _program("two_of_one_name", """
        class Inner(torch.nn.Module):
            def forward(self, x):
                y = x + 1
                print("inner")  # breaks: print() x6
                return y * 2
        class Outer(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = Inner()
            def forward(self, x):
                for _ in range(3):
                    x = self.inner(x)
                return x
        net = torch.compile(Outer(), backend="eager")
        net(torch.ones(3)), net(torch.ones(3))
    """, 2, 2),
    _program("generator", """
        @compiled  # breaks: a generator function x1
        def f(x):
            yield x + 1
            yield x + 2
        list(f(torch.ones(3)))
    """, 0, 0),
    _program("none", """
        @compiled
        def f(x):
            return torch.relu(x) + 1
        for _ in range(5):
            f(torch.ones(3))
    """, 1, 2),
    _program("sizes", """
        @torch.compile(backend="eager", dynamic=False)
        def f(x):
            return x * 2  # recompiles: tensor 'x' size mismatch at index 0 x3
        for n in (3, 5, 7, 9):
            f(torch.ones(n))
    """, 4, 4),
    _program("number", """
        @compiled
        def f(x, scale):
            return x * scale  # recompiles: scale == 0.5 x1
        for scale in (0.5, 1.5, 2.5):
            f(torch.ones(3), scale)
    """, 2, 3),
    _program("attribute", """
        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.step = 0
            def forward(self, x):
                self.step += 1  # recompiles: self.step == 0 x3
                return x * self.step
        net = torch.compile(Net(), backend="eager")
        for _ in range(4):
            net(torch.ones(3))
    """, 4, 4),
    _program("string", """
        @compiled
        def f(x, mode):
            return x * 2 if mode == "a" else x + 3  # recompiles: mode == 'a' x2
        for mode in "abca":
            f(torch.ones(3), mode)
    """, 3, 3),
    _program("dtype", """
        @compiled
        def f(x):
            return x * 2  # recompiles: tensor 'x' dtype mismatch x1
        f(torch.ones(3)), f(torch.ones(3, dtype=torch.float64)), f(torch.ones(3))
    """, 2, 2),
    _program("grad_mode", """
        @compiled  # recompiles: GLOBAL_STATE changed: grad_mode x1
        def f(x):
            return x * 2
        f(torch.ones(3))
        with torch.no_grad():
            f(torch.ones(3))
    """, 2, 2),
    _program("limit", """
        @torch.compile(backend="eager", dynamic=False)
        def f(x):
            return x * 2  # recompiles: tensor 'x' size mismatch at index 0 x7
        for n in range(2, 14):
            f(torch.ones(n))
    """, 8, 8),
)  # fmt: skip
