"""Recompilations, grouped by the guard that failed; the values that made it fail; what to do."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from torchsleuth.explain.break_text import Place, is_machinery, plain_function
from torchsleuth.explain.compiles import Compile
from torchsleuth.explain.owners import Owners

_ENTRY = re.compile(r"^!?[\d/]+: ")
_EXPECTED = re.compile(r"[.,:]?\s*expected (.+?), actual (.+?)\s*$")
_SIZE = re.compile(r"tensor '(.+?)' (size|stride) mismatch at index (\d+)")
_TENSOR = re.compile(r"tensor '(.+?)' (rank|dtype|requires_grad|device)")
_EQUAL = re.compile(r"^(.+?) == (.+)$")
_USER_FRAME = re.compile(r'File "(.+)", line (\d+), in (.+)')
_NOTED = re.compile(r"#\s*(\S+):(\d+) in (\S+)\s*$")
_NUMBER = re.compile(r"\b\d{5,}\b")


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
    tried: str = ""  # what came of marking it dynamic, where that was tried


@dataclass(frozen=True)
class _Reason:
    """One guard that failed, as the trace tells it."""

    guard: str  # scale == 0.5
    key: str  # what stays the same when only values differ
    subject: str  # x.size()[0], scale
    values: tuple[str, ...]
    place: Place | None


def find_recompiles(compiles: Sequence[Compile]) -> tuple[Recompile, ...]:
    groups: dict[tuple[str, str, str], list[tuple[_Reason, Compile]]] = {}
    owners = Owners(compiles)
    seen: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for compile in compiles:
        if compile.reasons:
            reason = _cause(compile, seen.setdefault((compile.process, compile.id.rpartition("/")[0]), set()))
            owner = owners.of(compile)
            groups.setdefault((owner.file, owner.function, reason.key), []).append((reason, compile))
    found = [_group(members, owners) for members in groups.values()]
    return tuple(sorted((r for r in found if r.count), key=lambda r: -r.count))


def dynamic_source(found: Recompile) -> str | None:
    """How torch names the value whose size or number changed, for TORCH_COMPILE_DYNAMIC_SOURCES; None if it is none."""
    name = found.subject.partition(".size()")[0]
    number = found.subject == name and all(_kind(v) == "int" for v in found.values)
    return f"L['{name}']" if name.isidentifier() and (found.subject != name or number) else None


def with_trial(found: Recompile, then: Sequence[Recompile]) -> Recompile:
    """`found` with what became of it in a run in which its source was marked dynamic."""
    same = [r for r in then if (r.function, r.subject) == (found.function, found.subject)]
    left = sum(r.count for r in same)
    name = found.subject.partition(".size()")[0]
    if not left and not any(r.limit_hit for r in same):
        return replace(found, tried=f"Tried: with {name} marked dynamic, it is not compiled again for this.")
    return replace(found, tried=f"Tried: with {name} marked dynamic, it is compiled again {left} times all the same.")


def _cause(compile: Compile, seen: set[tuple[str, str]]) -> _Reason:
    """Which of the guards that failed, one for each thing compiled before, is the reason.

    The first that met a value which this frame had not seen yet; else that of the newest, which is the most general.
    """
    reasons = [parse_reason(text) for text in compile.reasons]
    new = [r for r in reasons if (r.key, _met(r, compile)) not in seen]
    for reason in reasons:
        seen.update((reason.key, value) for value in (*reason.values, _met(reason, compile)))
    return (new or reasons)[0]


def _met(reason: _Reason, compile: Compile) -> str:
    """The value that the guard met; "" where the trace does not tell."""
    return reason.values[1] if len(reason.values) > 1 else compile.values.get(reason.subject, "")


def parse_reason(text: str) -> _Reason:
    first, _, rest = text.partition("\n")
    guard = _ENTRY.sub("", first)
    guard, _, note = guard.partition("  #")
    guard = guard.strip()
    frames = [frame for frame in _USER_FRAME.findall(rest) if not is_machinery(frame[0])]
    place = Place(frames[-1][0], int(frames[-1][1]), plain_function(frames[-1][2])) if frames else None
    noted = _NOTED.search("#" + note)
    if place is None and noted:
        place = Place(noted[1], int(noted[2]), plain_function(noted[3]))
    expected = _EXPECTED.search(guard)
    if expected:
        stripped = guard[: expected.start()].rstrip(". ")
        size, tensor = _SIZE.search(stripped), _TENSOR.search(stripped)
        subject = f"{size[1]}.{size[2]}()[{size[3]}]" if size else f"{tensor[1]}.{tensor[2]}" if tensor else stripped
        return _Reason(stripped, stripped, subject, (expected[1], expected[2]), place)
    guard, grad = _split_grad(guard)
    if guard.startswith("Unexpected recompilation"):
        guard = "Unexpected recompilation: torch names no guard that failed"
    if guard.startswith("BACKEND_MATCH"):
        guard = "BACKEND_MATCH: torch.compile was called with another backend"
    equal = _EQUAL.match(guard)
    if tensor := _TENSOR.search(guard):
        return _Reason(guard, guard, f"{tensor[1]}.{tensor[2]}", grad, place)
    if equal:
        return _Reason(guard, equal[1].strip(), equal[1].strip(), (equal[2].strip(),), place)
    return _Reason(guard, _NUMBER.sub("N", guard), guard, (), place)


def _split_grad(guard: str) -> tuple[str, tuple[str, ...]]:
    found = re.search(r"\. expected requires_grad=(\d)", guard)
    return (guard[: found.start()], (str(found[1] == "1"),)) if found else (guard, ())


def _group(members: Sequence[tuple[_Reason, Compile]], owners: Owners) -> Recompile:
    first, compile = members[0]
    values: dict[str, None] = {}
    for reason, each in members:
        for value in (*reason.values, *(v for v in (each.values.get(reason.subject),) if v is not None)):
            values.setdefault(value)
    owner = owners.of(compile)
    done = [c for _, c in members if not c.limit_hit]
    place = owners.in_user_code(first.place or owners.guard_place(compile, first.subject)) or owner
    return Recompile(
        first.guard,
        place,
        owner,
        len(done),
        tuple(values),
        _advice(first, tuple(values)),
        len(done) < len(members),
        tuple(c.id for _, c in members),
        first.subject,
    )


def _advice(reason: _Reason, values: tuple[str, ...]) -> str:
    size = _SIZE.search(reason.guard)
    if reason.guard.startswith("Unexpected recompilation"):
        return (
            "torch names no guard. Often several threads came to the function at once: call it once before they start."
        )
    if reason.guard.startswith("BACKEND_MATCH"):
        return "Call torch.compile once, keep what it gives, and use that: each backend object is compiled for apart."
    if size and size[2] == "size":
        name, index = size[1], size[3]
        special = " Sizes 0 and 1 are always compiled apart." if {"0", "1"} & set(values) else ""
        return (
            f"Say that the size varies, before the first call: torch._dynamo.mark_dynamic({name}, {index}), or "
            f"torch.compile(..., dynamic=True); or pad to a few sizes.{special}"
        )
    if size:
        return f"Give {size[1]} the same memory layout in every call, for example with .contiguous()."
    tensor = _TENSOR.search(reason.guard)
    if tensor:
        return f"Pass {tensor[1]} with the same {tensor[2]} in every call, or accept one compilation for each."
    if "grad_mode" in reason.guard or "global_state" in reason.guard.lower():
        return (
            "Call the function under the same modes (no_grad, autocast, threads) each time, or accept one compilation "
            "for each."
        )
    if re.search(r"obj_id|___check_type_id|is not|\bis\b", reason.guard):
        return "The object is another one in each call: make it once, outside, and pass the same."
    if reason.subject.startswith("len("):
        return f"Pass a fixed number of items, or a tensor: each {reason.subject} is compiled apart."
    kinds = {_kind(v) for v in values}
    if reason.subject.startswith("___stack"):
        return (
            "A number that was computed before a graph break is compiled into what follows it: mend the break, or keep "
            "the number in a tensor."
        )
    if "." in reason.subject and kinds == {"int"}:
        return (
            f"{reason.subject} is a number on an object, and each value is compiled apart: keep it in a tensor, or set "
            "torch._dynamo.config.allow_unspec_int_on_nn_module = True before compiling."
        )
    if kinds <= {"int", "float"} and kinds:
        return (
            f"Pass {reason.subject} as a tensor, torch.tensor({reason.subject}), so that its value is not compiled in."
        )
    return f"Each value of {reason.subject} is compiled apart: keep the number of different values small."


def _kind(value: str) -> str:
    try:
        int(value)
    except ValueError:
        pass
    else:
        return "int"
    try:
        float(value)
    except ValueError:
        return "other"
    return "float"
