"""Find a workaround: the smallest thing to switch off with which the Case passes.

A workaround is text to paste.  It is judged as it stands, put in front of the Case: on the reduced Case first, where a
judgement is cheap, then on the user's own.  Switches are tried all at once and then narrowed down: mostly none helps,
or one does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from torchsleuth.case.failure import Kind
from torchsleuth.case.ir import Op
from torchsleuth.case.model import Case, Code, Surroundings, Tensor
from torchsleuth.judge.applied import Applied
from torchsleuth.judge.judgement import Judged
from torchsleuth.locate.ladder import Component, Rung
from torchsleuth.operators.names import aten_name

Judge = Callable[[Sequence[Case], Sequence[str]], Sequence[Judged]]  # of Cases, and of how each differs
_MOST_SWITCHES = 3  # in one workaround
_MOST_OPERATORS = 3  # to hand back to eager, each on its own
_MOST_ASKED = 24  # judgements of the reduced Case
_MOST_CONFIRMED = 4  # judgements of the user's own Case, which may be large

# From those that cost little to those that cost much.
_INDUCTOR = (
    ("constant_and_index_propagation", False),
    ("joint_graph_constant_folding", False),
    ("split_cat_fx_passes", False),
    ("use_pre_grad_passes", False),
    ("use_joint_graph_passes", False),
    ("pattern_matcher", False),
    ("reorder_for_locality", False),
    ("loop_ordering_after_fusion", False),
    ("layout_optimization", False),
    ("inplace_buffers", False),
    ("allow_buffer_reuse", False),
    ("split_reductions", False),
    ("unroll_reductions_threshold", 1),
    ("realize_opcount_threshold", 1),
    ("epilogue_fusion", False),
    ("max_fusion_size", 1),
    ("cpp.simdlen", 1),
)
_INDUCTOR_NUMBERS = (("emulate_precision_casts", True),)
_INDUCTOR_AT_LARGE = (("use_post_grad_passes", False),)  # much relies on these: a group of their own
_AOT = (("donated_buffer", False), ("cse", False), ("view_replay_for_aliased_outputs", True))


Change = Callable[[Case], Case]


# What a switch switches, where no application of the compiler has a name for it.
_SWITCHED = {
    "constant_and_index_propagation": "index propagation",
    "joint_graph_constant_folding": "constant folding",
    "layout_optimization": "layout optimisation",
    "inplace_buffers": "in-place buffers",
    "allow_buffer_reuse": "buffer reuse",
    "split_reductions": "split reductions",
    "unroll_reductions_threshold": "unrolled reductions",
    "realize_opcount_threshold": "inlining of pointwise operators",
    "epilogue_fusion": "epilogue fusion",
    "max_fusion_size": "fusion",
    "cpp.simdlen": "vectorised C++",
    "emulate_precision_casts": "low precision computed in float32",
    "donated_buffer": "donated buffers",
    "cse": "common subexpressions",
}


def switched_by(text: str) -> str | None:
    """What a workaround switches off, in words; None where it is no switch that is known."""
    found = re.findall(r"^torch\._(?:inductor|functorch)\.config\.([\w.]+) = ", text, re.M)
    named = [_SWITCHED[entry] for entry in found if entry in _SWITCHED]
    return " and ".join(named) if named and len(named) == len(text.splitlines()) else None


def is_about_memory(switched: str) -> bool:
    return set(switched.split(" and ")) <= {_SWITCHED[e] for e in ("inplace_buffers", "allow_buffer_reuse")}


@dataclass(frozen=True)
class Workaround:
    """One thing to change, as text for the user and as a change of the Case."""

    text: str  # code to paste, or what to remove
    apply: Change


@dataclass(frozen=True)
class Helps:
    """A workaround, and the judgement of the user's own Case with it."""

    text: str
    judged: Judged


def is_code(text: str) -> bool:
    """Return whether a workaround can be pasted into a program as it stands."""
    return not text.startswith(("remove ", "torch.compile", "export "))


