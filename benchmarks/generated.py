"""What Inductor generates, collected and made comparable: no C++ is compiled, graphs run in eager instead.

Two compilations that give the same kernels give the same text once what only names things is taken out: the numbers of
buffers, the names of kernels and symbols, comments, blanks.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any


@dataclass(frozen=True)
class Generated:
    """The code of one graph."""

    compile_id: str
    backward: bool
    code: str


def collect() -> list[Generated]:
    """From here on, this process's Inductor hands its code over here instead of to a C++ compiler."""
    import torch
    from torch._inductor import config, graph

    from torchsleuth import torch_api

    found: list[Generated] = []

    def instead(self: Any, wrapper_code: Any) -> Any:
        found.append(Generated(torch_api.compile_id(), bool(self.is_backward), wrapper_code.value))
        run = torch.fx.Interpreter(self.orig_gm).run

        def call(inputs: list[Any]) -> Any:
            values = list(inputs)
            inputs.clear()
            with torch.no_grad():
                return run(*values)

        return SimpleNamespace(call=call, __file__="")

    graph.GraphLowering._compile_to_module_lines = instead  # type: ignore[assignment, method-assign]
    graph.log_module_code = lambda path: None
    config.force_disable_caches = True
    return found


def kernels(code: str) -> Counter[str]:
    """The C++ kernels of one graph's code, as often as each occurs."""
    return Counter(_unordered(_plain(kernel)) for kernel in _kernels(code))


def _unordered(kernel: str) -> str:
    """With symbolic sizes nameless and each statement's words sorted: sizes come in the order of their symbols' names,
    which Dynamo makes from the names of the program's variables.
    """
    nameless = re.sub(r"\bks\d+\b", "ks", kernel)
    return ";".join(" ".join(sorted(re.findall(r"\w+|\S", part))) for part in nameless.split(";"))


def _kernels(code: str) -> Iterator[str]:
    yield from re.findall(r"async_compile\.cpp_pybinding\((.*?''')\)", code, re.DOTALL)


def calls(code: str) -> Counter[str]:
    """Calls of ready-made kernels (matrix products, convolutions, random seeds), as often as each occurs."""
    names = re.findall(r"(extern_kernels\.\w+|torch\.ops\.[\w.]+|aten\.[\w.]+)\(", code)
    return Counter(names)


def whole(code: str) -> str:
    """The code of one graph, kernels and wrapper, without what only names things; the order of its inputs apart."""
    kernels = " ".join(sorted(_plain(kernel) for kernel in _kernels(code)))
    _, _, body = code.partition("args.clear()\n")
    body, _, results = body.partition("\nrunner = ")[0].rpartition("\n        return ")
    # Names to be freed stand in the order of a set.
    body = re.sub(r"(?:\n\s*del \w+)+", lambda m: "\n" + " ".join(sorted(m.group(0).split())), _renamed(body))
    return f"{kernels} {_plain(body)} returns {results.count(',')}"


def _plain(text: str) -> str:
    return re.sub(r"\s+", " ", _renamed(text))


def _renamed(text: str) -> str:
    text = re.sub(r"//[^\n]*|#(?!include|pragma|define|if|endif|else)[^\n]*", "", text)
    text = re.sub(r'\n\s*r?"""\n.*?\n\s*"""(?=\n)', "\n", text, flags=re.DOTALL)
    text = re.sub(r"\b(?:cpp|graph)_\w*fused\w*", "KERNEL", text)
    order: dict[str, str] = {}

    def rename(match: re.Match[str]) -> str:
        word = match.group(0)
        kind = "s" if re.fullmatch(r"[su]\d+", word) else "v"
        return order.setdefault(word, f"{kind}{sum(v[0] == kind for v in order.values())}")

    return re.sub(r"\b(?:buf\d+|arg\d+_\d+|primals_\d+|tangents_\d+|[su]\d+)\b", rename, text)
