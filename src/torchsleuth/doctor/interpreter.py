"""Another Python: where it is, whether it starts, which torch it has.  Asked in a process of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass

from torchsleuth.judge.environment import judge_environment, without_torchsleuth

_PATIENCE = 180.0  # a cold disk and a busy machine make `import torch` slow
# Any Python must be able to run this, however old.
_VERSION = "import sys; print('.'.join(map(str, sys.version_info[:3])))"
_TORCH = """
import json
try:
    import torch
    said = {"torch": torch.__version__}
except ImportError as error:
    missing = str(error).strip("'\\"").endswith("'torch") or str(error) == "No module named torch"
    said = {"error": "torch is not installed" if missing else "torch cannot be imported: %s" % error}
except BaseException as error:
    said = {"error": "torch cannot be imported: %s: %s" % (type(error).__name__, error)}
print("\\n" + json.dumps(said))
"""


@dataclass(frozen=True)
class Interpreter:
    path: str
    version: str = ""
    torch: str = ""
    error: str = ""  # why nothing can be run under it

    @property
    def numbers(self) -> tuple[int, ...]:
        return tuple(int(part) for part in self.version.split(".")) if self.version else ()


@dataclass(frozen=True)
class Answer:
    """What a short-lived process printed, or why there is nothing."""

    text: str = ""
    trouble: str = ""


def find(word: str, environment: Mapping[str, str]) -> Interpreter:
    """The interpreter that `word` names, a path or a command; a link stays one, since virtual environments need it."""
    found = shutil.which(os.path.expanduser(word))
    if found is None:
        what = "it cannot be executed" if os.path.exists(word) else "there is no such program"
        return Interpreter(word, error=f"cannot be started: {what}")
    path = os.path.abspath(found)
    answer = ask([path, "-c", _VERSION], environment)
    version = answer.text.strip()
    if answer.trouble or not version.replace(".", "").isdigit():
        return Interpreter(path, error=f"cannot be started: {answer.trouble or 'it is not a Python'}")
    return Interpreter(path, version)


def with_torch(found: Interpreter, environment: Mapping[str, str]) -> Interpreter:
    """The same, asked for its torch, without torchsleuth in the way."""
    if found.error:
        return found
    plain = without_torchsleuth(judge_environment(environment, {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}))
    answer = ask([found.path, "-c", _TORCH], plain)
    said = read_last_line(answer)
    error = str(said.get("error", answer.trouble))
    return Interpreter(found.path, found.version, str(said.get("torch", "")), error)


def ask(command: list[str], environment: Mapping[str, str], patience: float = _PATIENCE) -> Answer:
    try:
        done = subprocess.run(
            command, env=dict(environment), stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            timeout=patience, check=False,
        )  # fmt: skip
    except OSError as error:
        return Answer(trouble=error.strerror or str(error))
    except subprocess.TimeoutExpired:
        return Answer(trouble=f"it did not answer within {patience:.0f} s")
    if done.returncode:
        last = next((line for line in reversed(done.stderr.splitlines()) if line.strip()), "")
        return Answer(done.stdout, f"it ended with status {done.returncode}" + (f" ({last.strip()})" if last else ""))
    return Answer(done.stdout)


def read_last_line(answer: Answer) -> dict[str, object]:
    """The JSON object in the last line; importing torch may have printed something before it."""
    try:
        said = json.loads(answer.text.splitlines()[-1])
    except (IndexError, ValueError):
        return {}
    return said if isinstance(said, dict) else {}
