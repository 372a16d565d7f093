"""Runs the user's command, watched: same terminal, same input, same signals, its own exit code."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import psutil

from torchsleuth.errors import BadUsage, CommandNotFound
from torchsleuth.watch.session import OPTIONS, VARIABLE, Options

_FORWARDED = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
_TICK = 0.2
_GRACE = 5.0


@dataclass(frozen=True)
class Ended:
    exit_code: int  # negative for a signal
    seconds: float
    interrupted: bool = False  # Ctrl-C was pressed while it ran
    terminated: str = ""  # SIGTERM or SIGHUP: the first of them that the tool was sent while it ran
    stopped: bool = False  # we ended it, because it was seen to hang
    why: str = ""  # it was seen to


def resolve(command: Sequence[str]) -> list[str]:
    """The command as it will be started; a bare x.py means this Python."""
    if not command:
        raise BadUsage("Name the program to watch: torchsleuth run python train.py.")
    words = list(command)
    if words[0].endswith(".py") and not (shutil.which(words[0]) and os.access(words[0], os.X_OK)):
        words = [sys.executable, *words]
    program = shutil.which(words[0])
    if program is None:
        raise CommandNotFound(
            f"{words[0]!r} is not a program that can be started here. Check the spelling, or give its full path."
        )
    script = script_of(words)
    if script is not None and not Path(script).exists():
        raise CommandNotFound(f"There is no file {script!r} in {Path.cwd()}. Check the path of the script.")
    return words


def script_of(words: Sequence[str]) -> str | None:
    """The script that a Python command line names; None where there is none, or where one cannot be sure."""
    if not words or not Path(words[0]).name.startswith("python"):
        return None
    for word in words[1:]:
        if word in ("-m", "-c", "-"):
            return None
        if not word.startswith("-"):
            return word if word.endswith(".py") else None
        if word in ("-W", "-X", "--check-hash-based-pycs"):
            return None
    return None


def run(
    command: Sequence[str],
    session: Path,
    options: Options,
    *,
    extra: Mapping[str, str] | None = None,
    tick: Callable[[], bool] | None = None,
) -> Ended:
    """Runs `command` to its end.  `tick` is called now and then; True means: it hangs, end it.

    A second SIGTERM ends a program that has not ended for the first one.

    A `tick` that fails is not called again: whatever is our own trouble, the program is waited for.
    """
    environment = {**os.environ, VARIABLE: str(session.resolve()), OPTIONS: options.dump(), **(extra or {})}
    began = time.monotonic()
    try:
        process = subprocess.Popen(list(command), env=environment)
    except OSError as error:
        raise CommandNotFound(f"{command[0]!r} cannot be started: {error.strerror or error}.") from None
    stopped = False
    with _signals_to(process) as seen:
        while (code := _wait(process)) is None:
            if seen.count(signal.SIGTERM) > 1:
                end_tree(process)
            if tick is None or stopped:
                continue
            try:
                stopped = tick()
            except Exception:
                _note_trouble(session)
                tick = None
            if stopped:
                end_tree(process)
    terminated = next((signal.Signals(n).name for n in seen if n in (signal.SIGTERM, signal.SIGHUP)), "")
    return Ended(code, time.monotonic() - began, signal.SIGINT in seen, terminated, stopped)


def _note_trouble(session: Path) -> None:
    """What is being handled, for the log; without one, if the disk is full."""
    with contextlib.suppress(OSError), (session / "trouble.log").open("a", encoding="utf-8") as log:
        log.write(f"while the program ran:\n{traceback.format_exc()}\n")


def _wait(process: subprocess.Popen[bytes]) -> int | None:
    try:
        return process.wait(timeout=_TICK)
    except subprocess.TimeoutExpired:
        return None


@contextlib.contextmanager
def _signals_to(process: subprocess.Popen[bytes]) -> Iterator[list[int]]:
    """Signals to us go to the program.  Ctrl-C reaches it through the terminal already; we wait for what it does."""
    seen: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        seen.append(number)
        if number != signal.SIGINT or not _in_the_foreground():
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(number)

    previous = {}
    for number in (signal.SIGINT, *_FORWARDED):
        with contextlib.suppress(ValueError):  # not the main thread: signals are somebody else's
            previous[number] = signal.signal(number, note)
    try:
        yield seen
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _in_the_foreground() -> bool:
    """Whether Ctrl-C at the terminal reaches this process group, and so the program, by itself."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


def end_tree(process: subprocess.Popen[bytes]) -> None:
    """Ends a process and its descendants: asked first, killed after a grace.  What is another user's stays."""
    below: list[psutil.Process] = []
    with contextlib.suppress(psutil.Error):
        below = psutil.Process(process.pid).children(recursive=True)
    _send(signal.SIGTERM, [*below, process])
    until = time.monotonic() + _GRACE
    with contextlib.suppress(subprocess.TimeoutExpired):  # waited for here, else nobody learns how it ended
        process.wait(_GRACE)
    _, alive = psutil.wait_procs(below, timeout=max(0.0, until - time.monotonic()))
    _send(signal.SIGKILL, [*alive, process])


def _send(number: signal.Signals, family: Sequence[psutil.Process | subprocess.Popen[bytes]]) -> None:
    for member in family:
        with contextlib.suppress(psutil.Error, OSError):
            member.send_signal(number)
