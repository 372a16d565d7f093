"""What a trace leaves open: nothing may be said to have not happened there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from torchsleuth.explain.compiles import Compile
from torchsleuth.explain.outcomes import is_not_known
from torchsleuth.explain.owners import Owners
from torchsleuth.explain.records import Reading

_MOST_NAMED = 5


def cut_at_start(name: str, reading: Reading, first: Compile | None) -> str | None:
    """Says that a file does not hold the beginning of its trace; None where nothing shows that.

    torch begins each file with its version.  Older releases do not; their first compilation still has the number 0/0
    and a beginning of its own.
    """
    begins = reading.first is not None and reading.first.name == "torch_version"
    if reading.lines_before_first or (reading.first is not None and not begins and not _is_beginning(first)):
        return f"what was compiled before {name} begins: it is cut at its start"
    return None


def _is_beginning(first: Compile | None) -> bool:
    return first is None or (first.started and first.id == "0/0")


def unknowns(compiles: Sequence[Compile], owners: Owners, corrupt: int) -> Iterable[str]:
    lost = [c for c in compiles if c.started and is_not_known(c) and not c.unread]
    if lost:
        yield f"what came of the compilation of {_named(lost, owners)}: its end is not in the trace"
    unread = [c for c in compiles if c.unread]
    if unread:
        records = ", ".join(sorted({name for c in unread for name in c.unread}))
        yield f"what {records} of {_named(unread, owners)} told: it cannot be read"
    if corrupt:
        records = "1 record" if corrupt == 1 else f"{corrupt} records"
        yield f"what {records} of the trace held: damaged or cut short, by the digests that torch wrote"
    why = _without_reason(compiles)
    if why:
        yield f"why {_named(why, owners)} was compiled again: the trace holds no guard that failed"


def _without_reason(compiles: Sequence[Compile]) -> list[Compile]:
    """Compiled again although the last compilation of the frame succeeded, and torch wrote no reason."""
    served: dict[tuple[str, str, int], bool] = {}
    found = []
    for compile in compiles:
        frame = (compile.process, compile.id.rpartition("/")[0], compile.again)
        if compile.started and served.get(frame) and not compile.reasons and not compile.unread:
            found.append(compile)
        served[frame] = served.get(frame, False) or compile.compiled
    return found


def _named(compiles: Sequence[Compile], owners: Owners) -> str:
    often = Counter(owners.of(c).function or "a function without a name" for c in compiles)
    names = [name if count == 1 else f"{name} ({count} times)" for name, count in often.items()]
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
