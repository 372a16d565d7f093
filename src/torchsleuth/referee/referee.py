"""Four runs, as many as are needed: eager, compiled; where they differ, eager again and eager in float64."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum

import torch

from torchsleuth.referee import control, unstable, verdict
from torchsleuth.referee.apart import Apart
from torchsleuth.referee.blocks import InParts, holds_nan
from torchsleuth.referee.nudged import Nudged
from torchsleuth.referee.upcast import LEAST_NUDGE, Upcast
from torchsleuth.referee.values import NotCompared, Seen
from torchsleuth.referee.verdict import Difference, References

Run = Callable[[], Sequence[Seen]]
_Pair = tuple["Seen | None", "Seen | None"]
_RESULT = "out"  # how paths of what is returned begin
_MORE_SEEDS = (11, 12, 13)


class Status(Enum):
    AGREES = "agrees"
    WRONG = "wrong"
    NOTHING_COMPARED = "nothing compared"
    NOTHING_COMPILED = "nothing compiled"  # no Report tells this: who compiles has to look


@dataclass(frozen=True)
class Unread:
    """A value that both runs show and that was not compared: where it is, its type, and why if that says more."""

    path: str
    kind: str
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.path} ({self.kind}{': ' if self.reason else ''}{self.reason})"


@dataclass(frozen=True)
class Report:
    wrong: tuple[Difference, ...] = ()
    excused: tuple[Difference, ...] = ()
    compared: int = 0
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    nans: bool = False  # among eager's results
    strides: tuple[Difference, ...] = ()  # results in another order of memory: wrong only where somebody asks for it
    not_compared: tuple[Unread, ...] = ()
    results_compared: int = 0  # of `compared`, those that were returned

    @property
    def status(self) -> Status:
        """AGREES only where something was compared, and something of what was returned if that can be missed."""
        if self.wrong:
            return Status.WRONG
        missed = any(one.path.startswith(_RESULT) for one in self.not_compared)
        return Status.NOTHING_COMPARED if not self.compared or (missed and not self.results_compared) else Status.AGREES

    @property
    def how(self) -> str:
        """What makes two wrong results the same bug: the first kind of difference, values last."""
        kinds = [d.how for d in self.wrong]
        return next((k for k in ("type", "shape", "dtype", "nan", "stride") if k in kinds), "values")

    @property
    def size(self) -> float:
        return max((d.compiled_error for d in self.wrong), default=0.0)


def referee(
    eager: Run,
    compiled: Run,
    *,
    reset: Callable[[], object] = lambda: torch.manual_seed(0),
    same_kernels: bool = False,
    strides: bool = False,
) -> Report:
    """Each run makes its own inputs; `reset` before each makes the random numbers drawn the same in all.

    A backend that runs the `same_kernels` as eager may round otherwise in the last place and no more: there a program
    that computes in low precision is no excuse.  Results with other `strides` are wrong where nothing else is.
    """
    began = time.perf_counter()
    first, got = _fresh(eager, reset), _fresh(compiled, reset)
    suspects, report = _sorted_out(_paired(first, got))
    wrong_order = report.strides if strides else ()
    if suspects or wrong_order:
        report = replace(report, nans=any(holds_nan(s.value) for s in first))
    if not suspects:
        return replace(report, wrong=wrong_order, seconds=time.perf_counter() - began)
    del first, got  # the inputs are among them, and often all there is to a graph's memory
    notes: list[str] = []
    doubtful = {e.path: e.value for e, c in suspects if e is not None and c is not None}
    steady = _steady(suspects, lambda: _fresh(eager, reset))
    references, disputed = _references(lambda: _fresh(eager, reset), doubtful, notes)
    wrong: list[Difference] = []
    excused: list[Difference] = []
    for e, c in suspects:
        found = _difference(e, c, steady, references)
        if found is not None and disputed:
            found = replace(found, excused=disputed)
        if found is not None:
            (excused if found.excused else wrong).append(found)
    if excused and not disputed:
        values = {e.path: (e.value, c.value) for e, c in suspects if e is not None and c is not None}
        again = control.judged_again(excused, values, references, lambda: _fresh(eager, reset))
        wrong += [one for one in again if not one.excused]
        excused = [one for one in again if one.excused]
    excused, beyond = _not_even_by_rounding(suspects, excused, references, lambda: _fresh(eager, reset))
    wrong += beyond
    if same_kernels and not wrong and excused:
        excused, wrong = _more_than_last_places(suspects, excused, lambda: _fresh(eager, reset))
    if strides and not wrong:
        wrong += report.strides
    return replace(
        report,
        wrong=tuple(wrong),
        excused=tuple(excused),
        notes=tuple(notes),
        seconds=time.perf_counter() - began,
    )


def _sorted_out(pairs: Sequence[_Pair]) -> tuple[list[_Pair], Report]:
    """Pairs that differ at first sight, and a Report of how many were compared and which could not be."""
    suspects: list[_Pair] = []
    unread: list[Unread] = []
    read: list[str] = []
    for e, c in pairs:
        both = e is not None and c is not None
        path = (e or c or Seen("", None)).path
        if e is not None and c is not None and isinstance(e.value, NotCompared) and e.value == c.value:
            unread.append(Unread(path, e.value.kind, e.value.reason))
            continue
        try:
            alike = both and _alike(e, c)
        except (NotImplementedError, RuntimeError, TypeError) as error:  # a dtype that torch cannot compare
            unread.append(Unread(path, _dtype_of(e), type(error).__name__))
            continue
        if not alike:
            suspects.append((e, c))
        if (e is not None and e.counts) or (c is not None and c.counts):
            read.append(path)
    results = sum(path.startswith(_RESULT) for path in read)
    strides = tuple(_other_strides(pairs))
    return suspects, Report(compared=len(read), strides=strides, not_compared=tuple(unread), results_compared=results)


def _alike(e: Seen | None, c: Seen | None) -> bool:
    return e is not None and c is not None and e.kind == c.kind and verdict.alike(e.value, c.value)


def _dtype_of(e: Seen | None) -> str:
    value = e.value if e is not None else None
    return str(value.dtype) if isinstance(value, torch.Tensor) else type(value).__name__


def _other_strides(pairs: Sequence[_Pair]) -> Iterator[Difference]:
    """Of what is given back: inputs are the caller's own, and nobody promises an order of gradients."""
    for e, c in pairs:
        if e is None or c is None or e.stride is None or c.stride is None or not e.path.startswith("out"):
            continue
        shape = e.value.shape
        counts = [dim for dim, size in enumerate(shape) if size > 1]
        if c.value.shape == shape and e.value.numel() and any(e.stride[d] != c.stride[d] for d in counts):
            text = f"compiled gives strides {list(c.stride)}, eager {list(e.stride)}"
            yield Difference(e.path, "stride", text, 1.0)


