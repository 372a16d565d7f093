"""A faulty backend as a few lines that need nothing but torch, for a repro to carry.

Only what the one backend needs is written.  Exceptions keep their type, message and module, so that the failure has the
fingerprint of the original.
"""

from __future__ import annotations

import inspect
import textwrap

from torchsleuth.backends import faulty_match
from torchsleuth.backends.faulty import Faulty, FaultyCompileError, compile_message
from torchsleuth.backends.faulty_match import is_dotted, is_pattern
from torchsleuth.backends.faulty_plant import ABSURD_BYTES, FACTOR, run_time_message


def standalone_source(faulty: Faulty) -> str:
    """Python source that defines a function `faulty(gm, inputs)`, a backend that fails as `faulty` does."""
    parts = [_imports(faulty)]
    if faulty.kind.startswith("compile-error"):
        parts.append(_COMPILE_ERROR)
    elif faulty.kind != "accuracy":
        parts.append(_hurt(faulty))
    if faulty.by_other_names:
        parts += [
            _SEARCH_BY_ANY_NAME,
            *(inspect.getsource(function) for function in _SEARCHING),
            _spoil_by_any_name(faulty),
        ]
    else:
        parts += [_names(faulty), _spoil(faulty)]
    parts.append(_backend(faulty))
    return "\n\n\n".join(part.strip("\n") for part in parts if part) + "\n"


def _imports(faulty: Faulty) -> str:
    lines = {"crash": ["import os", "import signal"], "hang": ["import time"]}.get(faulty.kind, [])
    if faulty.by_other_names:
        lines = ["import operator", "import re", *lines, "from collections.abc import Iterator, Sequence"]
    if faulty.by_other_names or any(is_pattern(op) for op in faulty.ops):
        lines = [*lines, "from fnmatch import fnmatchcase"]
    lines = [*lines, "", "import torch"] if lines else ["import torch"]
    if faulty.inner == "aot_eager":
        lines.append("from torch._dynamo.backends.debugging import aot_eager, boxed_nop")
    elif faulty.inner == "inductor":
        lines.append("from torch._inductor.compile_fx import compile_fx, compile_fx_inner")
    return "\n".join(lines)


def _hurt(faulty: Faulty) -> str:
    body = {
        "crash": "os.kill(os.getpid(), signal.SIGSEGV)",
        "hang": "while True:\n    time.sleep(0.05)",
        "out-of-memory": f"return torch.empty({ABSURD_BYTES}, dtype=torch.uint8, device=x.device)",
        "runtime-error": f"raise RuntimeError({run_time_message(faulty.op_text)!r})",
    }[faulty.kind]
    return (
        '@torch.library.custom_op("faulty::hurt", mutates_args=())\n'
        "def hurt(x: torch.Tensor) -> torch.Tensor:\n"
        f"{textwrap.indent(body, '    ')}\n\n\n"
        "hurt.register_fake(lambda x: torch.empty_like(x))"
    )


def _spoil(faulty: Faulty) -> str:
    before, last = (faulty.ops[:-1], faulty.ops[-1:]) if faulty.needs_all else ((), faulty.ops)
    lines = [_SEARCH]
    for op in before:  # one search after the other on the same iterator: in this order
        lines += [f"    if not any({_test(op)} for n in calls):", "        return gm"]
    lines.append(f"    hits = [n for n in calls if {' or '.join(_test(op) for op in last)}]")
    lines.append(f"    if len(hits) > {faulty.nth}:" if faulty.nth else "    if hits:")
    return "\n".join([*lines, textwrap.indent(_act(faulty), "        "), "    return gm"])


def _spoil_by_any_name(faulty: Faulty) -> str:
    lines = [
        "def spoil(gm):",
        f"    hit = find(gm, {faulty.ops!r}, {faulty.nth}, {faulty.needs_all})",
        "    if hit is None:",
        "        return gm",
        textwrap.indent(_act(faulty, "hit"), "    "),
    ]
    return "\n".join([*lines, "    return gm"] if not faulty.kind.startswith("compile-error") else lines)


def _test(op: str) -> str:
    """An expression that says whether the node `n` is a call of `op`, by the rules of `faulty_match`."""
    if not is_dotted(op):
        return f"fnmatchcase(bare(n), {op!r})" if is_pattern(op) else f"bare(n) == {op!r}"
    op = op.replace("::", ".")
    return f"any(fnmatchcase(f, {op!r}) for f in full(n))" if is_pattern(op) else f"{op!r} in full(n)"


