"""The runs that are recorded, and how one is made with given engines."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from replaying import golden
from replaying.places import Places
from torchsleuth.commands import checked, pipeline, scripts
from torchsleuth.commands.explaining import explain_command
from torchsleuth.commands.run import Settings
from torchsleuth.judge.engines import Engines

REPOSITORY = Path(__file__).resolve().parents[2]
FOLDER = REPOSITORY / "tests" / "replays"
_PROGRAM = "program.py"
_CACHES = "TORCHINDUCTOR_CACHE_DIR"


@dataclass(frozen=True)
class Scenario:
    """One command line.  Its program is `program.py` in the folder of the record, or `file` of the repository."""

    name: str
    what: str  # in a few words
    verb: str = "run"  # run, minimize, explain
    check: str = ""  # for minimize
    file: str = ""
    budget: float = 900.0  # seconds; a recording that does not end by itself within them is refused
    hang_after: float = 0.0

    @property
    def folder(self) -> Path:
        return FOLDER / self.name

    @property
    def program(self) -> Path:
        return REPOSITORY / self.file if self.file else self.folder / _PROGRAM


SCENARIOS = (
    Scenario("relu", "the example: a planted compile-error in a small transformer", file="examples/relu.py"),
    Scenario("compile_error", "Inductor does not compile the cumulative sum of a constant"),
    Scenario("runtime_error", "the code that Inductor generates for torch.cond fails"),
    Scenario("aot_error", "AOTAutograd fails ahead of time"),
    Scenario("accuracy", "wrong values, seen by an assertion of the program's own"),
    Scenario("segfault", "a kernel reads memory that is not there"),
    Scenario("hang", "a stage of the compiler does not end", hang_after=5.0),
    Scenario("custom_backend", "a backend of the user's refuses an operator"),
    Scenario("minimize_script", "minimize SCRIPT", verb="minimize"),
    Scenario("minimize_check", "minimize SCRIPT --check", verb="minimize", check="! grep -q torch.relu {}"),
)


def named(name: str) -> Scenario:
    return next(one for one in SCENARIOS if one.name == name)


@contextmanager
def prepared(scenario: Scenario, root: Path, places: Places) -> Iterator[None]:
    """The working folder and the caches of a run below `root`, and an environment without torch's own variables."""
    work = root / "work"
    for folder in (work, root / "cache", Path(places.paths["tmp"])):
        folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(scenario.program, work)
    for beside in scenario.folder.glob("*.py") if scenario.folder.is_dir() else ():
        if beside.name not in (_PROGRAM, golden.REPRO):
            shutil.copy(beside, work)
    before, here, temporary = dict(os.environ), Path.cwd(), tempfile.tempdir
    try:
        for variable in [one for one in os.environ if one.startswith("TORCH")]:
            del os.environ[variable]
        os.environ[_CACHES] = str(root / "cache")
        tempfile.tempdir = places.paths["tmp"]
        os.chdir(work)
        yield
    finally:
        os.chdir(here)
        tempfile.tempdir = temporary
        os.environ.clear()
        os.environ.update(before)


def run(scenario: Scenario, engines: Engines, root: Path, places: Places, told: list[str]) -> dict[str, str]:
    """Run the command below `root`; return what is compared.  What it says on the way is added to `told`."""
    out = root / "work" / "out"
    settings = Settings(
        Path("out"), budget=scenario.budget, jobs=1, hang_after=scenario.hang_after, rerun=scenario.verb == "run",
        engines=engines,
    )  # fmt: skip
    program = scenario.program.name
    with prepared(scenario, root, places):
        if scenario.verb == "explain":
            explain_command(
                [program], Path("out"), told.append, minimize=True, budget=scenario.budget, jobs=1, engines=engines
            )
        elif scenario.check:
            checked.minimise(Path(program), scenario.check, settings, told.append, trust=True)
        elif scenario.verb == "minimize":
            scripts.minimise(Path(program), settings, told.append)
        else:
            pipeline.run([program], settings, told.append)
        return golden.of_output(out, places)
