"""The parts of an operator's name, and the spellings under which graphs, errors and kernels mention it.

torch.ops.aten.add_.Tensor    in graphs
aten.add_.Tensor              str() of the same operator, in error messages
aten::add_.Tensor             in schemas
torch._ops.aten.add_.Tensor   __module__ and __name__ of the same operator
torch.nn.functional.relu, operator.iadd, torch.Tensor.relu_, relu_      functions and methods
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

# Namespaces of torch.ops whose operators come with torch.
TORCH_NAMESPACES = frozenset(
    """
    aten prims prim higher_order inductor inductor_prims mkldnn mkl onednn quantized quantized_decomposed c10d
    _c10d_functional _c10d_functional_autograd _dtensor _quantized sparse rngprims debugprims symm_mem profiler streams
    _inductor_test xnnpack fsdp mtia bn aoti torch_attn flex_lib mkldnn_prepacked static_runtime cuda export image
    """.split()
)
_PREFIXES = ("torch.ops.", "torch._ops.ops.", "torch._ops.")
_PYTHON_SCOPES = frozenset({"operator", "_operator"})


@dataclass(frozen=True)
class OperatorName:
    """A parsed name: of a registered operator if `namespace` is set, of a Python function or method otherwise."""

    name: str  # as it is registered or defined: "add_", "_softmax", "iadd"
    namespace: str = ""  # of torch.ops: "aten"
    overload: str = ""  # "Tensor"; empty if the name has none
    scope: str = ""  # module or class of a function: "torch.nn.functional"; empty for the plain name of a method

    @property
    def base(self) -> str:
        """The name without underscores around it: `add` for add_, `and` for __and__, `softmax` for _softmax."""
        return self.name.strip("_")

    @property
    def dotted(self) -> str:
        """The spelling of graphs."""
        if not self.namespace:
            return f"{self.scope}.{self.name}" if self.scope else self.name
        words = ("torch", "ops", self.namespace, self.name, self.overload)
        return ".".join(words if self.overload else words[:-1])

    @property
    def qualified(self) -> str:
        """`mylib::foo`, under which torch.library registers it; empty for a function or method."""
        return f"{self.namespace}::{self.name}" if self.namespace else ""

    @property
    def is_python_operator(self) -> bool:
        """Whether it is a function of Python's module `operator`."""
        return self.scope in _PYTHON_SCOPES

    @property
    def is_custom(self) -> bool:
        """Whether it is a registered operator that does not come with torch."""
        return bool(self.namespace) and self.namespace not in TORCH_NAMESPACES


@functools.lru_cache(maxsize=4096)
def parse(target: str) -> OperatorName:
    """The parts of `target`, in any of the spellings above."""
    for prefix in _PREFIXES:
        words = target.removeprefix(prefix).split(".")
        if target.startswith(prefix) and len(words) in (2, 3):
            return _registered(words)
    namespace, separator, rest = target.partition("::")
    if separator:
        return _registered([namespace, *rest.split(".", 1)])
    words = target.split(".")
    # "mylib.foo.default" is how torch prints an overload; no function of Python's is likely to be named `default`.
    if len(words) in (2, 3) and (words[0] in TORCH_NAMESPACES or words[2:] == ["default"]):
        return _registered(words)
    return OperatorName(words[-1], scope=".".join(words[:-1]))


def _registered(words: list[str]) -> OperatorName:
    namespace, name, *overload = words
    return OperatorName(name, namespace, *overload)


def base_name(target: str) -> str:
    """`cummin` for torch.cummin, aten.cummin.default and Tensor.cummin_."""
    return parse(target).base


def aten_name(target: str) -> str:
    """The base name under which ATen may know it; empty for what is registered elsewhere or has no name."""
    found = parse(target)
    return found.base if found.namespace in ("", "aten") and found.name.isidentifier() else ""


def name_of(function: object) -> OperatorName:
    """The name of a function, an operator, or a method (a string), as an FX node holds it."""
    if isinstance(function, str):
        return parse(function)
    module = getattr(function, "__module__", None) or ""
    name = getattr(function, "__name__", None) or str(function)
    return parse(f"{module}.{name}" if module else name)
