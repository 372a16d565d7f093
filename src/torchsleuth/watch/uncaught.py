"""The exception that ended a watched process: what it is, and which lines of the program it passed through.

Standard library alone: it is imported where `import torch` may not have come to its end.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from torchsleuth.case.failure import Fingerprint, fingerprint_of, inside_torch, root_of
from torchsleuth.watch.guarded import guarded
from torchsleuth.watch.session import Outbox

_COMPILER = ("_dynamo", "_inductor", "_functorch")
_MOST_PLACES = 40
_MOST_TEXT = 1000
_OURS = re.compile(r"torchsleuth[/\\](?:watch|judge)[/\\]")
_RESUMED = "torch_dynamo_resume_in_"


@dataclass(frozen=True)
class Uncaught:
    fingerprint: Fingerprint
    text: str  # "ValueError: ..."
    places: tuple[str, ...] = ()  # "file:line" of the program's own frames, outermost first
    raised_in: str = ""  # the file in torch's package that raised it; "" where it was raised outside of torch

    @property
    def from_compiler(self) -> bool:
        """Whether the compiler's own code raised it."""
        by_class = any(self.fingerprint.error.startswith(f"torch.{room}.") for room in _COMPILER)
        return by_class or self.raised_in.partition("/")[0] in _COMPILER

    def same_as(self, other: Uncaught) -> bool:
        """The same error, raised below the same line.

        Eager raises inside a function where compiled code raises from the call of it: the shorter list of places has
        to be the beginning of the longer one.
        """
        shorter = min(len(self.places), len(other.places))
        return self.fingerprint.same_as(other.fingerprint) and self.places[:shorter] == other.places[:shorter]

    @staticmethod
    def of(error: BaseException) -> Uncaught:
        root = root_of(error)
        frames = list(_frames(root if root.__traceback__ is not None else error))
        return Uncaught(
            fingerprint_of(error),
            f"{type(error).__name__}: {error}"[:_MOST_TEXT],
            tuple(_places(error))[:_MOST_PLACES],
            inside_torch(frames[-1][0]) if frames else "",
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(data: Any) -> Uncaught | None:
        """None where the event of an older session holds none."""
        if not isinstance(data, dict):
            return None
        mark = data["fingerprint"]
        return Uncaught(
            Fingerprint(str(mark["error"]), str(mark["message"]), tuple(map(str, mark["frames"]))),
            str(data["text"]),
            tuple(map(str, data["places"])),
            str(data["raised_in"]),
        )


def _frames(error: BaseException) -> Iterator[tuple[str, str, int]]:
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if not _OURS.search(code.co_filename):
            yield code.co_filename, code.co_name, trace.tb_lineno
        trace = trace.tb_next


def _places(error: BaseException) -> Iterator[str]:
    """A function that Dynamo resumes after a graph break stands in the place of the frame that it goes on from."""
    places: list[str] = []
    for file, function, line in _frames(error):
        if inside_torch(file):
            continue
        if function.startswith(_RESUMED) and places:
            places.pop()
        places.append(f"{file}:{line}")
    yield from places


def watch_the_end(outbox: Outbox) -> None:
    """Reports an uncaught exception, unless a hook that knows more has done so by then."""
    previous = sys.excepthook

    @guarded
    def note(error: BaseException) -> None:
        if not outbox.here().end_noted:
            text = f"{type(error).__name__}: {error}"[:500]
            outbox.event("ended-by", number=0, error=text, uncaught=Uncaught.of(error).to_json())

    def hook(kind: type[BaseException], error: BaseException, trace: Any) -> None:
        note(error)
        previous(kind, error, trace)

    sys.excepthook = hook
