"""A backend of the user's that refuses one operator."""

import torch


def fussy(module: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> object:
    for node in module.graph.nodes:
        if node.target is torch.tanh:
            raise NotImplementedError("no kernel for tanh")
    return module.forward


@torch.compile(backend=fussy)
def squash(x: torch.Tensor) -> torch.Tensor:
    return torch.tanh(torch.sin(x) * 2).sum() + torch.cos(x)


print(squash(torch.arange(4.0)))
