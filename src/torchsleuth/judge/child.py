"""What runs inside the process of a trial: the script, with compilation off and then on, and a report of each step.

The step that was reported last tells the warden what a signal, a hang or a full memory hit.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import json
import linecache
import os
import signal
import sys
import time
import traceback
from types import ModuleType
from typing import Any, NoReturn

from torchsleuth import torch_api as compiler
from torchsleuth.case.failure import Failure, Phase, is_comparison, of_assertion, of_exception, wrong_numbers
from torchsleuth.judge import invariants, switchboard
from torchsleuth.judge.order import Order, Stage
from torchsleuth.judge.outcome import of_exit

# Errors of Dynamo's own; these two only carry what a backend or an operator raised.
_NOT_DYNAMOS = {"BackendCompilerFailed", "TorchRuntimeError"}


def serve(order: Order) -> NoReturn:
    """Run the order's stages and end the process.  Never returns into the code that forked it."""
    report = _Report(order.report)
    try:
        _run_stages(order, report)
    except BaseException:  # our own fault, told apart from the script's, which `_run` catches
        report.tell("harness-error", text=traceback.format_exc())
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


class _Report:
    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def tell(self, event: str, **facts: Any) -> None:
        line = json.dumps({"event": event, **facts}).encode() + b"\n"
        while line:
            line = line[os.write(self._file, line) :]


def _run_stages(order: Order, report: _Report) -> None:
    import torch

    compiler.use_caches(order.cache)
    os.chdir(os.path.dirname(order.script))
    sys.path[0] = os.path.dirname(order.script)  # as for `python repro.py`
    sys.argv = [order.script]
    faulthandler.enable()
    switchboard.write_to(order.work, order.script)
    seed = torch.initial_seed()
    torch.manual_seed(seed)  # getting warm may have drawn numbers; a fresh process has drawn none
    for stage in order.stages:
        compiler.switch_compilation(stage is Stage.COMPILED)
        report.tell(f"{stage.value}-began")
        began = time.perf_counter()
        with invariants.checked() if stage is Stage.EAGER else contextlib.nullcontext():
            failure = _run(order)
        seconds = time.perf_counter() - began
        if failure is not None:
            report.tell(f"{stage.value}-failed", seconds=seconds, failure=failure.to_json())
            return
        report.tell(f"{stage.value}-passed", seconds=seconds)
        _as_if_fresh(seed)


def _as_if_fresh(seed: int) -> None:
    """Undo what one run leaves behind for the next in the same process."""
    import torch

    faulthandler.cancel_dump_traceback_later()
    signal.alarm(0)
    compiler.forget_compilation()
    # Operators that the script defined go when its Library objects do; their kernels hold the module, so empty it.
    vars(sys.modules["__main__"]).clear()
    gc.collect()
    torch.manual_seed(seed)


def _run(order: Order) -> Failure | None:
    script, phase = order.script, order.phase
    with open(order.source, encoding="utf-8") as file:
        source = file.read()
    # torch.compile reads the source of what it compiles, and must not find what another trial wrote there since.
    linecache.cache[script] = (len(source), None, source.splitlines(keepends=True), script)
    module = ModuleType("__main__")
    module.__file__ = script
    sys.modules["__main__"] = module
    try:
        exec(compile(source, script, "exec"), module.__dict__)
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        return of_exit(status, phase, traceback.format_exc()) if status else None
    except BaseException as error:
        return failure_of(error, phase)
    return None


def failure_of(error: BaseException, phase: Phase) -> Failure:
    dynamo = type(error).__module__ == "torch._dynamo.exc" and type(error).__name__ not in _NOT_DYNAMOS
    report = getattr(error, "report", None)
    if type(error).__name__ == "Wrong" and report is not None:
        first = report.wrong[0]
        return wrong_numbers(report.how, phase, str(error), f"{first.path} is wrong: {first.text}")
    if isinstance(error, AssertionError) and is_comparison(error):
        # The script's own comparison with eager: the one assertion that a repro makes.
        return of_assertion(error, phase)
    return of_exception(error, phase, dynamo=dynamo)
