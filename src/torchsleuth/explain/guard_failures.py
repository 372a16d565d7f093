"""One guard that failed, parsed from the reason that torch gives for a recompilation."""

from __future__ import annotations

import re
from dataclasses import dataclass

from torchsleuth.explain.break_text import Place, is_machinery, plain_function

SIZE = re.compile(r"tensor '(.+?)' (size|stride) mismatch at index (\d+)")
TENSOR = re.compile(r"tensor '(.+?)' (rank|dtype|requires_grad|device)")
_ENTRY = re.compile(r"^!?[\d/]+: ")
_EXPECTED = re.compile(r"[.,:]?\s*expected (.+?), actual (.+?)(?:\. (.+))?\s*$")
_HINT = re.compile(r"\s*\(HINT: (.*)\)\s*$", re.DOTALL)
_EQUAL = re.compile(r"^(.+?) == (.+)$")
_USER_FRAME = re.compile(r'File "(.+)", line (\d+), in (.+)')
_NOTED = re.compile(r"#\s*(\S+):(\d+) in (\S+)\s*$")
_NUMBER = re.compile(r"\b\d{5,}\b")


@dataclass(frozen=True)
class GuardFailure:
    guard: str  # scale == 0.5
    key: str  # what stays the same when only values differ
    subject: str  # x.size()[0], scale
    values: tuple[str, ...]
    place: Place | None
    hint: str = ""  # what torch adds to the guard, in its words


def parse_reason(text: str) -> GuardFailure:
    first, _, rest = text.partition("\n")
    frames = [frame for frame in _USER_FRAME.findall(rest) if not is_machinery(frame[0])]
    place = Place(frames[-1][0], int(frames[-1][1]), plain_function(frames[-1][2])) if frames else None
    guard, hint = _split_hint(_ENTRY.sub("", first))
    guard, _, note = guard.partition("  #")
    guard = guard.strip()
    noted = _NOTED.search("#" + note)
    if place is None and noted:
        place = Place(noted[1], int(noted[2]), plain_function(noted[3]))
    expected = _EXPECTED.search(guard)
    if expected:
        plain = guard[: expected.start()].rstrip(". ")
        size, tensor = SIZE.search(plain), TENSOR.search(plain)
        subject = f"{size[1]}.{size[2]}()[{size[3]}]" if size else f"{tensor[1]}.{tensor[2]}" if tensor else plain
        return GuardFailure(plain, plain, subject, (expected[1], expected[2]), place, hint or expected[3] or "")
    guard, grad = _split_grad(guard)
    for sentence, told in _WITHOUT_GUARD:
        if guard.startswith(sentence):
            return GuardFailure(told, told, told, (), place, hint or guard)
    if tensor := TENSOR.search(guard):
        return GuardFailure(guard, guard, f"{tensor[1]}.{tensor[2]}", grad, place, hint)
    if equal := _EQUAL.match(guard):
        subject = equal[1].strip()
        return GuardFailure(guard, subject, subject, (equal[2].strip(),), place, hint)
    return GuardFailure(guard, _NUMBER.sub("N", guard), guard, (), place, hint)


# What torch writes where no guard failed, and what is told for it.
_WITHOUT_GUARD = (
    ("Unexpected recompilation", "Unexpected recompilation: torch names no guard that failed"),
    ("BACKEND_MATCH", "BACKEND_MATCH: torch.compile was called with another backend"),
)


def _split_hint(text: str) -> tuple[str, str]:
    """The guard, and torch's hint where it is more than the name of the type that the guard itself names."""
    found = _HINT.search(text)
    if found is None:
        return text, ""
    return text[: found.start()], "" if found[1].startswith("type ") else found[1]


def _split_grad(guard: str) -> tuple[str, tuple[str, ...]]:
    found = re.search(r"\. expected requires_grad=(\d)", guard)
    return (guard[: found.start()], (str(found[1] == "1"),)) if found else (guard, ())
