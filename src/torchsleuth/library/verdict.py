"""What `torchsleuth.check` returns: one of four answers, as a bool, as text and as HTML."""

from __future__ import annotations

import html
from dataclasses import dataclass

from torchsleuth.referee.referee import Report, Status
from torchsleuth.referee.verdict import Difference
from torchsleuth.referee.wrong import NotChecked, WrongNumbers

_MOST_NAMED = 5
_READABLE = "Return tensors, numbers or containers of them, or check a function that does."


@dataclass(frozen=True)
class Verdict:
    """True where compiled agrees with eager; prints as a table, and shows as one in a notebook.

    not_compiled: why nothing was compiled, with what to do; empty where something was.
    """

    report: Report
    backward: bool
    not_compiled: str = ""

    def __bool__(self) -> bool:
        return self.status is Status.AGREES

    @property
    def status(self) -> Status:
        return Status.NOTHING_COMPILED if self.not_compiled else self.report.status

    @property
    def wrong(self) -> tuple[Difference, ...]:
        """Values that compiled code gets wrong; none where nothing was compiled."""
        return () if self.not_compiled else self.report.wrong

    def raise_if_wrong(self) -> Verdict:
        """Raise WrongNumbers where compiled is wrong, NotChecked where nothing was compiled or compared."""
        if self.status is Status.WRONG:
            raise WrongNumbers(str(self), self.report)
        if not self:
            raise NotChecked(str(self))
        return self

    def __str__(self) -> str:
        lines = [self._headline()]
        excused = () if self.not_compiled else self.report.excused
        width = max((len(d.path) for d in (*self.wrong, *excused)), default=0)
        lines += [f"  {d.path:{width}}  {d.how:6}  {d.text}" for d in self.wrong]
        lines += [f"  {d.path:{width}}  differs, not wrong: {d.excused}" for d in excused]
        return "\n".join([*lines, *(f"  note: {note}" for note in self.report.notes)])

    def _headline(self) -> str:
        if self.status is Status.NOTHING_COMPILED:
            return f"nothing was compiled, so there is nothing to compare with eager: {self.not_compiled}"
        if self.status is Status.NOTHING_COMPARED:
            return f"nothing that is returned could be compared with eager{self._left_out()}. {_READABLE}"
        count, how = self.report.compared, "forward and backward" if self.backward else "forward"
        values = f"{count} value{'s' * (count != 1)} compared, {how}{self._left_out()}"
        if self.status is Status.WRONG:
            return f"compiled is wrong in {len(self.wrong)} of {values}"
        return f"compiled agrees with eager: {values}"

    def _left_out(self) -> str:
        found = self.report.not_compared
        if not found:
            return ""
        more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
        return f"; not compared: {', '.join(map(str, found[:_MOST_NAMED]))}{more}"

    def _repr_html_(self) -> str:
        excused = () if self.not_compiled else self.report.excused
        rows = [(d.path, d.how, d.text) for d in self.wrong]
        rows += [(d.path, "not wrong", f"{d.text} ({d.excused})") for d in excused]
        cells = "".join(f"<tr>{''.join(f'<td>{html.escape(c)}</td>' for c in row)}</tr>" for row in rows)
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in self.report.notes)
        table = f"<table><tr><th>value</th><th>how</th><th>numbers</th></tr>{cells}</table>" if rows else ""
        return f"<p><b>{html.escape(self._headline())}</b></p>{table}{notes}"
