"""Random numbers of a script, and the seeds that make them the same in every run.

Every trial of one judge starts with the same random state, a fresh process with another one.  So a candidate that lost
its seed looks as good to the judge as the one before it, and may fail in a fresh process only by chance.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from torchsleuth.case.failure import Kind
from torchsleuth.reduce.source.front import with_lines
from torchsleuth.reduce.source.statements import numbered, without

# Kinds of failure that may depend on the values of tensors.
DEPEND_ON_VALUES = frozenset({Kind.ACCURACY, Kind.RUNTIME_ERROR, Kind.CRASH})

_SEEDS = {
    "manual_seed", "manual_seed_all", "seed_all", "set_seed", "seed_everything", "seed", "default_rng", "RandomState",
}  # fmt: skip
# What may draw: too many names cost a few judgements, one too few may cost a repro.
_DRAWS = re.compile(
    r"rand|normal|bernoulli|multinomial|poisson|uniform|exponential|dropout|rrelu|default_rng|shuffle|\.choice\(|"
    r"\bnn\.[A-Z]\w*\(|nn\.Module\b|from_config"
)


def may_draw(text: str) -> bool:
    return bool(_DRAWS.search(text))


def seeds_in(text: str) -> frozenset[str]:
    """Names of the functions called in the text that set a seed."""
    return frozenset(name for call in _calls(ast.parse(text)) if (name := _called(call)) in _SEEDS)


def lost_a_seed(text: str, whole: str) -> bool:
    """Whether a candidate draws random numbers, and has lost a seed that the script it comes from sets."""
    return may_draw(text) and bool(seeds_in(whole) - seeds_in(text))


def with_seed(text: str, number: int) -> str:
    """For judging: another random state to start with.  No name is bound, so that lost imports are noticed."""
    return with_lines(text, [f'__import__("torch").manual_seed({number})'])


def seeded(text: str, number: int) -> str:
    """The same as a part of the script, before all that draws."""
    return with_lines(text, ["import torch", f"torch.manual_seed({number})"])


def without_seeds(text: str) -> str | None:
    """Without the statements that only call `manual_seed`; None where there is none."""
    tree = ast.parse(text)
    own = [
        number
        for number, (_, statement) in enumerate(numbered(tree))
        if isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Call)
        and _called(statement.value) in ("manual_seed", "manual_seed_all")
    ]
    return ast.unparse(ast.fix_missing_locations(without(tree, own))) + "\n" if own else None


def _calls(tree: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def _called(call: ast.Call) -> str:
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""
