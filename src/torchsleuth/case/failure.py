"""What a failure is, and what makes two failures the same bug.

This file uses the standard library alone: it is imported inside watched programs, inside judges, and by the verifier's
runner, where torchsleuth itself must not be importable.
"""

from __future__ import annotations

import re
import signal
import traceback
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import Enum
from types import TracebackType
from typing import Any

_MOST_TEXT = 20_000  # characters of a traceback


class Kind(str, Enum):
    COMPILE_ERROR = "compile-error"
    RUNTIME_ERROR = "runtime-error"
    ACCURACY = "accuracy"
    CRASH = "crash"
    HANG = "hang"
    OUT_OF_MEMORY = "out-of-memory"
    DYNAMO_ERROR = "dynamo-error"


class Phase(str, Enum):
    COMPILE_FORWARD = "compile-forward"
    COMPILE_BACKWARD = "compile-backward"
    RUN_FORWARD = "run-forward"
    RUN_BACKWARD = "run-backward"

    @property
    def backward(self) -> bool:
        return self in (Phase.COMPILE_BACKWARD, Phase.RUN_BACKWARD)

    @property
    def compiling(self) -> bool:
        return self in (Phase.COMPILE_FORWARD, Phase.COMPILE_BACKWARD)


ACCURACY = "accuracy"  # in the place of an exception: nobody raised anything


@dataclass(frozen=True)
class Fingerprint:
    """Exception type (or signal, or "hang"), message with what varies taken out, innermost torch frames."""

    error: str
    message: str = ""
    frames: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        place = f" @ {self.frames[-1]}" if self.frames else ""
        return f"{self.error}: {self.message}{place}" if self.message else f"{self.error}{place}"

    def same_as(self, other: Fingerprint) -> bool:
        """Type and message decide; the place decides only where the message says nothing."""
        if self.error != other.error:
            return False
        if self.error == ACCURACY:
            return True  # an assertion tells of the first difference alone; the referee compares `message`, too
        if self.message or other.message:
            return self.message == other.message
        return self.frames[-1:] == other.frames[-1:]


@dataclass(frozen=True)
class Failure:
    kind: Kind
    phase: Phase
    fingerprint: Fingerprint
    text: str = ""  # the traceback or other evidence, for people
    summary: str = ""  # one line, in the words of the error itself

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "kind": self.kind.value, "phase": self.phase.value}

    @staticmethod
    def from_json(data: dict[str, Any]) -> Failure:
        mark = data["fingerprint"]
        return Failure(
            Kind(data["kind"]),
            Phase(data["phase"]),
            Fingerprint(str(mark["error"]), str(mark["message"]), tuple(str(f) for f in mark["frames"])),
            str(data.get("text", "")),
            str(data.get("summary", "")),
        )


# Wrappers that say only "the backend failed": what they wrap is the error.
_WRAPPERS = {"BackendCompilerFailed", "InductorError", "LoweringException", "SubprocException", "TorchRuntimeError"}
_OUT_OF_MEMORY = re.compile(r"can't allocate memory|out of memory|Cannot allocate memory|MemoryError|bad_alloc", re.I)
_MOST_MESSAGE = 400
_INTERNAL_ASSERT = "INTERNAL ASSERT FAILED"
# A warning of a C++ compiler: where it was included from, what it says, the lines that it shows, and its notes.
_CONTEXT = r"(?:In file included from .*\n|[ \t]+from .*\n|\S+: (?:In|At) .*:\n|\S+:\d+:\d+:\s+required from .*\n)*"
_SHOWN = r"(?:[ \t]*\d* \|.*\n)*"
_WARNING = re.compile(
    rf"^{_CONTEXT}\S+:\d+(?::\d+)?: warning: .*\n{_SHOWN}(?:\S+:\d+(?::\d+)?: note: .*\n{_SHOWN})*", re.M
)
_OURS = re.compile(r"torchsleuth[/\\](?:watch|judge)[/\\]")


def of_exception(error: BaseException, phase: Phase, *, dynamo: bool = False) -> Failure:
    """The Failure that `error` is, seen where it leaves the compiler or the compiled code."""
    mark = fingerprint_of(error)
    if is_out_of_memory(error):
        kind = Kind.OUT_OF_MEMORY
    elif dynamo:
        kind = Kind.DYNAMO_ERROR
    else:
        kind = Kind.COMPILE_ERROR if phase.compiling else Kind.RUNTIME_ERROR
    return Failure(kind, phase, mark, _both_ends(_without_warnings(_trace_text(error))), _summary(error))


