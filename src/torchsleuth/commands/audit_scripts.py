"""Compare scripts of an output folder with what is said of them, and with each other, by their text."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from torchsleuth.case.program.render import DATA_FILE
from torchsleuth.diagnose.claim import Claim, ClaimKind, Topic
from torchsleuth.locate.workarounds import is_code

_SETTING = re.compile(r"torch\.\S+ = .+")
_BACKEND = re.compile(r'torch\.compile\(\.\.\., backend="(.+)"\)')


def other_thing(claim: Claim, script: Path) -> str:
    """Say how the script behind a Claim was run with something else than the Claim is about; empty where it was not.

    Only what can be read off the text is compared: a backend, a workaround to paste, a setting that is left out.
    """
    try:
        text = script.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""  # it cannot be run either, and that is reported
    lines = {line.strip() for line in text.splitlines()}
    if claim.topic is Topic.BACKEND:
        return "" if claim.about == "inductor" or _names(text, claim.about) else "does not use this backend"
    if claim.kind is ClaimKind.NEEDED and _SETTING.fullmatch(claim.about):
        return "still has this setting" if claim.about in lines else ""
    if claim.kind is ClaimKind.HELPS:
        return _other_workaround(claim.about, text, lines)
    return ""


def _other_workaround(workaround: str, text: str, lines: set[str]) -> str:
    removed = re.fullmatch(r"remove `(torch\..+)`", workaround)
    if removed:
        return "still has what is to be removed" if removed.group(1) in lines else ""
    backend = _BACKEND.fullmatch(workaround)
    if backend:
        return "" if _names(text, backend.group(1)) else "does not use this backend"
    if is_code(workaround) and not {line.strip() for line in workaround.splitlines()} <= lines:
        return "does not hold this workaround"
    return ""


def _names(text: str, word: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text) is not None


def is_same_script(one: Path, other: Path) -> bool:
    """Compare two scripts without their docstrings, and their data."""
    try:
        return _code(one) == _code(other) and _data(one) == _data(other)
    except OSError:
        return False


def _code(script: Path) -> str:
    text = script.read_text(encoding="utf-8", errors="replace")
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return text.strip()
    if not body or ast.get_docstring(ast.Module(body, [])) is None:
        return text.strip()
    return "\n".join(text.splitlines()[body[0].end_lineno or 0 :]).strip()


def _data(script: Path) -> bytes | None:
    data = script.parent / DATA_FILE
    return data.read_bytes() if data.exists() else None
