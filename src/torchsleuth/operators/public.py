"""ATen operators under their public names: torch.relu for torch.ops.aten.relu.default."""

from __future__ import annotations

from dataclasses import dataclass

from torchsleuth.operators.names import OperatorName

_METHODS = frozenset("view expand repeat item clone contiguous new_zeros new_ones new_full new_empty".split())
_RENAMED_METHODS = {"_to_copy": "to", "convert_element_type": "to", "_unsafe_view": "view", "reshape": "reshape"}
_PRIMS = {"rev": "torch.flip"}
_FUNCTIONAL = frozenset(
    "gelu silu elu leaky_relu hardtanh hardswish hardsigmoid mish softplus glu embedding avg_pool2d pad".split()
)
# Public functions that take fewer arguments: the ATen operator has more, which come last.
_FEWER_ARGUMENTS = {"_softmax": ("torch.softmax", 2), "_log_softmax": ("torch.log_softmax", 2)}


@dataclass(frozen=True)
class PublicName:
    """A public function, or a method of tensors."""

    name: str
    is_method: bool = False
    most_arguments: int | None = None  # positional arguments that it takes; None: as many as the operator


def public_name(operator: OperatorName) -> PublicName | None:
    """The public spelling of an operator of aten or prims, if one is likely to mean the same; None otherwise."""
    name = operator.name
    if operator.namespace not in ("aten", "prims"):
        return None
    if name in _RENAMED_METHODS or name in _METHODS or (name.endswith("_") and not name.startswith("_")):
        return PublicName(_RENAMED_METHODS.get(name, name), is_method=True)
    if operator.namespace == "prims":
        return PublicName(_PRIMS[name]) if name in _PRIMS else None
    if name in _FEWER_ARGUMENTS:
        public, most = _FEWER_ARGUMENTS[name]
        return PublicName(public, most_arguments=most)
    if name.startswith("_"):
        return None
    return PublicName(f"torch.nn.functional.{name}" if name in _FUNCTIONAL else f"torch.{name}")
