"""Random numbers as eager draws them, while a program that compares its own results is made smaller.

Compiled code draws in its own way: of a program that has lost its `.eval()`, or what made it draw like eager, any
dropout looks wrong.  So each candidate is judged with a line more; what is written has it only where it may matter.
"""

from __future__ import annotations

import re

from torchsleuth.reduce.source.front import with_lines

_SETTING = "torch._inductor.config.fallback_random = True"
_BINDS_NOTHING = '__import__("torch._inductor.config")._inductor.config.fallback_random = True'
_DRAWS = re.compile(
    r"dropout|rand\w*_like|bernoulli|multinomial|rrelu|\.(normal|uniform|exponential|geometric|cauchy|random)_\(", re.I
)


def judged(text: str) -> str:
    """No name is bound, so that a candidate without its imports is refused as it should be."""
    return with_lines(text, [_BINDS_NOTHING])


def written(text: str) -> str:
    if _SETTING in text or not _DRAWS.search(text):
        return text
    return with_lines(text, ["import torch._inductor.config", _SETTING])
