"""What explaining needs: torch's structured trace, and Dynamo's bytecode."""

from __future__ import annotations

import copy
import importlib
import logging
import sys
from collections.abc import Callable
from types import CodeType
from typing import Any

from torchsleuth.torch_api import attaching
from torchsleuth.torch_api.hook_table import BYTECODE, TRACE


def on_trace(handler: logging.Handler) -> None:
    """`handler` gets every record of torch's structured trace: `record.metadata`, `record.payload`.

    To be said again now and then: torch._logging.set_logs takes all handlers off.
    """
    attaching.read(TRACE).addHandler(handler)


def no_more_trace(handler: logging.Handler) -> None:
    attaching.read(TRACE).removeHandler(handler)


def trace_formatter() -> logging.Formatter:
    """Makes the lines that a file below TORCH_TRACE holds."""
    made: logging.Formatter = importlib.import_module("torch._logging._internal").TorchLogsFormatter(trace=True)
    return made


def backend_named(backend: Any) -> Callable[..., Any]:
    """The function behind a registered name; what is a function already stays."""
    found: Callable[..., Any] = importlib.import_module("torch._dynamo").lookup_backend(backend)
    return found


def interned_trace_strings() -> dict[str, int]:
    """Strings that the trace names by number, because it wrote them out before."""
    return dict(importlib.import_module("torch._logging.structured").INTERN_TABLE)


def on_bytecode(hook: Callable[[CodeType, CodeType], CodeType | None]) -> Callable[[], None]:
    """`hook(code, generated)` may give other bytecode for what Dynamo generated from `code`; gives what ends that."""
    handle = attaching.read(BYTECODE)(hook)
    return handle.remove  # type: ignore[no-any-return]


def bytecode_is_kept() -> bool:
    """Whether what Dynamo generates is written to disk, to be used by other processes: then it must stay as it is."""
    config = importlib.import_module("torch._dynamo.config")
    return any(getattr(config, name, False) for name in ("caching_precompile", "strict_precompile"))


def counting(code: CodeType, cells: Any, slot: int, line: int | None = None) -> CodeType:
    """`code` that also does `cells[slot] += 1`: once when it is entered, or each time that it comes to `line`.

    The addition is made of plain instructions: a call would be one more frame for Dynamo to look at.
    """
    tools = importlib.import_module("torch._dynamo.bytecode_transformation")

    def added() -> list[Any]:
        make = tools.create_instruction
        where = [(make("LOAD_CONST", argval=cells), make("LOAD_CONST", argval=slot)) for _ in range(2)]
        one = make("LOAD_CONST", argval=1)
        return [*where[0], tools.create_binary_subscr(), one, _addition(make), *where[1], make("STORE_SUBSCR")]

    def change(instructions: list[Any], options: dict[str, Any]) -> None:
        places = _entries(instructions) if line is None else _starts_of(instructions, line)
        for place in reversed(places):
            old = instructions[place]
            new = added()
            kept = copy.copy(old)
            for extra in new:
                extra.starts_line = old.starts_line
            instructions[place : place + 1] = tools.overwrite_instruction(old, [*new, kept])

    # Dynamo remembers instructions by code object, and its own code may hold constants that cannot be hashed.
    stand_ins = {id(c): object() for c in code.co_consts if not _hashable(c)}
    plain = code.replace(co_consts=tuple(stand_ins.get(id(c), c) for c in code.co_consts)) if stand_ins else code
    changed: CodeType = tools.transform_code_object(plain, change)[0]
    back = {id(stand_ins[id(c)]): c for c in code.co_consts if id(c) in stand_ins}
    return changed.replace(co_consts=tuple(back.get(id(c), c) for c in changed.co_consts)) if back else changed


def _hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _addition(make: Callable[..., Any]) -> Any:
    return make("BINARY_OP", arg=0) if sys.version_info >= (3, 11) else make("BINARY_ADD")


def _entries(instructions: list[Any]) -> list[int]:
    """Where the body begins: after what sets up cells and the frame."""
    begin = [i for i, each in enumerate(instructions) if each.opname == "RESUME"]
    return [begin[0] + 1 if begin else 0]


_ENTERS = {"BEFORE_WITH", "BEFORE_ASYNC_WITH", "SETUP_WITH", "SETUP_ASYNC_WITH", "LOAD_SPECIAL"}


def _starts_of(instructions: list[Any], line: int) -> list[int]:
    """Where control comes to `line`: a `while` has its condition twice; leaving a `with` belongs to its line too."""
    runs: list[list[int]] = []
    before = None
    for i in range(_entries(instructions)[0], len(instructions)):
        each = instructions[i]
        here = getattr(each.positions, "lineno", None) if each.positions is not None else each.starts_line or before
        if here == line:
            runs.append([i]) if before != line else runs[-1].append(i)
        before = here
    entering = [run for run in runs if any(instructions[i].opname in _ENTERS for i in run)]
    return [run[0] for run in entering or runs]


def gave_up_silently(result: Any) -> bool:
    """Whether Dynamo's frame callback left a frame to eager because of an error that the trace does not tell."""
    return str(getattr(result, "skip_reason", None) or "").startswith("an error was suppressed")


def run_instead(code: CodeType, compile_id: Any) -> Any:
    """What Dynamo's frame callback returns so that `code` runs in place of the frame's own, without guards."""
    types = importlib.import_module("torch._dynamo.types")
    guards = importlib.import_module("torch._dynamo.guards")
    return types.wrap_guarded_code(types.GuardedCode(code, guards.GuardManagerWrapper(), compile_id))
