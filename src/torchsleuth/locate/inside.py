"""Find the single step inside the compiler that is to blame: a pass, a pattern, a lowering, a fusion, a decomposition.

The compiler applies its steps in the same order each time.  A Setting lets only the first so many through; the others
are skipped (an operator that is not lowered runs as eager's kernel).  With all of them the Case fails, so a binary
search closes in on one.  What the search ends at is a guess until two runs show it: with every step the Case fails in
the same way, and with all but this one it passes.  Only then is the step named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from torchsleuth.case.model import Case, Code
from torchsleuth.diagnose.claim import Claim, ClaimKind, Topic, claim
from torchsleuth.judge.applied import Applied
from torchsleuth.judge.judgement import Judgement
from torchsleuth.judge.match import Match
from torchsleuth.operators.properties import computes

PASSES = ("pre_grad_passes", "joint_graph_passes", "post_grad_passes", "pattern")
KERNELS = ("lowering", "fusion", "cudagraphs")
INDUCTOR = (*PASSES, *KERNELS)
DECOMPOSITIONS = ("decomposition",)
_MOST_PARTNERS = 2  # asked about, each on its own
_MOST_DETOURS = 3  # other points tried where one gives no answer

_NAMES = {
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

    @property
    def change(self) -> str:
        """Describe the Setting in a phrase, for the record."""
        parts = [f"only the first {self.first} compiler steps"] if self.first is not None else []
        parts += [f"without {', '.join(self.without)}"] if self.without else []
        parts += [f"without compiler step {self.but + 1}"] if self.but is not None else []
        parts += [f"without {self.but_named}"] if self.but_named else []
        return "; ".join(parts) or "every compiler step, listed"


@dataclass(frozen=True)
class Answer:
    """How the Case ended in one Setting, and what the compiler came to apply."""

    match: Match
    applied: tuple[Applied, ...] = ()
    judgement: Judgement | None = None

    @property
    def fails(self) -> bool:
        return self.match is Match.SAME

    @property
    def passes(self) -> bool:
        return self.match is Match.PASSED

    @property
    def unknown(self) -> bool:
        return self.match is Match.UNKNOWN


Ask = Callable[[Sequence[Setting]], Sequence[Answer]]


@dataclass(frozen=True)
class Located:
    """The step that the search ended at, and what shows it."""

    blamed: Applied | None  # None: none of them is, or it is not known which
    number: int = 0  # from 1
    of: int = 0
    alone: bool = False  # the Case passes when this one is skipped, or all of its name
    all_of_name: bool = False
    partners: tuple[str, ...] = ()  # operators whose lowering, skipped alone, makes the Case pass too
    claims: tuple[Claim, ...] = ()
    not_known: tuple[str, ...] = ()

    @property
    def name(self) -> str | None:
        return name_of(self.blamed) if self.blamed is not None else None


def name_of(applied: Applied) -> str:
    return _NAMES.get(applied.stage, "{}").format(applied.name)


def find(ask: Ask, among: tuple[str, ...] = INDUCTOR, *, raises: bool = False) -> Located | None:
    """Search for the step; None where the Case, watched this closely, does not fail in the same way.

    Where the compiler `raises`, the list ends with what it was doing, which is the best guess.
    """
    kernels = tuple(stage for stage in among if stage in KERNELS)
    split = [Setting(among, without=kernels)] if kernels and kernels != among else []
    everything, nothing, *passes = ask([Setting(among), Setting(among, first=0), *split])
    if not everything.fails:
        return None
    if nothing.fails:
        return Located(None, of=len(everything.applied), claims=tuple(_around(nothing)))
    search = _Search(ask, everything)
    if passes and passes[0].fails:  # then kernels do not matter, and are left to eager
        return search.narrow(Setting(among, without=kernels), Setting(among), passes[0].applied, 0, raises)
    start = 0
    if passes and passes[0].passes:
        start = next((i for i, one in enumerate(everything.applied) if one.stage in KERNELS), 0)
    found = search.narrow(Setting(among), Setting(among), everything.applied, start, raises)
    if found.alone or found.blamed is None or found.blamed.stage not in KERNELS:
        return found
    return _pass_behind(ask, found, tuple(stage for stage in among if stage in PASSES))


def _pass_behind(ask: Ask, shown: Located, passes: tuple[str, ...]) -> Located:
    """Look for a pass that put the kernel's operator there, where the kernel alone is not to blame."""
    if not passes:
        return shown
    everything, nothing = ask([Setting(passes), Setting(passes, first=0)])
    if not (everything.fails and nothing.passes):
        return shown
    found = _Search(ask, everything).narrow(Setting(passes), Setting(passes), everything.applied, 0, raises=False)
    return found if found.alone else shown


def _around(nothing: Answer) -> Iterator[Claim]:
    if nothing.judgement is not None:
        text = "Fails with every pass, pattern and fusion skipped and with eager's kernels."
        yield claim(ClaimKind.FAILS, Topic.INSIDE, "no compiler step", text, nothing.judgement)


