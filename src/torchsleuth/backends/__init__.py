"""Debugging backends, and faulty ones to practise on.

`faulty` plants a fault of a chosen kind at a chosen operator; `registered` gives it a name that `torch.compile` knows.
"""

from __future__ import annotations

from torchsleuth.backends.faulty import Faulty, FaultyCompileError, faulty
from torchsleuth.backends.faulty_source import standalone_source

__all__ = ["Faulty", "FaultyCompileError", "faulty", "standalone_source"]
