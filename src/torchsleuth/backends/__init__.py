"""Debugging backends, and faulty ones to practise on.

A debugging backend is a `Recipe`: which graph is run, how, and under which checks; `recipes` has those with names,
`compose` makes one of several, `debugging` gives the names to `torch.compile`.  `SchemaCheck` and `FakeCheck` hold each
operator to what it says of itself; they are also context managers for eager code.

`faulty` plants a fault of a chosen kind at a chosen operator; `registered` gives it a name that `torch.compile` knows.
"""

from __future__ import annotations

from torchsleuth.backends.compose import compose
from torchsleuth.backends.fake_check import FakeCheck
from torchsleuth.backends.faulty import Faulty, FaultyCompileError, faulty
from torchsleuth.backends.faulty_source import standalone_source
from torchsleuth.backends.mismatches import (
    BadRecipe,
    GraphRaised,
    NotScriptable,
    NotTraceable,
    OperatorFault,
    WrongFakeKernel,
    WrongSchema,
)
from torchsleuth.backends.recipe import Recipe
from torchsleuth.backends.schema_check import SchemaCheck

__all__ = [
    "BadRecipe",
    "FakeCheck",
    "Faulty",
    "FaultyCompileError",
    "GraphRaised",
    "NotScriptable",
    "NotTraceable",
    "OperatorFault",
    "Recipe",
    "SchemaCheck",
    "WrongFakeKernel",
    "WrongSchema",
    "compose",
    "faulty",
    "standalone_source",
]
