"""Random numbers that are drawn in eager's order, whatever the scheduler would like better."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from torchsleuth import torch_api


def two_dropouts(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    late = torch.nn.functional.dropout(x.softmax(-1))
    return late @ torch.nn.functional.dropout(y)  # can be drawn at once: it waits for nothing


@pytest.mark.slow
def test_the_order_of_draws_is_eagers(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch._inductor.fx_passes.post_grad as post_grad
    import torch._inductor.memory as memory

    def breadth_first(nodes: Any, *rest: Any) -> Any:
        kept(nodes, *rest)  # works out what waits for what
        return memory.topological_sort_bfs(nodes)

    kept = memory.reorder_for_peak_memory
    monkeypatch.setattr(memory, "reorder_for_peak_memory", breadth_first)
    # torch 2.13 puts them in order by itself.
    monkeypatch.setattr(post_grad, "_chain_random_ops_for_ordering", lambda graph: None, raising=False)
    x, y = torch.randn(16, 16), torch.randn(16, 16)

    def drawn(function: Any) -> torch.Tensor:
        torch.manual_seed(0)
        found: torch.Tensor = function(x, y)
        return found

    torch.compiler.reset()
    with torch._inductor.config.patch(fallback_random=True, force_disable_caches=True):
        moved = drawn(torch.compile(two_dropouts))
    torch.compiler.reset()
    with torch_api.drawing_like_eager(), torch._inductor.config.patch(force_disable_caches=True):
        kept_order = drawn(torch.compile(two_dropouts))
    torch.testing.assert_close(kept_order, drawn(two_dropouts))
    assert not torch.allclose(moved, drawn(two_dropouts)), "the scheduler of this torch moves nothing: try another way"
