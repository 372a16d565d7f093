"""A backend of the user's that never comes to its end with a graph that calls tanh."""

import time

import torch


def patient(module: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> object:
    while any(node.target is torch.tanh for node in module.graph.nodes):
        time.sleep(0.1)
    return module.forward


@torch.compile(backend=patient)
def squash(x: torch.Tensor) -> torch.Tensor:
    return torch.tanh(torch.sin(x)) + 1


print(squash(torch.arange(4.0)))