def of_text(text: str, kind: Kind, phase: Phase) -> Failure:
    """What ended a program, from what Python said last: `RuntimeError: ...`."""
    name, _, message = text.partition(": ")
    return Failure(kind, phase, Fingerprint(name, normalise(message)), text, _first_line(text))


def _summary(error: BaseException) -> str:
    return _first_line(f"{type(error).__name__}: {error}")


def _first_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    compiler = next((line for line in lines if "error: " in line), "") if "C++ compile error" in lines[0] else ""
    said = f": {compiler.partition('error: ')[2]}" if compiler else ""
    if lines[0].endswith("raised:") and len(lines) > 1:
        said = f" {lines[1]}"  # "backend='inductor' raised:" alone says nothing
    asserted = next((line for line in lines if _INTERNAL_ASSERT in line), "")
    if asserted and _INTERNAL_ASSERT not in lines[0]:  # the fault, under what only says where it was met
        said = f"{'' if lines[0].endswith((':', '.')) else ':'} {asserted}"
    return (lines[0].partition(" Stack trace: File ")[0] + said)[:300]


def _without_warnings(text: str) -> str:
    """A C++ compiler that refuses a kernel may say one error, and a hundred warnings about torch's own headers."""
    before, *after = _WARNING.split(text)
    return f"{before}[{len(after)} of the compiler's warnings left out]\n{''.join(after)}" if after else text


def _both_ends(text: str) -> str:
    """What is said behind the traceback and before the last word may be very long."""
    half = _MOST_TEXT // 2
    return text if len(text) <= _MOST_TEXT else f"{text[:half]}\n[...]\n{text[-half:]}"


def _trace_text(error: BaseException) -> str:
    """The traceback as Python prints it, less the frames of our own hooks."""
    shown = traceback.TracebackException.from_exception(error)
    todo: list[traceback.TracebackException | None] = [shown]
    while todo:
        now = todo.pop()
        if now is not None:
            now.stack = traceback.StackSummary.from_list([f for f in now.stack if not _OURS.search(f.filename)])
            todo += [now.__cause__, now.__context__]
    return "".join(shown.format())


def of_assertion(error: AssertionError, phase: Phase) -> Failure:
    """The assertion with which a repro of wrong numbers ends."""
    text = str(error)
    named = re.search(r"attribute '(dtype|shape|stride|layout|device)", text)
    if named:
        how = named.group(1)
    elif re.search(r"Expected type|No comparison|The length of the sequences|The keys of the mappings", text):
        how = "type"
    else:
        # Where one of two numbers is no finite one, so is their difference: the referee calls that "nan".
        how = "nan" if re.search(r"absolute difference: -?(nan|inf)", text, re.I) else "values"
    return wrong_numbers(how, phase, _trace_text(error)[-_MOST_TEXT:], _summary(error))


def wrong_numbers(how: str, phase: Phase, text: str, summary: str) -> Failure:
    """`how` compiled differs from eager: values, nan, dtype, shape, stride, type."""
    return Failure(Kind.ACCURACY, phase, Fingerprint(ACCURACY, how), text, summary[:300])


def is_comparison(error: BaseException) -> bool:
    """An assertion that a script made itself, not one that failed inside the compiler."""
    frames = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__)]
    rooms = [f"torch{sep}{room}{sep}" for room in _COMPILER_ROOMS for sep in "/\\"]
    return isinstance(error, AssertionError) and not any(room in name for name in frames for room in rooms)


_COMPILER_ROOMS = ("_dynamo", "_inductor", "_functorch")


def of_signal(number: int, phase: Phase) -> Failure:
    return Failure(Kind.CRASH, phase, Fingerprint(signal_name(number)))


def of_hang(phase: Phase) -> Failure:
    return Failure(Kind.HANG, phase, Fingerprint("hang"))


