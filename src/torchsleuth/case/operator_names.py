"""Targets that a Case holds for `x.data = y`, as Dynamo writes it: both on x, the second on what the first gives."""

from __future__ import annotations

SETS_DATA, LOWERS_VERSION = "torch.Tensor.set_", "torchsleuth.torch_api.names.lower_version"
