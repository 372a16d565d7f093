"""A fixture for tests: `def test_model(torchsleuth_check): torchsleuth_check(model, x)`.

pytest loads this file wherever torchsleuth is installed, so it imports nothing but pytest until the fixture is used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture
def torchsleuth_check() -> Callable[..., Any]:
    """`torchsleuth.check`, which fails the test where compiled code is wrong and gives the Verdict where it is not."""
    from torchsleuth.library.checking import check

    def checked(model: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        return check(model, *args, **kwargs).raise_if_wrong()

    return checked