def of_memory_limit(phase: Phase) -> Failure:
    return Failure(Kind.OUT_OF_MEMORY, phase, Fingerprint("memory limit"))


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def is_out_of_memory(error: BaseException) -> bool:
    return any(
        isinstance(e, MemoryError) or type(e).__name__ == "OutOfMemoryError" or bool(_OUT_OF_MEMORY.search(str(e)))
        for e in _chain(error)
    )


def fingerprint_of(error: BaseException) -> Fingerprint:
    root = root_of(error)
    if type(root).__name__ == "SubprocException":
        return _of_remote(str(root))
    # A class of the user's lives in another module once its source is carried into a repro: its bare name counts.
    kind = type(root)
    name = f"{kind.__module__}.{kind.__qualname__}" if kind.__module__.startswith("torch") else kind.__qualname__
    frames = tuple(_torch_frames(root.__traceback__ or error.__traceback__))
    return Fingerprint(name, normalise(str(root)), frames[-3:])


def _of_remote(text: str) -> Fingerprint:
    """What a compile worker raised, from its traceback: the same as if it had been raised here."""
    body = text.rpartition("Traceback (most recent call last):")[2]
    found = re.search(r"^([A-Za-z_][\w.]*): ?(.*(?:\n.*)?)", body, re.M)
    frames = [
        f"{inside_torch(f)}:{name}"
        for f, name in re.findall(r'File "([^"]+)", line \d+, in (\S+)', body)
        if inside_torch(f)
    ]
    if found is None:
        return Fingerprint("SubprocException", normalise(text), tuple(frames[-3:]))
    return Fingerprint(found.group(1), normalise(found.group(2)), tuple(frames[-3:]))


def inside_torch(file: str) -> str:
    """The path within torch's own package, or nothing."""
    parts = re.split(r"[/\\]", file)
    places = [i for i, part in enumerate(parts[:-1]) if part == "torch"]
    packaged = [i for i in places if i and parts[i - 1] in ("site-packages", "dist-packages")]
    return "/".join(parts[(packaged or places)[-1] + 1 :]) if places else ""


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error, and what it wraps, outermost first."""
    seen: set[int] = set()
    now: BaseException | None = error
    while now is not None and id(now) not in seen:
        yield now
        seen.add(id(now))
        inner = getattr(now, "inner_exception", None)
        now = inner if isinstance(inner, BaseException) else now.__cause__


def root_of(error: BaseException) -> BaseException:
    """The error inside the wrappers that say only that a backend failed."""
    root = error
    for link in _chain(error):
        root = link
        if type(link).__name__ not in _WRAPPERS:
            break
    return root


def _torch_frames(trace: TracebackType | None) -> Iterator[str]:
    for frame, _ in traceback.walk_tb(trace):
        code = frame.f_code
        place = inside_torch(code.co_filename)
        if place:
            yield f"{place}:{code.co_name}"


def normalise(message: str) -> str:
    """The message with all that differs between two sightings of one bug taken out."""
    compiler = re.search(r"^.*?\berror: (.*)$", message, re.M)
    if "C++ compile error" in message and compiler:
        return "C++ compile error: " + _plain(compiler.group(1))
    message = message.partition(" Stack trace: File ")[0]  # where a tensor was made, in the middle of a sentence
    lines = [line.strip() for line in message.strip().splitlines()]
    kept = lines[:1] + [line for line in lines[1:] if line.startswith("target: ")][:1]
    if lines and lines[0].startswith("Failed to import") and len(lines) > 1:
        kept.append(lines[1])  # the generated file's own error
    return _plain(" | ".join(kept))


def _plain(text: str) -> str:
    text = re.sub(r"0x[0-9a-fA-F]+", "ADDR", text)
    text = re.sub(r"(?:/[\w.+-]+){2,}", "PATH", text)
    text = re.sub(r"\b[a-z0-9]{40,}\.py\b", "FILE", text)
    text = re.sub(r"\b(?:buf|arg|primals|tangents|op|tmp|getitem|[su])_?\d+(?:_\d+)*\b", "NAME", text)
    text = re.sub(r"(?<=[A-Za-z])_\d+\b", "_N", text)
    text = re.sub(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?", "N", text)
    text = re.sub(r"\[[N, ]*\]|\([N, ]*N[N, ]*\)|torch\.Size\(\[[N, ]*\]\)", "SIZES", text)
    return re.sub(r"\s+", " ", text).strip()[:_MOST_MESSAGE]
