"""What an error advises to set."""

from __future__ import annotations

import pytest

from torchsleuth.locate.advised import settings


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("or set torch._functorch.config.donated_buffer=False to", "torch._functorch.config.donated_buffer", False),
        ("`torch._dynamo.config.trace_numpy = True`.", "torch._dynamo.config.trace_numpy", True),
        ("torch._inductor.config.triton.cudagraphs = False", "torch._inductor.config.triton.cudagraphs", False),
        ("torch.fx.experimental._config.use_duck_shape = False", "torch.fx.experimental._config.use_duck_shape", False),
        ("torch._dynamo.config.cache_size_limit = 64", "torch._dynamo.config.cache_size_limit", 64),
    ],
)
def test_it_is_read_with_its_value(text: str, name: str, value: bool | int) -> None:
    assert settings(text) == {name: value}
    assert type(settings(text)[name]) is type(value)


@pytest.mark.parametrize(
    "text",
    ["torch._dynamo.config.suppress_errors = True", "os.config.x = 1", "torch._dynamo.config.x = y", "config.a = True"],
)
def test_what_only_hides_a_failure_or_is_none_of_torchs_is_not(text: str) -> None:
    assert settings(text) == {}
