"""`torchsleuth minimize SCRIPT`: a script is a program; one that torch's own tools wrote is run as one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from torchsleuth.commands import pipeline
from torchsleuth.commands.run import Settings
from torchsleuth.errors import BadUsage
from torchsleuth.watch import foreign
from torchsleuth.write.result import Result, RunVerdict

Say = Callable[[str], None]
_OF_EXPORT = "aoti"


def command_of(script: Path) -> list[str]:
    """The command that makes the script fail as a program does."""
    try:
        text = script.read_text(encoding="utf-8", errors="replace")
        compile(text, str(script), "exec", dont_inherit=True)
    except OSError as error:
        raise BadUsage(f"{script} cannot be read: {error.strerror or error}. Check its permissions.") from None
    except (SyntaxError, ValueError) as error:
        # Torch's own tools write scripts that do not parse, too: a NaN or an infinity in a constant is enough.
        line = getattr(error, "lineno", None)
        where = f", line {line}" if line else ""
        raise BadUsage(
            f"{script} is no Python that can be run ({error.args[0]}{where}). Mend that line, "
            "or run the program that it came from under `torchsleuth run`."
        ) from None
    tool = foreign.written_by_torch(text)
    if tool == _OF_EXPORT:
        raise BadUsage(
            f"{script} is a repro of AOTInductor, which torchsleuth cannot reduce. "
            "Reduce the model that was exported: torchsleuth run python your_model.py, with torch.compile."
        )
    module = ["-m", "torchsleuth.watch.foreign"] if tool else []
    return [sys.executable, *module, str(script)]


def minimise(script: Path, settings: Settings, say: Say) -> tuple[Result, Path]:
    command = command_of(script)
    result, out = pipeline.run(command, replace(settings, rerun=False), say)
    if result.verdict is RunVerdict.OK:
        say(f"{script} ran to its end and nothing failed: there is nothing to reduce")
    return result, out
