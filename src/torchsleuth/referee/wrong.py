"""What is raised where compiled code is wrong."""

from __future__ import annotations

from torchsleuth.referee.referee import Report


class WrongNumbers(AssertionError):
    """Compiled code gives other numbers than eager, and rounding does not explain it; `report` says which."""

    def __init__(self, text: str, report: Report) -> None:
        super().__init__(text)
        self.report = report


class NotChecked(RuntimeError):
    """Nothing was compiled, or nothing could be compared: neither right nor wrong can be said."""


def listed(report: Report) -> str:
    lines = [f"  {d.path}: {d.how}: {d.text}" for d in report.wrong]
    return "\n".join([f"compiled is wrong in {len(lines)} of {report.compared} values compared with eager", *lines])