def find(
    small: Case,
    whole: Case,
    kind: Kind,
    component: Component,
    operator: str | None,
    blamed: Applied | None,
    judge_small: Judge,
    judge_whole: Judge,
) -> Helps | None:
    """Find the first that helps both Cases, in the order of what it costs the user."""
    settings = left_out(small) + without(blamed)
    # A pass that can be left out is the smallest thing that there is; where one is known, no switch is looked for.
    groups = [] if blamed is not None and without(blamed) else switch_groups(kind, component)
    lowered = component in (Component.INDUCTOR, Component.DECOMPOSITION)
    named = blamed.name if blamed is not None and _is_lowered(blamed) else operator
    operators = fallbacks(small, named) if lowered else []
    asked = [*settings, *(together(group) for group in groups), *operators]
    if not asked:
        return None
    helped = _Limited(judge_small, small)
    answers = helped(asked)
    found = [one for one, helps in zip(settings, answers, strict=False) if helps]
    for group, helps in zip(groups, answers[len(settings) :], strict=False):
        if helps:
            found += fewest(group, helped)
    found += [one for one, helps in zip(operators, answers[len(settings) + len(groups) :], strict=True) if helps]
    for one in found[:_MOST_CONFIRMED]:
        judged = judge_whole([one.apply(whole)], [one.text])[0]
        if judged.passes:
            return Helps(one.text, judged)
    return None


class _Limited:
    """Asks about the reduced Case so many times and no more: the rest is not offered."""

    def __init__(self, judge: Judge, case: Case) -> None:
        self._judge = judge
        self._case = case
        self._left = _MOST_ASKED

    def __call__(self, some: Sequence[Workaround]) -> list[bool]:
        if len(some) > self._left:
            return [False] * len(some)
        self._left -= len(some)
        judged = self._judge([one.apply(self._case) for one in some], [one.text for one in some])
        return [one.passes for one in judged]


def other_backend(rungs: Sequence[Rung]) -> str | None:
    """Name the fastest backend of the ladder on which the Case passes."""
    passing = [rung.backend for rung in rungs if rung.fails is False]
    return next((name for name in ("aot_eager_decomp_partition", "aot_eager", "eager") if name in passing), None)


def fewest(group: Sequence[Workaround], passes: Callable[[Sequence[Workaround]], Sequence[bool]]) -> list[Workaround]:
    """One switch of a group that helps as a whole, or a few that do together.

    The last of the shortest beginning that helps is needed; with it on, the next one is looked for before it.
    """
    wanted: list[Workaround] = []
    rest = list(group)
    while len(wanted) < _MOST_SWITCHES:
        low, high = 0, len(rest)  # the first `high` help together with what is wanted; the first `low` do not
        while high - low > 1:
            third = max(1, (high - low) // 3)
            points = sorted({low + third, high - third})
            answers = passes([together([*rest[:n], *wanted]) for n in points])
            high = next((n for n, helps in zip(points, answers, strict=True) if helps), high)
            low = max((n for n, helps in zip(points, answers, strict=True) if not helps and n < high), default=low)
        wanted.insert(0, rest[high - 1])
        rest = rest[: high - 1]
        if not rest or passes([together(wanted)])[0]:
            return [together(wanted)]
    return []


def together(group: Sequence[Workaround]) -> Workaround:
    def apply(case: Case) -> Case:
        for one in group:
            case = one.apply(case)
        return case

    return Workaround("\n".join(one.text for one in group), apply)


def switch_groups(kind: Kind, component: Component) -> list[list[Workaround]]:
    if component in (Component.AOT, Component.PARTITIONER, Component.DECOMPOSITION):
        return [[_switch("torch._functorch.config", name, value) for name, value in _AOT]]
    if component is not Component.INDUCTOR:
        return []
    plain = [*(_INDUCTOR_NUMBERS if kind is Kind.ACCURACY else ()), *_INDUCTOR]
    if kind in (Kind.CRASH, Kind.HANG):
        plain.reverse()  # generated code more likely than a pass
    return [[_switch("torch._inductor.config", *entry) for entry in group] for group in (plain, _INDUCTOR_AT_LARGE)]


def without(blamed: Applied | None) -> list[Workaround]:
    """Of a pass that has a name: torch's own list of passes to leave out."""
    if blamed is None or not blamed.stage.endswith("_passes"):
        return []
    return [_switch("torch._inductor.config", "disabled_passes", blamed.name.upper())]


def _is_lowered(blamed: Applied | None) -> bool:
    return blamed is not None and blamed.stage in ("lowering", "decomposition")


def _switch(module: str, entry: str, value: object) -> Workaround:
    return _pasted(f"{module}.{entry} = {value!r}")


def _pasted(text: str) -> Workaround:
    def apply(case: Case) -> Case:
        # A switch that this torch does not have says so where it is asked alone; in a group it is passed over.
        code = Code("workaround", text, f"try:\n{_indented(text)}\nexcept AttributeError:\n    pass")
        now = case.surroundings
        return replace(case, surroundings=replace(now, code=(*now.code, code)))

    return Workaround(text, apply)


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())


