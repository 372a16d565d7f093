"""After a graph break Dynamo compiles a layer's frame by itself, and names modules from there: `k_proj`, not
`model.layers.1.self_attn.k_proj`.  Which part of the whole model that layer is, the calls around it know.
"""

from __future__ import annotations

import torch

from torchsleuth import torch_api
from torchsleuth.watch.guarded import guarded


def module_roots() -> dict[str, str]:
    """Where in the outermost model that is being called each module stands that the compiled frame has as a local."""
    return guarded(_roots)() or {}


def _roots() -> dict[str, str]:
    around = torch_api.calling_modules()
    if not around:
        return {}
    places = {id(module): name for name, module in reversed(list(around[-1].named_modules()))}
    held = {k: v for k, v in torch_api.compiled_locals().items() if isinstance(v, torch.nn.Module)}
    return {name: _written(places[id(module)]) for name, module in held.items() if id(module) in places}


def _written(path: str) -> str:
    """As its owner would write it: torch.compile puts a module of its own around the model."""
    return ".".join(part for part in path.split(".") if part != "_orig_mod")
