"""One folder a compiled graph: the graph at each stage, as torch's trace holds it, written while the trace is read."""

from __future__ import annotations

import re
from pathlib import Path

from torchsleuth.case import files
from torchsleuth.explain.kernels import kernel_lines
from torchsleuth.explain.outside import Kept

_LARGEST = 256 * 2**20  # characters in all; a thousand graphs of a large model need no more

# What an artifact is called in the folder, and what it is.
KINDS = {
    "dynamo_output_graph": ("graph.py", "the graph that Dynamo captured, readable"),
    "fx_graph_runnable": ("runnable.py", "a script that compiles this graph alone; it needs only torch"),
    "aot_joint_graph": ("joint.py", "forward and backward together, after AOTAutograd traced them"),
    "aot_forward_graph": ("forward.py", "the forward graph after AOTAutograd"),
    "aot_inference_graph": ("forward.py", "the forward graph after AOTAutograd"),
    "aot_backward_graph": ("backward.py", "the backward graph after AOTAutograd"),
    "inductor_post_grad_graph": ("transformed.py", "the graph after Inductor's passes"),
    "ir_pre_fusion": ("ir_before_fusion.txt", "Inductor's loops before they are fused"),
    "ir_post_fusion": ("ir_after_fusion.txt", "Inductor's loops after they are fused"),
    "inductor_output_code": ("output_code.py", "the code that Inductor generated"),
    "dynamo_cpp_guards_str": ("guards.txt", "what is checked before each call"),
    "generated_python": ("generated.py", "what runs in place of your function, as Python"),
}
_BYTECODE = re.compile(r"_(ORIGINAL|MODIFIED)_BYTECODE$")


class GraphFolders:
    def __init__(self, out: Path) -> None:
        self._out = out
        self._written = 0
        self._folders: dict[int, Path] = {}
        self.left_out = 0

    def keep(self, compile: Kept, name: str, text: str) -> None:
        file = self._file_of(compile, name)
        if file is None:
            return
        if self._written + len(text) > _LARGEST:
            self.left_out += 1
            return
        self._written += len(text)
        self._write(compile, file, text)
        if file == "output_code.py":
            self._write(compile, "kernels.txt", self._kernels(compile, text))

    def _write(self, compile: Kept, file: str, text: str) -> None:
        files.write_text(self.folder(compile) / file, text)
        if file not in compile.artifacts:
            compile.artifacts.append(file)

    def _kernels(self, compile: Kept, generated: str) -> str:
        graph = self.folder(compile) / "graph.py"
        captured = graph.read_text(encoding="utf-8") if graph.exists() else ""
        return "\n".join(kernel_lines(captured, generated)) + "\n"

    def folder(self, compile: Kept) -> Path:
        known = self._folders.get(id(compile))
        if known is None:
            plain = re.sub(r"\W+", "_", compile.function or "graph")[:40]
            number = compile.id.replace("/", "_").replace("!", "a")
            known = self._out / f"{len(self._folders):04d}-{number}-{plain}"
            self._folders[id(compile)] = known
        return known

    def known(self, compile: Kept) -> Path | None:
        return self._folders.get(id(compile))

    def _file_of(self, compile: Kept, name: str) -> str | None:
        found = _BYTECODE.search(name)
        if found:
            return f"bytecode_{found[1].lower()}.txt"
        if name not in KINDS:
            return None
        file = KINDS[name][0]
        begun_again = name in ("dynamo_output_graph", "dynamo_cpp_guards_str", "generated_python")
        if file not in compile.artifacts or begun_again:
            return file
        stem, _, suffix = file.partition(".")
        return f"{stem}_backward.{suffix}"
