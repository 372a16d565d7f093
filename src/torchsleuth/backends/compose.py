"""Several debugging backends as one.

    compose("sleuth_aot_decomp", "sleuth_fake", "sleuth_schema")
    torch.compile(f, backend="sleuth_fake", options={"with": ["sleuth_schema"], "decompositions": "core"})

Each gives the fields that it sets.  Checks and modes add up; two that set another field differently do not go together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from torchsleuth.backends.mismatches import BadRecipe
from torchsleuth.backends.recipe import Recipe
from torchsleuth.backends.recipes import RECIPES

_ADD_UP = ("checks", "modes")
_WITH = "with"


def compose(*backends: str | Recipe, **options: Any) -> Recipe:
    """One backend that does what all of `backends` do; `options` are fields of `Recipe` and have the last word."""
    made: dict[str, Any] = {}
    by: dict[str, str] = {}
    for backend in backends:
        recipe = named(backend)
        for field, value in _set_fields(recipe).items():
            if field in _ADD_UP:
                made[field] = tuple(dict.fromkeys((*made.get(field, ()), *value)))
            elif made.setdefault(field, value) != value and field not in options:
                raise BadRecipe(
                    f"{by[field]} has {field}={made[field]!r} and {_name(backend)} has {field}={value!r}: "
                    "take one of the two, or say which as an option."
                )
            by.setdefault(field, _name(backend))
    return Recipe(**{**made, **_known(options)})


def with_options(recipe: Recipe, options: Mapping[str, Any]) -> Recipe:
    """`options` of torch.compile: fields of `Recipe`, and "with": further backends."""
    rest = {key: value for key, value in options.items() if key != _WITH}
    others = options.get(_WITH, ())
    if not others:
        return replace(recipe, **_known(rest))
    return compose(recipe, *((others,) if isinstance(others, (str, Recipe)) else others), **rest)


def named(backend: str | Recipe) -> Recipe:
    if isinstance(backend, Recipe):
        return backend
    if backend not in RECIPES:
        raise BadRecipe(f"{backend!r} cannot be composed; choose from {', '.join(RECIPES)}.")
    return RECIPES[backend]


def _set_fields(recipe: Recipe) -> dict[str, Any]:
    return {f.name: value for f in fields(recipe) if (value := getattr(recipe, f.name)) != f.default}


def _known(options: Mapping[str, Any]) -> Mapping[str, Any]:
    known = [f.name for f in fields(Recipe)]
    for option in options:
        if option not in known:
            raise BadRecipe(f"there is no option {option!r}; there are {', '.join((*known, _WITH))}.")
    return options


def _name(backend: str | Recipe) -> str:
    return backend if isinstance(backend, str) else "one backend"