def _steady(suspects: Sequence[_Pair], eager: Run) -> frozenset[str]:
    """The paths of what eager gives once more."""
    first = {e.path: e.value for e, _ in suspects if e is not None}
    again = eager()
    return frozenset(
        path for path, s in _by_path(again).items() if path in first and verdict.alike(first[path], s.value)
    )


def _not_even_by_rounding(
    suspects: Sequence[_Pair],
    excused: list[Difference],
    references: dict[str, References],
    eager: Run,
) -> tuple[list[Difference], list[Difference]]:
    """Of what rounding decides: what it does not decide so.  More nudges than two are run where it looks like that."""
    values = {e.path: (e.value, c.value) for e, c in suspects if e is not None and c is not None}
    more: list[dict[str, object]] | None = None
    left: list[Difference] = []
    wrong: list[Difference] = []
    for one in excused:
        e, c = values[one.path]
        given, found = references.get(one.path), None
        tensors = isinstance(e, torch.Tensor) and isinstance(c, torch.Tensor)
        if given is not None and tensors and one.excused in verdict.BY_ROUNDING:
            found = unstable.far_out(one.path, e, c, given)
            if found is not None:
                exact = {d.path: references[d.path].exact for d in excused if d.path in references}
                if more is None:
                    more = _nudged(eager, given.nudge, _MORE_SEEDS, exact, borrows=given.borrows)
                others = [m.get(one.path) for m in more]
                found = unstable.far_out(one.path, e, c, given, others) if len(more) > len(_MORE_SEEDS) else None
        (left if found is None else wrong).append(found or one)
    return left, wrong


def _more_than_last_places(
    suspects: Sequence[_Pair], excused: list[Difference], eager: Run
) -> tuple[list[Difference], list[Difference]]:
    """Of what rounding excuses: what eager's own kernels, moved in the last place, do not do."""
    moved: list[dict[str, object]] = []
    for seed in (1, 2):
        try:
            with Nudged(seed):
                moved.append({s.path: s.value for s in eager()})
        except Exception:  # a model may refuse moved values with any error of its own
            return excused, []  # nobody knows how far they may move
    values = {e.path: (e.value, c.value) for e, c in suspects if e is not None and c is not None}
    left: list[Difference] = []
    wrong: list[Difference] = []
    for one in excused:
        e, c = values[one.path]
        found = None
        if one.excused == verdict.ROUNDING and isinstance(e, torch.Tensor) and isinstance(c, torch.Tensor):
            found = verdict.beyond(one.path, e, c, [m.get(one.path) for m in moved])
        (left if found is None else wrong).append(found or one)
    return left, wrong


