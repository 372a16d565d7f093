"""Which single application inside the compiler is to blame: a pass, a pattern, a lowering, a fusion, a decomposition.

The compiler is asked to apply only the first so many of all that it would apply; the rest it leaves out, as if it had
never known them (an operator that is not lowered runs as eager's kernel).  With all of them the Case fails.  Between
the largest number with which it does not and the next one stands the application to blame.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from torchsleuth.case.model import Case, Code
from torchsleuth.judge.applied import Applied
from torchsleuth.operators.properties import computes

PASSES = ("pre_grad_passes", "joint_graph_passes", "post_grad_passes", "pattern")
KERNELS = ("lowering", "fusion", "cudagraphs")
INDUCTOR = (*PASSES, *KERNELS)
_MOST_PARTNERS = 2  # asked about, each on its own
DECOMPOSITIONS = ("decomposition",)

_SAID = {
    "pre_grad_passes": "pre-grad pass {}",
    "joint_graph_passes": "joint-graph pass {}",
    "post_grad_passes": "post-grad pass {}",
    "pattern": "pattern {}",
    "lowering": "lowering of {}",
    "fusion": "fusion of {}",
    "cudagraphs": "CUDA graphs",
    "decomposition": "decomposition of {}",
}


@dataclass(frozen=True)
class Setting:
    """What the compiler may apply."""

    among: tuple[str, ...]  # stages that are counted; the others are applied
    first: int | None = None
    without: tuple[str, ...] = ()
    but: int | None = None
    but_named: str | None = None

    def applied_to(self, case: Case) -> Case:
        given = [f"first={self.first!r}", f"among={self.among!r}"]
        given += [f"without={self.without!r}"] if self.without else []
        given += [f"but={self.but!r}"] if self.but is not None else []
        given += [f"but_named={self.but_named!r}"] if self.but_named else []
        text = f"from torchsleuth.judge.switchboard import apply_only\napply_only({', '.join(given)})"
        now = case.surroundings
        return replace(case, surroundings=replace(now, code=(*now.code, Code("switchboard", "apply_only", text))))


@dataclass(frozen=True)
class Answer:
    """Of a Case judged in one Setting.  It may fail as it did, pass, or neither: then nothing is known."""

    fails: bool
    passes: bool
    applied: tuple[Applied, ...] = ()


Ask = Callable[[Sequence[Setting]], Sequence[Answer]]


@dataclass(frozen=True)
class Located:
    blamed: Applied | None  # None: none of them is
    number: int = 0  # from 1
    of: int = 0
    alone: bool = False  # leaving out this one alone, or all of its name, makes the Case pass
    all_of_name: bool = False
    said: tuple[str, ...] = ()  # what was judged, in sentences

    @property
    def name(self) -> str | None:
        return name_of(self.blamed) if self.blamed is not None else None


def name_of(applied: Applied) -> str:
    return _SAID.get(applied.stage, "{}").format(applied.name)


def find(ask: Ask, among: tuple[str, ...] = INDUCTOR, *, raises: bool = False) -> Located | None:
    """None where the Case, watched this closely, does not fail as it did.

    Where the compiler `raises`, the list ends with what it was doing, which is the best guess.
    """
    kernels = tuple(stage for stage in among if stage in KERNELS)
    split = [Setting(among, without=kernels)] if kernels and kernels != among else []
    everything, nothing, *passes = ask([Setting(among), Setting(among, first=0), *split])
    if not everything.fails:
        return None
    if nothing.fails:
        return Located(None, of=len(everything.applied), said=(_AROUND,))
    if passes and passes[0].fails:  # then kernels do not matter, and are left to eager
        return _narrow(ask, Setting(among, without=kernels), Setting(among), passes[0].applied, 0, raises)
    start = 0
    if passes and passes[0].passes:
        start = next((i for i, one in enumerate(everything.applied) if one.stage in KERNELS), 0)
    found = _narrow(ask, Setting(among), Setting(among), everything.applied, start, raises)
    if found is None or found.alone or found.blamed is None or found.blamed.stage not in KERNELS:
        return found
    return _pass_behind(ask, found, tuple(stage for stage in among if stage in PASSES))


def _pass_behind(ask: Ask, shown: Located, passes: tuple[str, ...]) -> Located:
    """Where a kernel alone is not to blame, it may only be where the fault shows: a pass had put its operator there."""
    if not passes:
        return shown
    everything, nothing = ask([Setting(passes), Setting(passes, first=0)])
    if not (everything.fails and nothing.passes):
        return shown
    found = _narrow(ask, Setting(passes), Setting(passes), everything.applied, 0, raises=False)
    return replace(found, said=(*found.said, f"It shows at the {shown.name}.")) if found and found.alone else shown


_AROUND = "It fails with no pass, pattern or fusion, and with eager's kernels: the fault lies in what is around them."


def _narrow(
    ask: Ask, inside: Setting, whole: Setting, applied: Sequence[Applied], low: int, raises: bool
) -> Located | None:
    """`inside` fails with all of `applied`, and is taken not to fail with the first `low`."""
    high, shown, guess_last = len(applied), applied, raises
    while high - low > 1:
        middle = high - 1 if guess_last else (low + high) // 2
        guess_last = False
        answer = ask([replace(inside, first=middle)])[0]
        if answer.fails:
            high, shown = middle, answer.applied
        else:
            low = middle
    if high == 0:
        return None
    number = high - 1
    blamed = _with_graphs(applied[number], shown, number)
    named = f"the {name_of(blamed)}"
    said = [f"With the first {number} of {len(applied)} applications it does not fail; with {named}, it does."]
    alone, whole_at = _at(whole, number, applied, inside), replace(whole, but=number)
    if alone is not None and ask([alone])[0].passes:
        found = Located(blamed, high, len(applied), True, False, (*said, f"Without {named} alone, it passes."))
        partners = blamed.stage == "lowering" and alone == whole_at and not (raises and computes(blamed.name))
        return _with_partners(ask, found, whole, applied) if partners else found
    if ask([replace(whole, but_named=blamed.name)])[0].passes:
        said.append(f"Without {named}, wherever it is applied, it passes.")
        return Located(blamed, high, len(applied), True, True, tuple(said))
    said.append(f"Leaving out {named} and nothing else does not make it pass.")
    return Located(blamed, high, len(applied), False, False, tuple(said))


def _with_partners(ask: Ask, found: Located, whole: Setting, applied: Sequence[Applied]) -> Located:
    """Other operators that the failure needs lowered as well: the search ends at the last of them.

    Where that one only fills or moves memory, the last that computes is to blame.
    """
    others = [n for n in range(found.number - 1) if applied[n].stage == "lowering" and computes(applied[n].name)]
    others = others[-_MOST_PARTNERS:]
    answers = ask([replace(whole, but=n) for n in others]) if others else []
    needed = [n for n, answer in zip(others, answers, strict=True) if answer.passes]
    if not needed:
        return found
    names = ", ".join(applied[n].name for n in needed)
    said = (*found.said, f"Without the lowering of {names} alone, it passes too: they are needed together.")
    assert found.blamed is not None
    if computes(found.blamed.name):
        return replace(found, said=said)
    return replace(found, blamed=applied[needed[-1]], number=needed[-1] + 1, said=said)


def _at(whole: Setting, number: int, applied: Sequence[Applied], inside: Setting) -> Setting | None:
    """The Setting that leaves out one application; None where another would have its number."""
    if inside.without and any(one.stage in inside.without for one in applied[:number]):
        # Kernels of an earlier graph were left to eager while it was searched: there were no fusions to count.
        return replace(inside, but=number)
    return replace(whole, but=number)


def _with_graphs(blamed: Applied, shown: Sequence[Applied], number: int) -> Applied:
    if number < len(shown) and shown[number].before:
        return replace(blamed, before=shown[number].before, after=shown[number].after)
    return blamed
