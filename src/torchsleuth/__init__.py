"""torchsleuth: a debugger for torch.compile."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torchsleuth.library.calling import explain, explain_with
    from torchsleuth.library.checking import check
    from torchsleuth.library.watching import watching

__all__ = ["__version__", "check", "explain", "explain_with", "watching"]
__version__ = "0.1.0"

_HOMES = {
    "check": "torchsleuth.library.checking",
    "explain": "torchsleuth.library.calling",
    "explain_with": "torchsleuth.library.calling",
    "watching": "torchsleuth.library.watching",
}


def __getattr__(name: str) -> Any:
    """Public names are loaded when they are used: the command line must not wait for torch."""
    if name not in _HOMES:
        raise AttributeError(f"module 'torchsleuth' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value  # over the submodule of the same name, which its import has put here
    return value
