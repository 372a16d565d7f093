"""Questions to engines: what makes two of them the same, and how one is shown to people.

The recorder and the replayer build the same Question from the same call, so a key is found again wherever the run and
its temporary folders stand.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from replaying.places import Places
from replaying.record import digest
from torchsleuth.case.folder import GRAPH, META
from torchsleuth.case.program.render import DATA_FILE
from torchsleuth.judge.launch import Launch
from torchsleuth.judge.trial import Trial
from torchsleuth.watch.session import OPTIONS, VARIABLE, Options

TRACE = "TORCH_TRACE"
_DEFAULTS = Options()
_VALUES = ("inputs", "constants", "storages")  # of a Case: with the graph, they decide what eager gives


@dataclass(frozen=True)
class Question:
    """One call of an engine.  `places` are those of the run and of this call."""

    asked: str
    identity: Any = field(repr=False)
    places: Places = field(repr=False)
    text: str = field(default="", repr=False)  # the candidate, for people

    @property
    def key(self) -> str:
        return digest(self.identity)


def of_script(
    engine: str, source: str, folder: Path, phase: str, places: Places, data: str, *, cache_runs: int = 1
) -> Question:
    """A script that runs in `folder`; what stands beside it belongs to the question."""
    here = places.also(folder=folder)
    text = here.hide(source)
    beside = {
        one.name: digest(here.hide(one.read_text(encoding="utf-8", errors="replace")))
        for one in sorted(folder.iterdir() if folder.is_dir() else [])
        if one.suffix == ".py" and one.name not in ("repro.py", "script.py")
    }
    identity = [engine, text, phase, cache_runs, beside, data]
    return Question(f"{engine}, {phase}", identity, here, text)


def of_trial(engine: str, trial: Trial, places: Places, data: str) -> Question:
    return of_script(engine, trial.source, trial.folder, trial.phase.value, places, data, cache_runs=trial.cache_runs)


def of_program(
    command: Sequence[str], session: Path, options: Options, extra: Mapping[str, str], places: Places
) -> Question:
    here = places.also(session=session.resolve(), trace=extra.get(TRACE))
    identity = ["program", _words(command, here), _chosen(options), _without_paths(extra, here)]
    return Question(f"the program {' '.join(identity[1])} {identity[2]}", identity, here)


def of_launch(launch: Launch, places: Places) -> Question:
    """A rerun of the program, or a helper of torchsleuth's own."""
    changed = {k: v for k, v in launch.environment.items() if os.environ.get(k) != v and k != "PYTHONPATH"}
    session = changed.pop(VARIABLE, None)
    here = places.also(session=session, trace=changed.get(TRACE), output=launch.output, ending=launch.ending)
    options = _chosen(Options.load(changed.pop(OPTIONS, "")))
    identity = ["launch", _words(launch.command, here), options, _without_paths(changed, here)]
    return Question(f"{' '.join(identity[1])} {options} {identity[3]}", identity, here)


def of_environment(devices: Sequence[str], environment: Mapping[str, str], places: Places) -> str:
    """The name of a judge: its devices, and what its environment has that this process does not."""
    changed = {k: v for k, v in environment.items() if os.environ.get(k) != v and k != "PYTHONPATH"}
    return f"judge on {', '.join(sorted(devices))} with {json.dumps(_without_paths(changed, places), sort_keys=True)}"


def data_beside(folder: Path, written: Mapping[Path, str]) -> str:
    """What is known of the tensors in `folder`."""
    return written.get((folder / DATA_FILE).resolve(), "")


def _words(command: Sequence[str], places: Places) -> list[str]:
    return [_word(word, places) for word in command]


def _word(word: str, places: Places) -> str:
    """Scripts and Cases by their content, since many stand in temporary folders."""
    path = Path(word)
    if path.suffix == ".py" and path.is_file():
        text = places.hide(path.read_text(encoding="utf-8", errors="replace"))
        return f"{path.name}:{digest(text)}"
    if (path / META).is_file() and (path / GRAPH).is_file():
        case = json.loads((path / META).read_text(encoding="utf-8"))
        values = json.dumps([case.get(name) for name in _VALUES])
        graph = (path / GRAPH).read_text(encoding="utf-8")
        return f"Case:{digest([places.hide(graph), places.hide(values)])}"
    return places.hide(word)


def _chosen(options: Options) -> dict[str, Any]:
    """Options that are not at their defaults."""
    return {name: value for name, value in vars(options).items() if value != getattr(_DEFAULTS, name)}


def _without_paths(environment: Mapping[str, str], places: Places) -> dict[str, str]:
    return {name: places.hide(value) for name, value in sorted(environment.items())}
