"""`torchsleuth minimize` and `locate` on a Case that was kept: by this machine's runs, or by somebody else's."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from torchsleuth.case import folder
from torchsleuth.case.ir import operators
from torchsleuth.case.model import Case, Code
from torchsleuth.commands.conclusion import conclude
from torchsleuth.commands.interruption import Interruption
from torchsleuth.commands.output_folder import make_output_folder
from torchsleuth.commands.run import Run, Seen, Settings
from torchsleuth.errors import BadUsage, NeedsConsent
from torchsleuth.investigate.own_faults import told_apart
from torchsleuth.reduce import journal
from torchsleuth.watch.found import Found, Summary
from torchsleuth.watch.launcher import Ended
from torchsleuth.watch.session import Process
from torchsleuth.write.result import Result

Say = Callable[[str], None]
_SECONDS_AN_OPERATOR = 0.05  # to compile, about; nobody knows how long the program took


def investigate(
    where: Path, settings: Settings, say: Say, *, trust: bool, command: str = "minimize"
) -> tuple[Result, Path]:
    """Judges, locates, reduces and writes, as `run` does, from the Case in `where`."""
    home = case_folder(where)
    case = load(where, trust=trust)
    if case.failure is None:
        raise BadUsage(
            f"The Case in {home} holds no failure to look for. Name one that `torchsleuth run` kept, "
            "or say with --check what to look for."
        )
    out = make_output_folder(settings.out, [command, f"{home.name}.py"], [command, str(where)])
    process = Process(home, {"executable": sys.executable, "cwd": os.getcwd(), "path": []})
    found = Found(case.failure, home, process, ended_program=True)
    settings = replace(settings, journal=(home / journal.NAME).resolve())
    ended = Ended(0, _SECONDS_AN_OPERATOR * operators(case.graph))
    seen = Seen(Summary(0, 1, (found,)), ended)
    with told_apart(out), Interruption() as interruption:
        given = Run.of((command, str(where)), out, settings, say, interruption)
        return conclude(given, seen), out


def load(where: Path, *, trust: bool) -> Case:
    """The Case in `where`; one that brings code of its own needs the user's word."""
    case = folder.load(case_folder(where))
    if not trust:
        _ask_first(case)
    return case


def case_folder(where: Path) -> Path:
    """A Case, or the first one of an output folder."""
    for choice in (where, where / "cases" / "f1"):
        if (choice / folder.META).exists():
            return choice
    raise BadUsage(f"{where} holds no Case. Name a folder like torchsleuth-out/.../cases/f1.")


def _ask_first(case: Case) -> None:
    codes: list[Code] = [*case.surroundings.code, *filter(None, [case.surroundings.backend.code])]
    if not codes:
        return
    what = ", ".join(f"{code.what} ({code.name})" for code in codes)
    raise NeedsConsent(
        f"This Case brings code of its own: {what}. Read it in case.json, and if you trust it, repeat with --trust."
    )
