"""What the debugging backends raise: inside the user's program, so each message is a sentence with what to do next."""

from __future__ import annotations

from pathlib import Path

from torchsleuth.case.ir import Source


class OperatorFault(AssertionError):
    """An operator that does not do what it says of itself.

    operator: its name, as "mylib.scale.default".
    difference: what was said and what was seen, in one sentence.
    source: the line of the user's that called it, where it is known.
    """

    advice = ""

    def __init__(self, operator: str, difference: str, source: Source | None = None) -> None:
        super().__init__(operator, difference, source)
        self.operator = operator
        self.difference = difference
        self.source = source

    def __str__(self) -> str:
        return "\n".join(part for part in (f"{self.operator}: {self.difference}", at(self.source), self.advice) if part)


class WrongSchema(OperatorFault):
    """An operator writes or shares memory in a way that its schema does not say."""

    advice = "torch.compile orders, drops and reuses by the schema: mend the schema (mutates_args), or the kernel."


class WrongFakeKernel(OperatorFault):
    """The fake kernel of an operator describes other results than the real one gives."""

    advice = "torch.compile plans with the fake kernel: mend it (torch.library.register_fake), or the real kernel."


class GraphRaised(RuntimeError):
    """The mark of `sleuth_eager_marked`: an operator of the graph raised, not Dynamo and not the code around it."""

    def __init__(self, operator: str, cause: BaseException, source: Source | None) -> None:
        super().__init__(operator, cause, source)
        self.operator = operator
        self.cause = cause
        self.source = source

    def __str__(self) -> str:
        first = f"the graph itself raised at {self.operator}: {type(self.cause).__name__}: {self.cause}"
        return "\n".join(part for part in (first, at(self.source)) if part)


class NotScriptable(RuntimeError):
    """TorchScript takes only part of Python and of torch; this graph is outside of it."""


class NotTraceable(RuntimeError):
    """Tracing before dispatch does not keep the transforms of functorch; this graph has one in it."""


class BadRecipe(ValueError):
    """Options, or backends to be composed, that do not fit together."""


def at(source: Source | None) -> str:
    """The line as users write it: relative to where they are."""
    if source is None:
        return ""
    path = Path(source.file)
    file = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    return f"  at {file}:{source.line}: {source.code}".rstrip(": ")
