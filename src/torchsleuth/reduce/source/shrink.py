"""The way from a whole file to a few lines: statements, wrappers, calls, names, expressions, until nothing goes."""

from __future__ import annotations

import ast
import itertools
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from torchsleuth.reduce import search
from torchsleuth.reduce.oracle import OutOfBudget
from torchsleuth.reduce.source import arguments, expressions, imports, inlining, loops, modules, statements
from torchsleuth.reduce.source.backends import on_backend

JudgeTexts = Callable[[Sequence[str]], Sequence[bool]]  # does each fail in the same way?
Say = Callable[[str], None]
_ROUNDS = 6
_NEXT = 5  # texts to try beside the smallest


@dataclass
class Shrinker:
    """`judge` may raise OutOfBudget: the smallest text so far stands."""

    text: str
    judge: JudgeTexts
    say: Say = lambda _: None
    width: int = 1
    backend: str = ""  # to be tried first in the place of the program's: one that is sooner done
    known: dict[str, bool] = field(default_factory=dict)
    _told: str = ""

    def shrink(self) -> str:
        try:
            self._plain()
            self._on_backend()
            self._try([expressions.with_breaks_allowed(self._tree)])
            self._apart()
            for _ in range(_ROUNDS):
                before = self.text
                self._fewer_statements()
                self._tidy("fewer names of imports", imports.fewer_names)
                self._tidy("defaults in the place of arguments", arguments.defaults)
                self._tidy("bodies in the place of what wraps them", statements.unwrapped)
                self._tidy("a part in the place of the whole model", modules.parts)
                self._tidy("what functions do in the place of their calls", inlining.calls)
                self._tidy("what functions give in the place of their calls", inlining.results)
                self._tidy("values in the place of names", inlining.values)
                self._tidy("fewer parameters", inlining.parameters)
                self._tidy("fewer inputs of modules", modules.inputs)
                self._larger("one round of a loop", loops.first_rounds)
                self._tidy("shorter loops", loops.shorter)
                self._tidy("values in the place of attributes", modules.attributes)
                self._tidy("functions in the place of modules", modules.functions)
                self._fewer_statements()
                self._tidy("smaller expressions", expressions.simpler)
                if self.text == before:
                    break
        except OutOfBudget:
            self.say("no more is tried: this is the smallest so far")
        return self.text

    def next_best(self) -> Iterator[str]:
        """The smallest text, then some larger ones, at growing distances: for when the smallest fails only by luck."""
        failing = sorted((t for t, fails in self.known.items() if fails), key=size)
        yield self.text
        for step in itertools.takewhile(lambda n: n < len(failing), (2**n for n in range(1, _NEXT))):
            yield failing[step]

    def _tell(self, what: str) -> None:
        """Only where something has changed since."""
        if self._told != self.text:
            self._told = self.text
            self.say(f"{what}: {lines(self.text)} left")

    @property
    def _tree(self) -> ast.Module:
        return ast.parse(self.text)

    def _plain(self) -> None:
        """Without comments; blank lines come back where they belong when it is written."""
        plain = written(self._tree)
        if plain is not None and plain != self.text and self._fails([plain])[0]:
            self.text = plain

    def _on_backend(self) -> None:
        """Longer by a word, and every judgement after it is shorter: what fails before Inductor needs no kernels."""
        changed = written(on_backend(self._tree, self.backend)) if self.backend else None
        if changed is not None and changed != self.text and self._fails([changed])[0]:
            self.text = changed

    def _apart(self) -> None:
        """Statements of one thing each: what goes, goes alone."""
        self._larger("assignments of one name each", inlining.tuples)

    def _larger(self, what: str, propose: Callable[[ast.Module], Iterator[ast.Module]]) -> None:
        """Proposals that may make the text longer for now, and cannot be made for ever."""
        self._tell(what)
        while True:
            found = next((t for tree in propose(self._tree) if (t := written(tree)) and self._fails([t])[0]), None)
            if found is None:
                return
            self.text = found

    def _fewer_statements(self) -> None:
        depth = 0
        while True:
            tree = self._tree
            here = [n for n, (level, s) in enumerate(statements.numbered(tree)) if level == depth]
            if not here:
                return
            self._tell(f"searching among {len(here)} statements")
            whole = frozenset(here)

            def test(
                sets: Sequence[frozenset[int]], tree: ast.Module = tree, whole: frozenset[int] = whole
            ) -> list[bool]:
                return self._try([statements.without(tree, whole - kept) for kept in sets])

            search.minimise(here, test, width=self.width)
            depth += 1

    def _tidy(self, what: str, propose: Callable[[ast.Module], Iterator[ast.Module]]) -> None:
        """Proposals in order, some at once; after one that was kept, on from about the same place."""
        skip = 0
        self._tell(what)
        while True:
            proposals = itertools.islice(propose(self._tree), skip, None)
            batch = list(itertools.islice(proposals, self.width))
            if not batch:
                return
            if not any(self._try(batch)):
                skip += len(batch)

    def _try(self, trees: Sequence[ast.Module]) -> list[bool]:
        """Whether each fails; the smallest that does, and is smaller than what there is, takes its place."""
        texts = [written(tree) for tree in trees]
        results = iter(self._fails([t for t in texts if t is not None]))
        found = [text is not None and next(results) for text in texts]
        failing = [t for t, fails in zip(texts, found, strict=True) if fails and t is not None]
        smaller = [t for t in failing if size(t) < size(self.text)]
        if smaller:
            self.text = min(smaller, key=size)
        return [fails and text in smaller for text, fails in zip(texts, found, strict=True)]

    def _fails(self, texts: Sequence[str]) -> list[bool]:
        endless = [t for t in dict.fromkeys(texts) if t not in self.known and statements.never_ends(ast.parse(t))]
        self.known.update(dict.fromkeys(endless, False))
        new = [t for t in dict.fromkeys(texts) if t not in self.known]
        if new:
            self.known.update(zip(new, self.judge(new), strict=True))
        return [self.known[t] for t in texts]


def written(tree: ast.Module) -> str | None:
    """The text of a tree; None where it is no Python."""
    try:
        text = ast.unparse(ast.fix_missing_locations(tree)) + "\n"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(text, "repro.py", "exec")
    except (SyntaxError, ValueError, AttributeError, TypeError, RecursionError):
        return None
    return text


def size(text: str) -> tuple[int, int, str]:
    """Smaller is what has fewer nodes, then fewer characters, then smaller ones: 2 for 4."""
    return sum(1 for _ in ast.walk(ast.parse(text))), len(text), text


def lines(text: str) -> str:
    count = count_lines(text)
    return f"{count} line{'s' * (count != 1)}"


def count_lines(text: str) -> int:
    """Lines that are not blank; a program inside a string, as `exec` takes one, counts as the lines that it has."""
    strings = [
        node.value
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.lineno == node.end_lineno
    ]
    # Written over several lines, a string that ends with one has its closing quotes on a line of their own.
    more = sum(
        sum(bool(line.strip()) for line in value.split("\n")) - (not value.endswith("\n"))
        for value in strings
        if value.count("\n") > 1
    )
    return sum(bool(line.strip()) for line in text.splitlines()) + more