@dataclass(frozen=True)
class _Search:
    ask: Ask
    everything: Answer  # the Case with every step; it fails

    def narrow(self, inside: Setting, whole: Setting, applied: Sequence[Applied], low: int, raises: bool) -> Located:
        """Close in on one step: `inside` fails with all of `applied`."""
        high, shown, guess_last = len(applied), applied, raises
        while high - low > 1:
            middle = high - 1 if guess_last else (low + high) // 2
            guess_last = False
            point, answer = self._decided(inside, middle, low, high)
            if answer.unknown:
                return _undecided(low, high, len(applied))
            if answer.fails:
                high, shown = point, answer.applied
            else:
                low = point
        if high == 0:
            return _undecided(0, 0, len(applied))
        number = high - 1
        return self._confirmed(inside, whole, applied, _with_graphs(applied[number], shown, number), number, raises)

    def _decided(self, inside: Setting, middle: int, low: int, high: int) -> tuple[int, Answer]:
        """Ask at `middle`; where nothing is learned there, once more, and then at points beside it."""
        beside = sorted((n for n in range(low + 1, high) if n != middle), key=lambda n: abs(n - middle))
        answer = Answer(Match.UNKNOWN)
        for point in (middle, middle, *beside[:_MOST_DETOURS]):
            answer = self.ask([replace(inside, first=point)])[0]
            if not answer.unknown:
                return point, answer
        return middle, answer

    def _confirmed(
        self, inside: Setting, whole: Setting, applied: Sequence[Applied], blamed: Applied, number: int, raises: bool
    ) -> Located:
        found = Located(blamed, number + 1, len(applied))
        alone, whole_at = _at(whole, number, applied, inside), replace(whole, but=number)
        without = self.ask([alone])[0]
        if without.passes:
            found = replace(found, alone=True, claims=self._culprit(blamed, without, "only that step is skipped"))
            partners = blamed.stage == "lowering" and alone == whole_at and not (raises and computes(blamed.name))
            return self._with_partners(found, whole, applied) if partners else found
        named = self.ask([replace(whole, but_named=blamed.name)])[0]
        if named.passes:
            claims = self._culprit(blamed, named, "every step of that name is skipped")
            return replace(found, alone=True, all_of_name=True, claims=claims)
        unknown = without.unknown and named.unknown
        said = "it was not judged without it" if unknown else "it does not pass without it"
        why = f"whether the {name_of(blamed)} is to blame: the search ended there, and {said}"
        return replace(found, not_known=(why,))

    def _culprit(self, blamed: Applied, without: Answer, when: str) -> tuple[Claim, ...]:
        if without.judgement is None or self.everything.judgement is None:
            return ()
        name = name_of(blamed)
        text = f"Fails in the {name}: passes when {when}."
        return (claim(ClaimKind.CULPRIT, Topic.INSIDE, name, text, self.everything.judgement, without.judgement),)

    def _with_partners(self, found: Located, whole: Setting, applied: Sequence[Applied]) -> Located:
        """Look for other operators that must be lowered for the Case to fail: the search ends at the last of them.

        Where that one only fills or moves memory, the last that computes is to blame.
        """
        others = [n for n in range(found.number - 1) if applied[n].stage == "lowering" and computes(applied[n].name)]
        others = others[-_MOST_PARTNERS:]
        answers = self.ask([replace(whole, but=n) for n in others]) if others else []
        needed = [(n, answer) for n, answer in zip(others, answers, strict=True) if answer.passes]
        if not needed:
            return found
        claims = [
            claim(
                ClaimKind.NEEDED,
                Topic.INSIDE,
                name_of(applied[n]),
                f"Passes, too, when only the {name_of(applied[n])} is skipped.",
                answer.judgement,
            )
            for n, answer in needed
            if answer.judgement is not None
        ]
        partners = tuple(applied[n].name for n, _ in needed)
        assert found.blamed is not None
        if computes(found.blamed.name):
            return replace(found, partners=partners, claims=(*found.claims, *claims))
        last, answer = needed[-1]
        culprit = self._culprit(applied[last], answer, "only that step is skipped")
        return replace(
            found, blamed=applied[last], number=last + 1, partners=partners[:-1], claims=(*culprit, *claims[:-1])
        )


def _undecided(low: int, high: int, count: int) -> Located:
    where = f"steps {low + 1} to {high} of {count}" if high else f"{count} steps"
    return Located(None, of=count, not_known=(f"which compiler step is to blame: {where} were not told apart",))


def _at(whole: Setting, number: int, applied: Sequence[Applied], inside: Setting) -> Setting:
    """Return the Setting that skips one step and nothing else."""
    if inside.without and any(one.stage in inside.without for one in applied[:number]):
        # Kernels of an earlier graph were left to eager while it was searched: there were no fusions to count.
        return replace(inside, but=number)
    return replace(whole, but=number)


def _with_graphs(blamed: Applied, shown: Sequence[Applied], number: int) -> Applied:
    if number < len(shown) and shown[number].before:
        return replace(blamed, before=shown[number].before, after=shown[number].after)
    return blamed
