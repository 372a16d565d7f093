"""What a session found: failures, each once, the one that ended the program first."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from torchsleuth.case.failure import Failure, Fingerprint, Kind, Phase, signal_name
from torchsleuth.watch.peers import failed_by_itself, is_peer_loss, is_peer_loss_event
from torchsleuth.watch.session import Process, processes
from torchsleuth.watch.uncaught import Uncaught

_SILENT = (Kind.ACCURACY, Kind.HANG)  # their fingerprints do not say which of them it is


@dataclass(frozen=True)
class Found:
    failure: Failure
    case: Path | None  # None: Dynamo failed before there was a graph
    process: Process
    swallowed: bool = False
    ended_program: bool = False
    suspect: bool = False  # a stage that lasted too long; nobody raised anything
    place: str = ""
    component: str = ""  # to blame, where it is known from running the program with other backends
    workaround: str = ""  # seen to help on the program itself
    inside: str = ""  # which part of the component, where that is known, too
    seconds: float = 0.0  # that a suspect had lasted when it was noticed


@dataclass(frozen=True)
class Summary:
    """What was watched, and what was found."""

    processes: int
    graphs: int
    found: tuple[Found, ...]
    trouble: str = ""
    uncaught: str = ""  # an exception that ended a watched process and is none of the failures
    backward: bool = False  # a compiled backward ran
    checked: int = 0  # graphs whose numbers were compared with eager
    excused: tuple[str, ...] = ()  # differences from eager that are no fault of compiled code
    reference: Process | None = None  # that compiled something
    exit_code: int | None = None  # None: it did not end in time
    too_large: int = 0  # graphs that were not compared for want of memory
    error: Uncaught | None = None  # the exception that ended a watched process, one of the failures or not
    strides: bool = False  # some result of a graph that was compared has others than eager's
    not_kept: int = 0  # failures beyond those that one process keeps


def summarise(session: Path, exit_code: int | None) -> Summary:
    everyone = list(processes(session))
    found: list[tuple[str, Found]] = []  # with what tells them apart
    uncaught = ""
    for process in everyone:
        enders = [e.get("number") for e in process.of("ended-by")]
        errors = [str(e["error"]) for e in process.of("ended-by") if e.get("error")]
        if errors and (not uncaught or is_peer_loss(uncaught)):
            uncaught = errors[0]
        others = [p for p in everyone if p is not process]
        for event in (*process.of("failure"), *process.suspects):
            if is_peer_loss_event(event) and any(map(failed_by_itself, others)):
                continue
            one = Found(
                Failure.from_json(event["failure"]),
                Path(event["case"]) if event.get("case") else None,
                process,
                bool(event.get("swallowed")),
                event.get("number") in enders,
                event["event"] == "suspect",
                str(event.get("place", "")),
                seconds=float(event.get("seconds", 0.0)),
            )
            found.append((str(event.get("key", "")) if one.failure.kind in _SILENT else "", one))
        crash = _crash(process, exit_code, others)
        if crash is not None:
            found.append(("", crash))
    trouble = session / "trouble.log"
    return Summary(
        len(everyone),
        sum(len(p.of("graph")) for p in everyone),
        tuple(_each_once(found)),
        trouble.read_text(encoding="utf-8", errors="replace") if trouble.exists() else "",
        uncaught,
        any(p.of("backward") for p in everyone),
        sum(len({e.get("graph") for e in p.of("numbers")}) for p in everyone),
        tuple(str(line) for p in everyone for e in p.of("numbers") for line in e.get("excused", ())),
        next((p for p in everyone if p.of("graph")), everyone[0] if everyone else None),
        exit_code,
        sum(len({e.get("graph") for e in p.of("too-large")}) for p in everyone),
        _error(everyone),
        any(e.get("strides") for p in everyone for e in p.of("numbers")),
        len({str(e.get("key")) for p in everyone for e in p.of("not-kept")}),
    )


def _error(everyone: Sequence[Process]) -> Uncaught | None:
    told = (Uncaught.from_json(e.get("uncaught")) for p in everyone for e in p.of("ended-by"))
    return next((one for one in told if one is not None), None)


# Nothing that a process does to itself: somebody wanted it to end.
_SENT_BY_OTHERS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2}


def died(exit_code: int) -> bool:
    """Whether a program was ended by what it did itself: memory that it spoilt may show only when it ends."""
    return exit_code < 0 and -exit_code not in _SENT_BY_OTHERS | {signal.SIGKILL}


def _crash(process: Process, exit_code: int | None, others: Sequence[Process]) -> Found | None:
    """A process that went silently, in the middle of a stage."""
    if exit_code is None or process.ended or not process.stages or process.suspects:
        return None
    if exit_code == 0:
        return None  # os._exit or a daemon: whoever waited for it was content
    number = -exit_code if exit_code < 0 else exit_code - 128 if exit_code > 128 else 0
    if number in _SENT_BY_OTHERS:
        return None
    if not number and any(map(failed_by_itself, others)):
        return None  # another one failed, and whoever started both (torchrun does so) ended this one for it
    mark = Fingerprint(signal_name(number) if number else "crash")
    stage = process.stages[0]  # of several threads, more likely the one that has just begun something
    case = process.folder / "sketches" / str(stage.graph)
    failure = Failure(Kind.CRASH, Phase(stage.phase), mark)
    return Found(failure, case if case.is_dir() else None, process, ended_program=True)


def _each_once(found: list[tuple[str, Found]]) -> list[Found]:
    """Ranks of one job fail alike; the first is kept.  What ended the program comes first, then what was raised."""
    kept: dict[tuple[str, str], Found] = {}
    for told, one in found:
        key = (one.failure.kind.value, told or one.failure.fingerprint.line)
        if key in kept:
            if one.ended_program and not kept[key].ended_program:
                kept[key] = replace(kept[key], ended_program=True)
        else:
            kept[key] = one
    # A rank that lost another one comes after whatever may have ended that one.
    return sorted(kept.values(), key=lambda f: (_lost_a_peer(f), not f.ended_program, f.suspect, f.swallowed))


def _lost_a_peer(found: Found) -> bool:
    return is_peer_loss(f"{found.failure.fingerprint.message} {found.failure.summary}")
