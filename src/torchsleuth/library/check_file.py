"""python -m torchsleuth.library.check_file FILE.py[:NAME] REPORT [record|against FOLDER eager|compiled]

The child of `torchsleuth check`, which runs the user's code.

NAME gives the model: a module or function, or a function without arguments that returns one, alone or as a pair with
its inputs.  Inputs that are not given so come from `inputs` or `make_inputs` of the same file: a tuple of arguments, or
a dict of keyword arguments.  Without NAME, `make_model` or `model` is taken.
"""

from __future__ import annotations

import importlib.util
import inspect
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from torchsleuth import torch_api
from torchsleuth.backends.recording import Recorder
from torchsleuth.errors import BadUsage
from torchsleuth.library.checking import check
from torchsleuth.referee import records

_MODELS = ("make_model", "model")
_INPUTS = ("make_inputs", "inputs")


def main(arguments: Sequence[str]) -> int:
    what, report, *recording = arguments
    file, _, name = what.partition(":")
    sys.path.insert(0, str(Path(file).resolve().parent))
    sys.argv = [file]
    try:
        found = names_of(file)
        model, inputs = model_and_inputs(found, name, file)
        args, kwargs = ((), dict(inputs)) if isinstance(inputs, Mapping) else (tuple(inputs), {})
        if recording:
            wrong = _recorded(lambda function: function(model)(*args, **kwargs), *recording)
        else:
            options = found.get("COMPILE_KWARGS")
            verdict = check(model, *args, compile=options if isinstance(options, dict) else None, **kwargs)
            print(verdict)
            wrong = len(verdict.wrong)
            if not wrong and not verdict:  # neither right nor wrong: the first line says why, and what to do
                Path(report).write_text(json.dumps({"status": verdict.status.value}), encoding="utf-8")
                return 2
    except BadUsage as error:
        print(f"torchsleuth: {error}", file=sys.stderr)
        return 2
    Path(report).write_text(json.dumps({"status": "wrong" if wrong else "agrees"}), encoding="utf-8")
    return 1 if wrong else 0


def names_of(file: str) -> dict[str, Any]:
    """What the file defines.  It is a module under its name: Dynamo imports what a function's globals belong to."""
    spec = importlib.util.spec_from_file_location("torchsleuth_check", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return vars(module)


def _recorded(run: Callable[[Callable[[Any], Any]], Any], way: str, folder: str, how: str) -> int:
    """How many operators are apart from what was recorded; none where this is the record."""
    before = records.load(Path(folder)) if way == "against" else []
    recorder = Recorder(compiled=how == "compiled")
    torch.manual_seed(0)
    with torch_api.drawing_like_eager():
        run(lambda model: torch.compile(model, backend=recorder))
    if not recorder.records:
        raise BadUsage("Dynamo captured no operator of this model, so there is nothing to compare.")
    if way == "record":
        records.save(Path(folder), recorder.records, {"torch": torch.__version__, "how": how})
        print(f"recorded {len(recorder.records)} operators, {how}, in {folder}")
        return 0
    found = records.compare(before, recorder.records)
    if not found.partings:
        raise BadUsage(f"No operator of this model stands in {folder}: it is a record of another one.")
    print(found)
    return len(found.apart)


def model_and_inputs(found: Mapping[str, Any], name: str, file: str) -> tuple[Any, Any]:
    """From the names that the file defines."""
    chosen = name or next((n for n in _MODELS if n in found), "")
    if chosen not in found:
        raise BadUsage(
            f"{file} defines no {chosen or 'make_model or model'}. Name the model, or a function that makes it: "
            f"torchsleuth check {file}:NAME."
        )
    model = found[chosen]
    if _makes_something(model) and (chosen.startswith("make") or not _given(found)):
        model = model()
        if isinstance(model, tuple) and len(model) == 2 and callable(model[0]):
            return _checked(model[0], model[1], chosen)
    return _checked(model, _given(found), chosen)


def _given(found: Mapping[str, Any]) -> Any:
    value = next((found[n] for n in _INPUTS if n in found), None)
    return value() if callable(value) else value


def _makes_something(value: Any) -> bool:
    if isinstance(value, torch.nn.Module) or not callable(value):
        return False
    try:
        return not inspect.signature(value).parameters
    except (TypeError, ValueError):
        return False


def _checked(model: Any, inputs: Any, name: str) -> tuple[Any, Any]:
    if not callable(model):
        raise BadUsage(f"{name} is a {type(model).__name__}, which cannot be called. Name a model or a function.")
    if inputs is None:
        raise BadUsage(
            f"There are no inputs for {name}. Define `inputs` beside it, a tuple of arguments or a dict of keyword "
            "arguments, or let the function return the model and its inputs."
        )
    return model, (inputs,) if isinstance(inputs, torch.Tensor) else inputs


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