def _names(faulty: Faulty) -> str:
    needed = [_FULL] if any(is_dotted(op) for op in faulty.ops) else []
    if not all(is_dotted(op) for op in faulty.ops):
        needed.append(_BARE)
    return "\n\n\n".join(needed)


def _act(faulty: Faulty, hit: str = "") -> str:
    if faulty.kind.startswith("compile-error"):
        return f"raise FaultyCompileError({compile_message(faulty.op_text)!r})"
    value = "val" if faulty.inner != "eager" else "example_value"
    lines = [
        f"hit = {hit or f'hits[{faulty.nth}]'}",
        f'node = next(n for n in (hit, *hit.users) if isinstance(n.meta.get("{value}"), torch.Tensor))',
    ]
    call = "torch.ops.faulty.hurt.default, (node,)"
    if faulty.kind == "accuracy":
        lines.append(f'dtype = node.meta["{value}"].dtype')
        lines.append(f"wrong = torch.ops.aten.mul.Tensor, (node, {FACTOR})")
        lines.append("if not (dtype.is_floating_point or dtype.is_complex):")
        lines.append("    wrong = torch.ops.aten.bitwise_xor.Scalar, (node, True)")
        call = "*wrong"
    return "\n".join([*lines, _PLANT.format(call=call)])


def _backend(faulty: Faulty) -> str:
    lines = ["def faulty(gm, inputs):"]
    if faulty.kind == "compile-error-non-leaf":
        healthy = {"eager": "gm", "aot_eager": "aot_eager(gm, inputs)", "inductor": "compile_fx(gm, inputs)"}
        lines.append('    if all(getattr(x, "is_leaf", True) for x in inputs):')
        lines.append(f"        return {healthy[faulty.inner]}")
    if faulty.inner == "eager":
        lines.append("    return spoil(gm)")
    elif faulty.inner == "aot_eager":
        role = "fw_compiler" if faulty.where == "forward" else "bw_compiler"
        lines.append(f"    return aot_eager(gm, inputs, {role}=lambda g, x: boxed_nop(spoil(g), x))")
    else:
        unless = "" if faulty.where == "backward" else "not "
        lines.append("    def inner(g, x, **kw):")
        lines.append(f'        return compile_fx_inner(spoil(g) if {unless}kw.get("is_backward") else g, x, **kw)')
        lines += ["", '    return compile_fx(gm, inputs, inner, {"force_disable_caches": True})']
    return "\n".join(lines)


# What finds an operator that stands in the graph under another name: carried as it is, for it needs torch alone.
_SEARCHING = (
    faulty_match.find,
    faulty_match.places_of,
    faulty_match.matches,
    faulty_match.is_dotted,
    faulty_match.bare_name,
    faulty_match.full_name,
    faulty_match.without_namespace,
    faulty_match.decomposed,
    faulty_match.sources,
    faulty_match.calls,
)
_SEARCH_BY_ANY_NAME = f"""\
DISPATCHED = {faulty_match.DISPATCHED!r}
NAMESPACES_OF_TORCH = {faulty_match.NAMESPACES_OF_TORCH!r}"""

_COMPILE_ERROR = f"""\
class {FaultyCompileError.__name__}(RuntimeError):
    __module__ = "{FaultyCompileError.__module__}"  # where torchsleuth has it"""

_BARE = """\
def bare(node):  # "relu" for torch.relu, F.relu, Tensor.relu and aten.relu.default
    return str(getattr(node.target, "__name__", node.target)).split(".")[0].lstrip("_")"""

_FULL = """\
def full(node):  # "aten.relu.default" and "aten.relu", "torch.relu", "Tensor.relu"
    t = node.target
    name = f"Tensor.{t}" if isinstance(t, str) else f"{t.__module__}.{t.__name__}"
    name = name.removeprefix("torch._ops.").removeprefix("_")
    return [name, name.rpartition(".")[0]] if name.count(".") == 2 else [name]"""

_SEARCH = """\
def spoil(gm):
    graphs = [m.graph for m in gm.modules() if isinstance(m, torch.fx.GraphModule)]
    calls = (n for g in graphs for n in g.nodes if n.op in ("call_function", "call_method"))"""

_PLANT = """\
with node.graph.inserting_after(node):
    fault = node.graph.call_function({call})
fault.meta = dict(node.meta)
node.replace_all_uses_with(fault, delete_user_cb=lambda user: user is not fault)
node.graph.owning_module.recompile()"""
