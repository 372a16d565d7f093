"""The environment of a judge: the program's own, less what would make its torch behave otherwise.

A judged script must meet the same compiler as the program did, so TORCH*, OMP*, CXX and the like stay.  What goes are
the switches of other debuggers (they write files, change what is compiled, or start a second minifier), the caches
(every trial has private ones), and our own variables (the watcher must not watch a judge).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

_DROPPED_PREFIXES = (
    "TORCHSLEUTH_",
    "TORCHDYNAMO_REPRO_",
    "TORCH_COMPILE_DEBUG",
    "TORCH_LOGS",
    "TORCH_BISECT_",  # compiler_bisector
)
_DROPPED = {
    "TORCH_TRACE",
    "TORCH_COMPILE_DISABLE",
    "TORCH_COMPILE_OVERRIDE_BACKENDS",
    "TORCHINDUCTOR_CACHE_DIR",
    "TRITON_CACHE_DIR",
    "PYTHONINSPECT",  # would leave the interpreter waiting at a prompt
}
_SET = {"TORCHDYNAMO_VERBOSE": "1"}
# A pool of compile workers costs seconds to start, and a judge compiles one small graph.
_POOL = "TORCHINDUCTOR_COMPILE_THREADS"
_OWN_POOL = "TORCHSLEUTH_OWN_POOL"  # the pool that the program had, all the same: a fork does not take it along


def judge_environment(program_env: Mapping[str, str], extra: Mapping[str, str] | None = None) -> dict[str, str]:
    kept = {
        name: value
        for name, value in program_env.items()
        if name not in _DROPPED and not name.startswith(_DROPPED_PREFIXES)
    }
    pool = {_OWN_POOL: "1"} if _OWN_POOL in program_env else {_POOL: "1"}
    return {**kept, **_SET, **pool, **(extra or {})}


def with_own_pool(environment: Mapping[str, str], program_env: Mapping[str, str]) -> dict[str, str]:
    """A judge's environment in which graphs compile in as many processes as the program's did."""
    rest = {name: value for name, value in environment.items() if name != _POOL}
    own = {_POOL: program_env[_POOL]} if _POOL in program_env else {}
    return {**rest, **own, _OWN_POOL: "1"}


def home() -> Path:
    """The folder that torchsleuth is imported from."""
    return Path(__file__).resolve().parents[2]


def with_torchsleuth(environment: Mapping[str, str], path: Sequence[str] = ()) -> dict[str, str]:
    """`environment` in which `path` comes first on sys.path and torchsleuth can be imported, last."""
    old = [entry for entry in environment.get("PYTHONPATH", "").split(os.pathsep) if entry]
    # An installed torchsleuth is found by the program's Python itself; naming our site-packages would bring our torch.
    ours = [] if home().name in ("site-packages", "dist-packages") else [str(home())]
    return {**environment, "PYTHONPATH": os.pathsep.join([*path, *old, *ours])}


def without_torchsleuth(environment: Mapping[str, str]) -> dict[str, str]:
    """`environment` without the entries of PYTHONPATH that lead to torchsleuth."""
    old = [entry for entry in environment.get("PYTHONPATH", "").split(os.pathsep) if entry]
    kept = [entry for entry in old if not (Path(entry) / "torchsleuth").is_dir()]
    rest = {name: value for name, value in environment.items() if name != "PYTHONPATH"}
    return {**rest, "PYTHONPATH": os.pathsep.join(kept)} if kept else rest
