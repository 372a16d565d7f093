"""Simplifications of what the search left, one file a kind.

A pass yields Cases that are simpler than the one it is given, the boldest first; each is kept only if it still fails in
the same way, and the pass is asked again until it has nothing left that does.
"""

from torchsleuth.reduce.passes.table import PASSES, Pass

__all__ = ["PASSES", "Pass"]
