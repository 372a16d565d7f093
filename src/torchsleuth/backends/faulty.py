"""A backend that fails on purpose, at any operator and in any way, to practise on and to test with.

    torch.compile(f, backend=faulty("relu", "accuracy"))

plants one fault where the graph calls the operator and is a correct backend everywhere else.  `faulty_match` says what
an operator's name means.  The graph searched is the one that `inner` works on: Dynamo's for "eager", AOTAutograd's
forward or backward for "aot_eager" and "inductor".  So a fault in the backward needs the backward's own operator: the
backward of relu is "threshold_backward".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args

import torch

from torchsleuth import torch_api
from torchsleuth.backends.faulty_match import find, nearest_names, needs_other_names
from torchsleuth.backends.faulty_plant import plant

FaultKind = Literal[
    "compile-error", "compile-error-non-leaf", "runtime-error", "accuracy", "crash", "hang", "out-of-memory"
]
Where = Literal["forward", "backward"]
Inner = Literal["eager", "aot_eager", "inductor"]
_MOST_NAMES = 5
_CHOICES = {"kind": FaultKind, "where": Where, "inner": Inner}


class FaultyCompileError(RuntimeError):
    """Raised by a faulty backend that was told not to compile an operator."""


class NothingPlanted(RuntimeError):
    """Raised while compiling by a faulty backend that found no place for its fault."""


class _Planted:
    """In how many graphs the fault was planted so far, and whether it was found there by another name."""

    def __init__(self) -> None:
        self.graphs = 0
        self.by_other_names = False

    def note(self, *, by_other_names: bool) -> None:
        self.graphs += 1
        self.by_other_names |= by_other_names


@dataclass(frozen=True, repr=False)
class Faulty:
    """A backend with one planted fault; `repr` is the call of `faulty` that makes it again.

    kind: "compile-error" raises FaultyCompileError while compiling, "compile-error-non-leaf" only where some input of
        the graph is not an autograd leaf; "runtime-error", "crash" (SIGSEGV), "hang" and "out-of-memory" happen when
        the compiled operator runs; "accuracy" makes its result wrong by a tenth (integers by one bit, bools negated).
    nth: the fault is at this occurrence only, counted from 0; graphs with fewer occurrences are correct.
    needs_all: with several operators, whether all must occur in the given order (the fault is at the last) or any.
    may_miss: whether graphs without the operator are compiled correctly.  Otherwise NothingPlanted is raised at the
        first graph that ends without a graph break, where no graph up to there had the operator; of a backward, which
        may never be compiled, nothing is raised unless it is.
    """

    op: str | tuple[str, ...] = "relu"
    kind: FaultKind = "compile-error"
    where: Where = "forward"
    nth: int = 0
    inner: Inner = "aot_eager"
    needs_all: bool = True
    may_miss: bool = False
    _planted: _Planted = field(default_factory=_Planted, init=False, compare=False)

    def __post_init__(self) -> None:
        for name, choice in _CHOICES.items():
            if getattr(self, name) not in get_args(choice):
                raise ValueError(
                    f"faulty: {name}={getattr(self, name)!r}; choose one of {', '.join(get_args(choice))}."
                )
        if not self.op or self.nth < 0:
            raise ValueError("faulty: it needs at least one operator, and nth counts from 0.")
        if self.where == "backward" and self.inner == "eager":
            raise ValueError("faulty: inner='eager' compiles no backward; use inner='aot_eager' or 'inductor'.")

    @property
    def __name__(self) -> str:
        return "faulty"  # Dynamo names a backend by this in its errors

    @property
    def ops(self) -> tuple[str, ...]:
        return (self.op,) if isinstance(self.op, str) else self.op

    @property
    def op_text(self) -> str:
        return (", " if self.needs_all else " or ").join(self.ops)

    def __repr__(self) -> str:
        shown = [repr(self.op), repr(self.kind)]
        for one in fields(self)[2:]:
            if one.init and (value := getattr(self, one.name)) != one.default:
                shown.append(f"{one.name}={value!r}")
        return f"faulty({', '.join(shown)})"

    @property
    def places(self) -> int:
        """In how many graphs the fault was planted so far."""
        return self._planted.graphs

    @property
    def by_other_names(self) -> bool:
        """Whether some graph had the operator under another name than `op`, or decomposed."""
        return self._planted.by_other_names

    def __call__(self, gm: torch.fx.GraphModule, inputs: Sequence[Any], **_: Any) -> Callable[..., Any]:
        if self.kind == "compile-error-non-leaf" and all(getattr(x, "is_leaf", True) for x in inputs):
            spoil = unchanged
        elif self.may_miss or torch_api.ends_in_break(gm):
            spoil = self.spoil
        else:
            spoil = self._spoil_or_refuse
        if self.inner == "eager":
            return spoil(gm)
        compilers = (spoil, unchanged) if self.where == "forward" else (unchanged, spoil)
        compile_with = torch_api.inductor_with if self.inner == "inductor" else torch_api.aot_eager_with
        return compile_with(gm, inputs, *compilers)

    def _spoil_or_refuse(self, gm: torch.fx.GraphModule) -> torch.fx.GraphModule:
        spoiled = self.spoil(gm)
        if not self._planted.graphs:
            raise NothingPlanted(self._refusal(gm))
        return spoiled

    def spoil(self, gm: torch.fx.GraphModule) -> torch.fx.GraphModule:
        """The graph with the fault in it; the compile errors are raised here."""
        node = find(gm, self.ops, self.nth, self.needs_all)
        if node is None:
            return gm
        other = needs_other_names(gm, self.ops)
        if self.kind.startswith("compile-error"):
            self._planted.note(by_other_names=other)
            raise FaultyCompileError(compile_message(self.op_text))
        if plant(node, self.kind, self.op_text):
            self._planted.note(by_other_names=other)
        return gm

    def _refusal(self, gm: torch.fx.GraphModule) -> str:
        names = nearest_names(gm, self.ops[-1])
        found = f"The nearest names in it are {', '.join(names[:_MOST_NAMES])}." if names else "It calls no operator."
        which = f"occurrence {self.nth} (counted from 0) of {self.op_text!r}" if self.nth else repr(self.op_text)
        return (
            f"faulty backend: no fault was planted, because the {self.where} graph has no {which} that gives a tensor. "
            f"{found} Name one of these, or give may_miss=True to compile graphs without it."
        )

    def __torchsleuth_source__(self) -> tuple[str, str]:
        """What a repro carries in place of this object: torch-only source, and the expression for the backend in it."""
        from torchsleuth.backends.faulty_source import standalone_source  # which imports this class

        return standalone_source(self), "faulty"


def compile_message(op: str) -> str:
    return f"faulty backend: cannot compile {op!r}"


def unchanged(gm: torch.fx.GraphModule) -> torch.fx.GraphModule:
    return gm


def faulty(
    op: str | Sequence[str] = "relu",
    kind: FaultKind = "compile-error",
    *,
    where: Where = "forward",
    nth: int = 0,
    inner: Inner = "aot_eager",
    needs_all: bool = True,
    may_miss: bool = False,
) -> Faulty:
    """A backend for `torch.compile` that is correct but for one planted fault; see `Faulty` for the choices."""
    return Faulty(op if isinstance(op, str) else tuple(op), kind, where, nth, inner, needs_all, may_miss)