def _difference(
    e: Seen | None, c: Seen | None, steady: Collection[str], references: dict[str, References]
) -> Difference | None:
    if e is None or c is None:
        path = (e or c or Seen("", None)).path
        return Difference(path, "type", "compiled gives no such value" if c is None else "eager gives no such value")
    if e.kind != c.kind and isinstance(e.value, torch.Tensor) and isinstance(c.value, torch.Tensor):
        names = (c.kind or "plain tensor", e.kind or "plain tensor")
        return Difference(e.path, "type", "compiled gives a {}, eager a {}".format(*names))
    plain = verdict.plain_difference(e.path, e.value, c.value)
    if e.path not in steady and (plain is None or plain.how in ("values", "nan")):
        return Difference(e.path, "values", "eager differs from itself", excused="eager itself is not deterministic")
    if plain is not None or not isinstance(e.value, torch.Tensor):
        return plain
    return verdict.judge(e.path, e.value, c.value, references.get(e.path))


def _paired(first: Sequence[Seen], got: Sequence[Seen]) -> list[_Pair]:
    left, right = _by_path(first), _by_path(got)
    return [(left.get(p), right.get(p)) for p in dict.fromkeys([*left, *right])]


def _by_path(shown: Sequence[Seen]) -> dict[str, Seen]:
    """A path that is met again (two keys with one text) gets a number, so that no value takes another's place."""
    found: dict[str, Seen] = {}
    turns: Counter[str] = Counter()
    for one in shown:
        turns[one.path] += 1
        path = one.path if turns[one.path] == 1 else f"{one.path} #{turns[one.path]}"
        found[path] = one if path == one.path else replace(one, path=path)
    return found


def _fresh(run: Run, reset: Callable[[], object]) -> Sequence[Seen]:
    reset()
    return run()


def _references(eager: Run, doubtful: dict[str, object], notes: list[str]) -> tuple[dict[str, References], str]:
    """For each of the `doubtful` values of eager; and why they tell nothing, where the two may differ by right."""
    found = _first_that_works(eager, doubtful, notes)
    if found is None:
        return {}, ""
    exact, mode = found
    if mode.mixed:
        notes.append("these ran in their own precision in the float64 reference: " + ", ".join(sorted(mode.mixed)))
    nudge = max(LEAST_NUDGE, 2 * mode.coarsest if mode.coarsest > 2.0**-20 else 0.0)
    moved = _nudged(eager, nudge, (7,), exact, borrows=mode.borrows)
    references = {
        path: References(value, [m.get(path) for m in moved], nudge, mode.borrows) for path, value in exact.items()
    }
    return references, mode.disputed


def _first_that_works(
    eager: Run, doubtful: dict[str, object], notes: list[str]
) -> tuple[dict[str, object], Upcast] | None:
    """With the inputs as they are; with copies where it writes to them, or torch asks for one dtype in all of them."""
    what = ""
    for borrows in (True, False):
        try:
            return _exact(eager, doubtful, borrows=borrows)
        except Exception as error:  # whatever the model does there, eager and compiled are compared without it
            what = f"{type(error).__name__}: {error}".splitlines()[0][:200]
    notes.append(f"there is no float64 reference ({what}); only what no rounding explains counts")
    return None


def _exact(eager: Run, doubtful: dict[str, object], *, borrows: bool) -> tuple[dict[str, object], Upcast]:
    with Upcast(borrows=borrows) as mode:
        seen = eager()
    return _kept(list(seen), doubtful, torch.float32), mode


def _nudged(
    eager: Run, nudge: float, seeds: Sequence[int], exact: dict[str, object], *, borrows: bool
) -> list[dict[str, object]]:
    """Twice for each seed, up and down; of what there is an `exact` value of."""
    moved: list[dict[str, object]] = []
    for seed, sign in itertools.product(seeds, (1, -1)):
        try:
            with Upcast(sign * nudge, seed=seed, borrows=borrows):
                seen = eager()
        except Exception:  # a nudge may leave what the program allows, and it says so in its own way
            continue
        moved.append(_kept(list(seen), exact, torch.bfloat16))
        del seen
    return moved


def _kept(seen: list[Seen], bases: dict[str, object], dtype: torch.dtype) -> dict[str, object]:
    """As distances from what each is compared with, one after the other: the whole is large."""
    found: dict[str, object] = {}
    while seen:
        one = seen.pop()
        if one.path in bases:
            found[one.path] = _distance(one.value, bases[one.path], dtype)
        del one
    return found


def _distance(value: object, base: object, dtype: torch.dtype) -> object:
    """Of floats; whole numbers are compared as they are."""
    if isinstance(base, torch.Tensor) and not (base.dtype.is_floating_point or base.dtype.is_complex):
        return value
    if not isinstance(value, torch.Tensor) or not isinstance(base, (torch.Tensor, InParts)):
        return value
    return Apart(value, base, dtype) if verdict.comparable(value, base) else value
