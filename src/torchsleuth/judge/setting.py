"""What a judgement depends on beside its script: the torch, the machine and the environment that it met."""

from __future__ import annotations

import functools
import hashlib
import json
import platform
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from torchsleuth import __version__

AskVersions = Callable[[str, Mapping[str, str]], str]
_PREFIXES = (
    "ATEN_", "CC", "CPP", "CUDA_", "CXX", "GOMP_", "KMP_", "LD_", "MKL_", "OMP_", "PYTORCH_", "TORCH", "TRITON_",
)  # fmt: skip
_ASK = "import importlib.metadata as m, sys; print(m.version('torch'), sys.version)"


def setting(python: str, environment: Mapping[str, str], versions: AskVersions | None = None) -> str:
    """A digest: judgements made in one setting are believed in the same setting only.

    `versions` asks the interpreter; None: `ask_versions`.
    """
    parts = {
        "torchsleuth": __version__,
        "torch": (versions or ask_versions)(python, environment),
        "machine": [platform.machine(), _processor(Path("/proc/cpuinfo"))],
        "environment": sorted((k, v) for k, v in environment.items() if k.startswith(_PREFIXES)),
    }
    return hashlib.blake2b(json.dumps(parts).encode(), digest_size=8).hexdigest()


def versions_of(python: str, environment: Mapping[str, str], versions: AskVersions | None = None) -> dict[str, str]:
    """Name the versions of torch and Python that an interpreter has; empty where it does not answer."""
    torch, _, rest = (versions or ask_versions)(python, environment).partition(" ")
    return {"torch": torch, "python": rest.partition(" ")[0]} if rest else {}


@functools.lru_cache(maxsize=8)
def _asked(python: str, environment: tuple[tuple[str, str], ...]) -> str:
    try:
        done = subprocess.run(
            [python, "-c", _ASK], env=dict(environment), capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return done.stdout.strip() or "unknown"


def ask_versions(python: str, environment: Mapping[str, str]) -> str:
    """Ask an interpreter for the version of its torch and its own, in one line; "unknown" where it does not answer."""
    return _asked(python, tuple(sorted(environment.items())))


def _processor(table: Path) -> str:
    """Model and flags: what Inductor vectorises for."""
    try:
        lines = table.read_text().splitlines()
    except OSError:
        return ""
    return "\n".join(dict.fromkeys(line for line in lines if line.startswith(("model name", "flags", "Features"))))