def fallbacks(case: Case, named: str | None) -> list[Workaround]:
    """Operators that Inductor leaves to eager: the one that the error names first."""
    calls = [n for g in case.graph.all_graphs() for n in g.nodes if n.is_call and n.op is not Op.CALL_MODULE]
    names = [aten_name(target) for target in (*([named] if named else []), *(n.target for n in calls))]
    return [_fallback(name) for name in dict.fromkeys(filter(None, names))][:_MOST_OPERATORS]


def _fallback(name: str) -> Workaround:
    op = f"torch.ops.aten.{name}"
    # Graphs in the cache were compiled without this change, which is no part of their key.
    return _pasted(
        "import torch._inductor.config\n"
        "from torch._inductor import decomposition, lowering\n"
        "torch._inductor.config.force_disable_caches = True\n"
        f"for name in {op}.overloads():\n"
        f"    decomposition.decompositions.pop(getattr({op}, name), None)\n"
        "decomposition.fast_random_decomps.cache_clear()\n"
        f"lowering.make_fallback({op})"
    )


def left_out(case: Case) -> list[Workaround]:
    """Settings of the user's own that the reduced Case still has: it needs each of them to fail."""
    now = case.surroundings
    found = [
        Workaround(f"remove `{module}.{entry} = {value!r}`", _change_without_config(module, entry))
        for module, entry, value in now.configs
    ]
    if now.backend.mode:
        found.append(Workaround(f"remove `mode={now.backend.mode!r}` from torch.compile", _change(_without_mode)))
    found += [
        Workaround(f"remove `{name!r}: {value!r}` from the options of torch.compile", _change(_without_option(name)))
        for name, value in now.backend.options.items()
    ]
    if now.dynamic is not False and (now.dynamic or any(isinstance(v, Tensor) and v.dynamic for v in case.inputs)):
        found.append(Workaround("torch.compile(..., dynamic=False)", _static))
    return found


def _change(change: Callable[[Surroundings], Surroundings]) -> Callable[[Case], Case]:
    return lambda case: replace(case, surroundings=change(case.surroundings))


def _change_without_config(module: str, entry: str) -> Callable[[Case], Case]:
    return _change(lambda s: replace(s, configs=tuple(c for c in s.configs if c[:2] != (module, entry))))


def _without_mode(now: Surroundings) -> Surroundings:
    return replace(now, backend=replace(now.backend, mode=None))


def _without_option(name: str) -> Callable[[Surroundings], Surroundings]:
    def change(now: Surroundings) -> Surroundings:
        kept = {k: v for k, v in now.backend.options.items() if k != name}
        return replace(now, backend=replace(now.backend, options=kept))

    return change


def _static(case: Case) -> Case:
    inputs = tuple(replace(v, dynamic=()) if isinstance(v, Tensor) else v for v in case.inputs)
    return replace(case, inputs=inputs, surroundings=replace(case.surroundings, dynamic=False))
