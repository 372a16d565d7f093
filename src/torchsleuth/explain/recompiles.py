"""Recompilations, grouped by the guard that failed; the values that made it fail; what to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torchsleuth.explain.break_text import Place
from torchsleuth.explain.compiles import Compile
from torchsleuth.explain.guard_failures import GuardFailure, parse_reason
from torchsleuth.explain.other_instances import (
    OtherInstance,
    advice_on_instances,
    calls_modules,
    is_other_instance,
    on_module,
)
from torchsleuth.explain.owners import Owners
from torchsleuth.explain.recompile_advice import advice_on
from torchsleuth.explain.trial import Trial

_Members = list[tuple[GuardFailure, Compile]]


@dataclass(frozen=True)
class Recompile:
    cause: str
    place: Place
    function: Place  # the one that was compiled again
    count: int
    values: tuple[str, ...]
    advice: str
    limit_hit: bool  # it was compiled so often that Dynamo gave up
    compile_ids: tuple[str, ...]
    subject: str = ""  # x.size()[0], scale
    hint: str = ""  # what torch adds to the guard, in its words
    trial: Trial | None = None  # what came of marking it dynamic, where that was tried


@dataclass(frozen=True)
class Again:
    """All that was compiled where something of the same function had been compiled before."""

    recompiles: tuple[Recompile, ...]
    others: tuple[OtherInstance, ...]  # first compilations of other modules


def find_again(compiles: Sequence[Compile], owners: Owners) -> Again:
    groups: dict[tuple[Place, str], _Members] = {}
    others: dict[tuple[Place, str], _Members] = {}
    seen: dict[tuple[str, str, int], set[tuple[str, str]]] = {}
    before: dict[tuple[str, str, int], list[Compile]] = {}
    for compile in compiles:
        frame = (compile.process, compile.id.rpartition("/")[0], compile.again)
        if compile.reasons and is_other_instance(compile, before.get(frame, ())):
            reason = next(r for r in map(parse_reason, compile.reasons) if on_module(compile, r))
            # Modules of torch's own classes differ in many ways, and none of them says what to do.
            key = "" if calls_modules(compile) or not compile.name else reason.key
            others.setdefault((owners.of_class(compile), key), []).append((reason, compile))
        elif compile.reasons:
            reason = _cause(compile, seen.setdefault(frame, set()))
            groups.setdefault((owners.of(compile), reason.key), []).append((reason, compile))
        before.setdefault(frame, []).append(compile)
    found = [_group(owner, members, owners) for (owner, _), members in groups.items()]
    apart = [_other(place, members, compiles) for (place, _), members in others.items()]
    return Again(tuple(sorted(found, key=lambda r: -r.count)), tuple(sorted(apart, key=lambda o: -o.count)))


def _cause(compile: Compile, seen: set[tuple[str, str]]) -> GuardFailure:
    """Choose the guard that is the reason, of those that failed, one for each thing compiled before.

    The first that met a value which this frame had not seen yet; else that of the newest, which is the most general.
    """
    reasons = [parse_reason(text) for text in compile.reasons]
    new = [r for r in reasons if (r.key, _met(r, compile)) not in seen]
    for reason in reasons:
        seen.update((reason.key, value) for value in (*reason.values, _met(reason, compile)))
    return (new or reasons)[0]


def _met(reason: GuardFailure, compile: Compile) -> str:
    """The value that the guard met; "" where the trace does not tell."""
    return reason.values[1] if len(reason.values) > 1 else compile.values.get(reason.subject, "")


def _values(members: _Members) -> tuple[str, ...]:
    values: dict[str, None] = {}
    for reason, each in members:
        for value in (*reason.values, *(v for v in (each.values.get(reason.subject),) if v is not None)):
            values.setdefault(value)
    return tuple(values)


def _group(owner: Place, members: _Members, owners: Owners) -> Recompile:
    first, compile = members[0]
    values = _values(members)
    done = [c for _, c in members if not c.limit_hit]
    place = owners.in_user_code(first.place or owners.guard_place(compile, first.subject)) or owner
    return Recompile(
        first.guard,
        place,
        owner,
        len(done),
        values,
        advice_on(first, values),
        len(done) < len(members),
        tuple(c.id for _, c in members),
        first.subject,
        first.hint,
    )


def _other(place: Place, members: _Members, compiles: Sequence[Compile]) -> OtherInstance:
    first, compile = members[0]
    values = _values(members)
    instances = {c.instance for c in compiles if c.module_class == compile.module_class and c.instance}
    number = len(instances) if compile.instance else None
    done = [c for _, c in members if not c.limit_hit]
    return OtherInstance(
        module_class=compile.module_class,
        place=place,
        causes=tuple(dict.fromkeys(reason.guard for reason, _ in members)),
        values=values,
        count=len(done),
        instances=number,
        limit_hit=len(done) < len(members),
        compile_ids=tuple(c.id for _, c in members),
        advice=advice_on_instances(first, values, number),
        hint=first.hint,
    )
