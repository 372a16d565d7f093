"""Graph breaks in plain words: what torch's name for one means, and the change that mends it.

An entry is found by torch's own name for the sort of break.  What is not in the table keeps torch's words and its first
hint.  The advice in the table is applied by tests, and the break is gone.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from torchsleuth.explain.break_text import BreakText


@dataclass(frozen=True)
class Meaning:
    reason: str
    advice: str


_Maker = Callable[[BreakText], Meaning]


def meaning(found: BreakText) -> Meaning:
    for names, make in _TABLE:
        if any(found.kind.startswith(name) for name in names):
            return make(found)
    return Meaning(_short(found.kind), _from_hints(found))


def _short(kind: str) -> str:
    return kind if len(kind) <= 120 else kind[:117] + "..."


def _from_hints(found: BreakText) -> str:
    useful = [h for h in found.hints if not h.startswith(("Please report", "File an issue", "It may be possible"))]
    return useful[0] if useful else "Move this out of the compiled function, or put it into a torch.library.custom_op."


def _builtin(found: BreakText) -> Meaning:
    name = _first(r"builtin operator `(\w+)`", found.explanation) or _first(r"^builtin (\w+)", found.context)
    if name == "print":
        return Meaning(
            "print()",
            "Take the print out of the compiled function, or let it be moved behind the graph, before compiling: "
            "torch._dynamo.config.reorderable_logging_functions.add(print).",
        )
    if name in ("str", "repr", "format"):
        return Meaning(
            f"{name}() of a tensor",
            f"{name}() of a tensor needs its values: make the text outside the compiled function.",
        )
    return Meaning(
        f"{name}()" if name else "an unsupported builtin",
        f"Call {name or 'the builtin'}() outside the compiled function and pass the result in.",
    )


def _item(found: BreakText) -> Meaning:
    return Meaning(
        "Tensor.item()",
        "Keep the value a tensor, which needs no .item(), float() or bool(); or set "
        "torch._dynamo.config.capture_scalar_outputs = True before compiling.",
    )


def _branch(found: BreakText) -> Meaning:
    return Meaning(
        "branch on the value of a tensor",
        "Compute both sides and choose with torch.where(condition, a, b); or use torch.cond; or decide outside the "
        "compiled function.",
    )


def _context_manager(found: BreakText) -> Meaning:
    name = _first(r"enter an? `([^`]+)` context manager", found.explanation)
    return Meaning(
        f"with {name}" if name else "an unsupported context manager",
        "Enter the context manager outside the compiled function, around the call of it.",
    )


def _skipped(found: BreakText) -> Meaning:
    module = _first(r"module: ([^,]+),", found.context) or ""
    name = _first(r"qualname: ([^,]+)", found.context) or "the function"
    plain = {"_warnings": "warnings", "posix": "os", "_thread": "threading", "_io": "io"}.get(module, module)
    called = f"{plain}.{name}" if plain and "unknown" not in plain else name
    if "C extension or builtin" in found.context:
        return Meaning(
            f"{called}(), which is not written in Python",
            f"Call {called}() outside the compiled function; or wrap it in a torch.library.custom_op; or, if it only "
            "makes a constant, decorate a function around it with torch.compiler.assume_constant_result.",
        )
    return Meaning(
        f"{called}(), which Dynamo is told to skip",
        f"Call {called}() outside the compiled function.",
    )


def _disabled(found: BreakText) -> Meaning:
    name = _first(r"<function ([^ >]+)", found.context)
    return Meaning(
        f"{name}() is under torch.compiler.disable" if name else "a function under torch.compiler.disable",
        "Take torch.compiler.disable off the function, or call it outside the compiled function.",
    )


def _explicit(found: BreakText) -> Meaning:
    return Meaning("torch._dynamo.graph_break()", "Remove the call of torch._dynamo.graph_break().")


def _dynamic_output(found: BreakText) -> Meaning:
    operator = found.context.removeprefix("aten.").partition(".")[0] or "an operator"
    return Meaning(
        f"{operator}: the size of its output depends on the data",
        "Set torch._dynamo.config.capture_dynamic_output_shape_ops = True before compiling; or keep the size fixed, "
        "with torch.where or a mask in place of indexing.",
    )


def _data_operator(found: BreakText) -> Meaning:
    operator = found.context.removeprefix("aten.").partition(".")[0] or "an operator"
    return Meaning(
        f"{operator}: its result is a Python value that depends on the data",
        "Keep the result a tensor, for example (a == b).all() in place of torch.equal(a, b), and choose with "
        "torch.where.",
    )


def _logging(found: BreakText) -> Meaning:
    return Meaning(
        "logging",
        "Take the logging call out of the compiled function; or have it left out when compiled: "
        "torch._dynamo.config.ignore_logging_functions.add(logger.warning), with the method that is called.",
    )


def _tolist(found: BreakText) -> Meaning:
    return Meaning(
        "Tensor.tolist() of a tensor that is not of integers",
        "Keep the values in a tensor and index that; or call .tolist() outside the compiled function.",
    )


def _rnn(found: BreakText) -> Meaning:
    return Meaning("an RNN, GRU or LSTM module", "Set torch._dynamo.config.allow_rnn = True before compiling.")


def _backward(found: BreakText) -> Meaning:
    return Meaning(
        "Tensor.backward()",
        "Call .backward() outside the compiled function: its backward graph is compiled all the same.",
    )


def _deepcopy(found: BreakText) -> Meaning:
    return Meaning("copy.deepcopy() of a tensor", "Use .clone() in place of copy.deepcopy() for tensors.")


def _generator(found: BreakText) -> Meaning:
    return Meaning("a generator function", "Compile the function that runs through the generator instead.")


def _exception(found: BreakText) -> Meaning:
    raised = _first(r"raised exception (\w+)", found.context)
    return Meaning(
        f"raises {raised}" if raised else "raises an exception",
        "An exception leaves the compiled function here, which Dynamo leaves to plain Python: check for it before the "
        "call, outside the compiled function.",
    )


def _method(found: BreakText) -> Meaning:
    called = _first(r"call_method (?:\w+\()?([^)\[]*?)\)? (\w+) ", found.context)
    method = _first(r"call_method .*?\)* (\w+) [\[(]", found.context)
    owner = _first(r"UserDefined\w+Variable\((?:<class ')?([\w.]+)", found.context)
    name = f"{owner}.{method}" if owner and method else (called or "a method")
    return Meaning(f"{name}(), which Dynamo cannot trace", f"Call {name}() outside the compiled function.")


_TABLE: tuple[tuple[tuple[str, ...], _Maker], ...] = (
    (("Failed to trace builtin operator",), _builtin),
    (("Unsupported Tensor.item()",), _item),
    (("Data-dependent branching", "Data-dependent assertion"), _branch),
    (("Unsupported context manager",), _context_manager),
    (("Attempted to call function marked as skipped", "Attempted to inline function marked as skipped"), _skipped),
    (("Skip calling `torch.compiler.disable()`", "Skip inlining `torch.compiler.disable()`"), _disabled),
    (("Call to `torch._dynamo.graph_break()`",), _explicit),
    (("Dynamic shape operator",), _dynamic_output),
    (("Data dependent operator",), _data_operator),
    (("logging.Logger method",), _logging),
    (("Tensor.tolist()",), _tolist),
    (("Attempted to wrap RNN",), _rnn),
    (("Unsupported Tensor.backward()",), _backward),
    (("Attempted to copy.deepcopy",), _deepcopy),
    (("Attempt to trace generator",), _generator),
    (("Observed exception",), _exception),
    (("Unsupported method call",), _method),
)


def _first(pattern: str, text: str) -> str | None:
    found = re.search(pattern, text)
    return found[1] if found else None
