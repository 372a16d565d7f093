"""Keeps failures as Cases and tells of them, each once in a process."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torchsleuth.case import aten, folder
from torchsleuth.case.effects import draws
from torchsleuth.case.failure import Failure, Kind, Phase, of_exception, of_hang
from torchsleuth.watch import capture, surroundings
from torchsleuth.watch.alike import key_of
from torchsleuth.watch.capture import Record
from torchsleuth.watch.guarded import guarded
from torchsleuth.watch.session import Outbox
from torchsleuth.watch.tracebacks import chain, leads_to
from torchsleuth.watch.uncaught import Uncaught

_COUNTED = 1000  # different failures of one process; more are not told apart
_REMEMBERED = 256  # exceptions that were told of, to know later which one ended the program


@dataclass(frozen=True)
class Mark:
    """What tells one exception from another once it may be gone: its place alone is soon another's."""

    place: int
    kind: type[BaseException]
    says: str

    @staticmethod
    def of(error: BaseException) -> Mark:
        return Mark(id(error), type(error), str(error)[:1000])

    def is_of(self, error: BaseException) -> bool:
        """Whoever passed it on may have added to what it says."""
        return (id(error), type(error)) == (self.place, self.kind) and self.says in str(error)


@dataclass
class Ledger:
    """Where failures are told, and which were told there: each once."""

    outbox: Outbox
    active: bool = True
    seen: dict[str, int] = field(default_factory=dict)
    cases: int = 0
    exceptions: deque[tuple[weakref.ref[BaseException] | Mark, int]] = field(
        default_factory=lambda: deque(maxlen=_REMEMBERED)
    )

    def keep(
        self,
        record: Record | None,
        error: BaseException,
        phase: Phase,
        inputs: Sequence[Any] | None,
        *,
        swallowed: bool = False,
    ) -> bool:
        if record is None:
            self.tell_alone(of_exception(error, phase), error, swallowed=swallowed)
            return False
        return bool(self._kept(record, error, phase, inputs, swallowed))

    @guarded
    def _kept(
        self, record: Record, error: BaseException, phase: Phase, inputs: Sequence[Any] | None, swallowed: bool
    ) -> bool:
        failure = of_exception(error, phase)
        key = key_of(failure, record.sketch.graph)
        number = self._new_case(key)
        if number is not None:
            where = self.outbox.here().folder / "cases" / str(number)
            capture.case_of(record, phase, failure, inputs, where, self.outbox.options.data_cap)
            self._save_inner(record, phase, failure, where)
            self._tell(number, failure, str(where), record, swallowed)
        self.exceptions.append((_weak(error), self.seen.get(key, -1)))
        return True

    def _save_inner(self, record: Record, phase: Phase, failure: Failure | None, where: Path) -> None:
        inner = record.aten.get(phase.backward)
        if inner is not None:
            finished = capture.with_patches(aten.finished(inner, phase, failure))
            if failure is not None and failure.kind is Kind.ACCURACY and not draws(finished.graph):
                finished = surroundings.without(finished, "fallback_random")  # set by us, as in keep_wrong
            guarded(folder.save)(finished, where / "inner")

    @guarded
    def tell_alone(self, failure: Failure, error: BaseException, place: str = "", *, swallowed: bool = False) -> None:
        """A failure without a Case: there was no graph, or it could not be sketched."""
        key = key_of(failure)
        number = self._new_case(key)
        if number is not None:
            self.outbox.event(
                "failure", number=number, failure=failure.to_json(), case=None, place=place, swallowed=swallowed
            )
        self.exceptions.append((_weak(error), self.seen.get(key, -1)))

    def _new_case(self, key: str) -> int | None:
        """A number for a failure that was not seen yet in this process and is to be kept; else it is only counted."""
        if key in self.seen or len(self.seen) >= _COUNTED:
            return None
        if self.cases >= self.outbox.options.most_cases:
            self.seen[key] = -1
            self.outbox.event("not-kept", key=key)
            return None
        self.cases += 1
        self.seen[key] = self.cases
        return self.cases

    def _tell(self, number: int, failure: Failure, where: str, record: Record, swallowed: bool) -> None:
        key = key_of(failure, record.sketch.graph)
        self.outbox.event(
            "failure", number=number, failure=failure.to_json(), key=key, case=where, graph=record.number,
            swallowed=swallowed,
        )  # fmt: skip

    @guarded
    def keep_suspect(self, record: Record, phase: Phase, inputs: Sequence[Any] | None, seconds: float) -> int | None:
        """A stage that lasts too long: kept from the watchdog's thread while the program goes on."""
        failure = of_hang(phase)
        key = key_of(failure, record.sketch.graph)
        number = self._new_case(key)
        if number is None:
            return None
        where = self.outbox.here().folder / "cases" / str(number)
        capture.case_of(record, phase, failure, inputs, where, self.outbox.options.data_cap)
        self._save_inner(record, phase, failure, where)
        self.outbox.event(
            "suspect",
            number=number,
            failure=failure.to_json(),
            key=key,
            case=str(where),
            graph=record.number,
            seconds=seconds,
        )
        return number

    @guarded
    def clear_suspect(self, number: int) -> None:
        """It was slow and came to its end; the next one may not."""
        self.seen = {key: seen for key, seen in self.seen.items() if seen != number}
        self.outbox.event("cleared", number=number)

    def keep_wrong(self, record: Record, failure: Failure, args: Sequence[Any]) -> None:
        number = self._new_case(key_of(failure, record.sketch.graph))
        if number is None:
            return
        where = self.outbox.here().folder / "cases" / str(number)
        case = capture.case_of(record, failure.phase, failure, args, where, self.outbox.options.data_cap)
        self._save_inner(record, failure.phase, failure, where)
        if not draws(case.graph):
            # Set by us, for the sake of graphs that draw random numbers.
            folder.save(surroundings.without(case, "fallback_random"), where)
        self._tell(number, failure, str(where), record, False)

    @guarded
    def note_end(self, error: BaseException) -> None:
        links = list(chain(error))
        for kept, number in reversed(self.exceptions):
            if isinstance(kept, Mark):
                same = any(kept.is_of(link) for link in links)
            else:
                known = kept()
                same = known is not None and (leads_to(error, known) or leads_to(known, error))
            if same:
                self.outbox.event("ended-by", number=number, uncaught=Uncaught.of(error).to_json())
                return
        text = f"{type(error).__name__}: {error}"[:500]
        self.outbox.event("ended-by", number=0, error=text, uncaught=Uncaught.of(error).to_json())


def _weak(error: BaseException) -> weakref.ref[BaseException] | Mark:
    try:
        return weakref.ref(error)
    except TypeError:  # built-in exceptions take no weak references; holding one would hold the program's frames
        return Mark.of(error)
