"""From a Case to a script: the choice of form, and what all forms share."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from torchsleuth.case import checks
from torchsleuth.case.ir import Op
from torchsleuth.case.model import Backend, Case, Tensor
from torchsleuth.case.program import frame, values
from torchsleuth.case.program.names import Names
from torchsleuth.case.program.statements import CannotRender
from torchsleuth.operators.names import base_name

__all__ = ["CannotRender", "Form", "Rendering", "render"]

DATA_FILE = "repro_data.pt"
_NEED_NUMPY = {"numpy", "from_numpy"}  # what torch imports numpy for
_MOST_ROOM = 2**24  # elements: more is not made only for the sake of what lies behind a view


class Form(str, Enum):
    COMPILE = "torch.compile"
    BACKEND = "backend"
    INNER = "inner"


@dataclass(frozen=True)
class Rendering:
    source: str
    form: Form
    imports: tuple[str, ...]  # top-level modules beside the standard library
    data: Mapping[str, Tensor] = field(default_factory=dict)  # what the data file must hold, by name
    source_lines: int = 0  # of the user's own source, blank lines apart


def render(
    case: Case,
    form: Form = Form.COMPILE,
    *,
    backend: Backend | None = None,
    data: bool = False,
    hang_limit: float | None = None,
    refereed: bool = False,
) -> Rendering:
    """The script.  `backend` puts another in the program's place; `data` reads values instead of making them.

    Of a Case whose numbers are wrong, `refereed` ends in the referee's verdict instead of a plain assertion.
    """
    from torchsleuth.case.program import compiled, handed

    _check_known(case, tags=form is not Form.COMPILE)  # compiled from Python, nodes get their tags anew
    if backend is not None:
        case = replace(case, surroundings=replace(case.surroundings, backend=backend))
    writer = Script(case, data, refereed)
    if form is Form.COMPILE:
        compiled.write(writer)
    elif form is Form.BACKEND:
        handed.write_backend(writer)
    else:
        handed.write_inner(writer)
    return writer.finish(form, hang_limit)


def _check_known(case: Case, *, tags: bool) -> None:
    from torchsleuth.case.ir import Unknown, leaves

    for graph in case.graph.all_graphs():
        for path, what in graph.unknown.items():
            raise CannotRender(f"the graph holds {path}, a {what}, which was not kept")
        for node in graph.nodes:
            for leaf in leaves((node.args, dict(node.kwargs), dict(node.tags) if tags else None)):
                if isinstance(leaf, Unknown):
                    raise CannotRender(f"{node.name} takes a {leaf.what}, which was not kept")


class Script:
    """A script being written: its parts in order, and the names and imports in use."""

    def __init__(self, case: Case, data: bool, refereed: bool = False) -> None:
        self.case = case
        self.refereed = refereed
        self.use_data = data
        self.names = Names(n.name for g in case.graph.all_graphs() for n in g.nodes if n.op is not Op.PLACEHOLDER)
        self.imports: set[str] = set()
        self.definitions: list[str] = []
        self.inputs: list[str] = []
        self.run: list[str] = []
        self.data: dict[str, Tensor] = {}
        self._storages: dict[int, tuple[str, str]] = {}
        tensors = [t for t in (*case.inputs, *case.constants) if isinstance(t, Tensor)]
        self._shared = values.shared_storages(tensors)
        calls = [n for g in case.graph.all_graphs() for n in g.nodes if n.is_call]
        self._reaches_beyond = any(base_name(n.target).startswith("as_strided") for n in calls)
        self._all_tensors = tensors

    def tensor(self, tensor: Tensor, name: str, lines: list[str]) -> str:
        """An expression for `tensor`; what it needs before it goes to `lines`."""
        if self.use_data and not tensor.unknown and self.case.storages[tensor.storage].kept:
            self.data[name] = tensor
            return values.loaded(tensor, name)
        if tensor.storage not in self._shared or tensor.unknown or "zero" in tensor.flags:
            return values.made(tensor, self._room(tensor))
        if tensor.storage not in self._storages:
            family = [t for t in self._all_tensors if t.storage == tensor.storage]
            memory = self.names.fresh("memory")
            lines.append(f"{memory} = {values.storage(family)}")
            self._storages[tensor.storage] = (memory, family[0].dtype)
        memory, dtype = self._storages[tensor.storage]
        return values.view(tensor, memory, dtype)

    def _room(self, tensor: Tensor) -> int:
        """Elements of the memory behind a view, where the graph may reach beyond the view; else 0."""
        if tensor.unknown or not self._reaches_beyond:
            return 0
        room = self.case.storages[tensor.storage].nbytes // checks.itemsize(tensor.dtype)
        return room if room <= _MOST_ROOM else 0

    def finish(self, form: Form, hang_limit: float | None) -> Rendering:
        surroundings = self.case.surroundings
        codes = frame.carried(self.case, with_backend=not surroundings.backend.registered)
        self.imports |= frame.config_imports(surroundings)
        environment = frame.environment(surroundings)
        head: list[str] = []
        if environment or "import os" in self.imports:
            head += ["import os", *(["", *environment] if environment else []), ""] if environment else ["import os"]
        plain = sorted(self.imports - {"import os"} | {"import torch"})
        if hang_limit is not None:
            # Not dump_traceback_later: it walks the stack of a thread that runs on, and now and then dies of that.
            head = ["import faulthandler", *head]
            plain = [
                *sorted({*plain, "import signal"}),
                "",
                "faulthandler.register(signal.SIGALRM, all_threads=False, chain=True)  # shows the stack, then ends",
                f"signal.alarm({math.ceil(hang_limit)})  # it never ends by itself",
            ]
        lines = [*head, *plain, ""]
        switches = frame.switches(surroundings)
        lines += [*switches, ""] if switches else []
        sources = {}
        for number, code in enumerate(codes):
            # Text of the user's is put in last: blank lines inside its strings are not ours to tidy.
            sources[f"<<carried {number}>>"] = code.source or _import_line(code.imports)
            lines += [f"<<carried {number}>>", ""]
        lines += self.definitions
        seeded = any("rand" in line for line in self.inputs) and not self.case.phase.compiling
        # Where two runs are compared, each reads it anew; what stands outside of them reads it once.
        if self.data and (self.case.check is None or any('data["' in line for line in self.inputs)):
            lines += [f'data = torch.load("{DATA_FILE}", weights_only=True)']
        if seeded:
            lines += ["torch.manual_seed(0)"]
        lines += [*self.inputs, *self.run]
        imports = {"torch", *(m for c in codes for m in c.imports if m not in _standard_library())}
        own = sum(bool(line.strip()) for code in codes if code.is_users for line in code.source.splitlines())
        if any(base_name(n.target) in _NEED_NUMPY for g in self.case.graph.all_graphs() for n in g.nodes if n.is_call):
            imports.add("numpy")
        return Rendering(_put_in(_tidy(lines), sources), form, tuple(sorted(imports)), dict(self.data), own)


def _put_in(text: str, sources: Mapping[str, str]) -> str:
    future = "from __future__ import annotations"
    for mark, source in sources.items():
        if source.lstrip().startswith(future):
            source = source.lstrip()[len(future) :]
            text = text if text.startswith(future) else f"{future}\n\n{text}"
        text = text.replace(mark, source.strip("\n"))
    return text


def _standard_library() -> frozenset[str]:
    import sys

    return frozenset(sys.stdlib_module_names)


def _import_line(modules: tuple[str, ...]) -> str:
    return "\n".join(f"import {m}" for m in modules)


def _tidy(lines: list[str]) -> str:
    """One text, at most one blank line in a row, two before definitions."""
    text: list[str] = []
    for line in "\n".join(lines).split("\n"):
        if not line.strip() and (not text or not text[-1].strip()):
            continue
        text.append(line.rstrip())
    return "\n".join(text).strip() + "\n"
