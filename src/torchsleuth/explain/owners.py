"""Which user function a compilation, a line or a guard belongs to."""

from __future__ import annotations

from collections.abc import Iterable

from torchsleuth.explain.break_text import Place, is_machinery
from torchsleuth.explain.compiles import Compile
from torchsleuth.explain.other_instances import calls_modules


class Owners:
    """Which user function a compilation belongs to: what goes on after a break belongs to the function it was in."""

    def __init__(self, compiles: Iterable[Compile]) -> None:
        self._whole: dict[tuple[str, str], list[int]] = {}
        self._by_id: dict[tuple[str, str, int], Compile] = {}
        self._called: dict[tuple[str, str, int], Place] = {}  # modules of torch's own: where each was first called
        self._instances: dict[str, set[int]] = {}
        for compile in compiles:
            if calls_modules(compile):
                caller = _caller(compile)
                if compile.instance:
                    self._called.setdefault((compile.process, compile.module_class, compile.instance), caller)
                self._instances.setdefault(compile.module_class, set()).add(compile.instance)
            self._by_id[compile.process, compile.id, compile.again] = compile
            if compile.name and compile.resumed_at is None:
                lines = self._whole.setdefault((compile.file, compile.name), [])
                if compile.line not in lines:
                    lines.append(compile.line)

    def in_user_code(self, place: Place | None) -> Place | None:
        """`place`, whose file a guard may note by its last letters only, if it is in a file that was compiled from."""
        files = {file for file, _ in self._whole}
        for file in files if place is not None and place.file else ():
            if place is not None and file.endswith(place.file) and not is_machinery(file):
                return Place(file, place.line, place.function)
        return place if place is not None and place.file.startswith("/") else None

    def of(self, compile: Compile) -> Place:
        if not compile.name:
            compile = self._sibling(compile)
        if calls_modules(compile):
            return self._module(compile)
        if compile.resumed_at is None:
            return Place(compile.file, compile.line, compile.function)
        return self.around(Place(compile.file, compile.line, compile.function))

    def of_class(self, compile: Compile) -> Place:
        """The same for all modules of one class that share a function."""
        if not compile.name:
            compile = self._sibling(compile)
        return _caller(compile) if calls_modules(compile) else self.of(compile)

    def _module(self, compile: Compile) -> Place:
        """A module of torch's own class, at the user's line that first called it: the frame itself is torch's."""
        key = (compile.process, compile.module_class, compile.instance)
        place = self._called.get(key) or _caller(compile)
        several = len(self._instances.get(compile.module_class, ())) > 1 and compile.instance
        return Place(place.file, place.line, f"{place.function} #{compile.instance}" if several else place.function)

    def around(self, place: Place) -> Place:
        """The function that holds a line: of those of its name and file, the last that begins before it."""
        before = [n for n in self._whole.get((place.file, place.function), ()) if n <= place.line]
        return Place(place.file, max(before, default=place.line), place.function)

    def _sibling(self, compile: Compile) -> Compile:
        """A compilation that the limit forbade says nothing of its frame; the first of the same frame does."""
        frame = compile.id.rpartition("/")[0]
        return self._by_id.get((compile.process, f"{frame}/0", compile.again), compile)

    def guard_place(self, compile: Compile, subject: str) -> Place | None:
        """The line that made the guard, as the guards of what was compiled before note it."""
        frame, _, number = compile.id.rpartition("/")
        name = subject.partition(".")[0]
        for before in range(int(number) - 1, -1, -1):
            entry = self._by_id.get((compile.process, f"{frame}/{before}", compile.again))
            if entry is not None and name in entry.guard_lines:
                return entry.guard_lines[name]
        return None


def _caller(compile: Compile) -> Place:
    """The user's line that called a module, with the name of the module's class for a function."""
    users = [place for place in compile.stack if not is_machinery(place.file)]
    place = users[-1] if users else Place(compile.file, compile.line, "")
    return Place(place.file, place.line, compile.module_class.rpartition(".")[2])
