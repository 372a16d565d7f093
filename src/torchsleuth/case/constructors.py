"""nn.Modules that a graph calls, as the text of their constructor: torch.nn.Dropout(p=0.5, inplace=False).eval().

Only classes of torch.nn that hold no other module, only literals as arguments; the text is parsed, never evaluated.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Any

from torchsleuth.errors import UnsafeGraph

# Leaf classes whose extra_repr is what their constructor takes.
CLASSES = frozenset(
    "AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveMaxPool1d AdaptiveMaxPool2d AdaptiveMaxPool3d "
    "AlphaDropout AvgPool1d AvgPool2d AvgPool3d BatchNorm1d BatchNorm2d BatchNorm3d CELU ChannelShuffle ConstantPad1d "
    "ConstantPad2d ConstantPad3d Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d CosineSimilarity "
    "Dropout Dropout1d Dropout2d Dropout3d ELU Embedding FeatureAlphaDropout Flatten GELU GLU GRU GRUCell GroupNorm "
    "Hardshrink Hardsigmoid Hardswish Hardtanh Identity InstanceNorm1d InstanceNorm2d InstanceNorm3d LPPool1d LPPool2d "
    "LSTM LSTMCell LayerNorm LeakyReLU Linear LocalResponseNorm LogSigmoid LogSoftmax MaxPool1d MaxPool2d MaxPool3d "
    "Mish PReLU PairwiseDistance PixelShuffle PixelUnshuffle RMSNorm RNN RNNCell RReLU ReLU ReLU6 "
    "ReflectionPad1d ReflectionPad2d ReflectionPad3d ReplicationPad1d ReplicationPad2d ReplicationPad3d "
    "SELU SiLU Sigmoid Softmax Softmax2d Softmin Softplus Softshrink Softsign Tanh Tanhshrink Threshold Unflatten "
    "Unfold Upsample UpsamplingBilinear2d UpsamplingNearest2d ZeroPad1d ZeroPad2d ZeroPad3d Fold Bilinear".split()
)
_WORDS = {"same", "valid", "zeros", "reflect", "replicate", "circular"}  # extra_repr prints some strings bare
_LONGEST = 2000


@dataclass(frozen=True)
class Constructor:
    name: str  # a class of torch.nn
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    training: bool = True


def read(text: str) -> Constructor:
    """The call that `text` is; raises UnsafeGraph for text that is no such call."""
    if len(text) > _LONGEST:
        raise _refused(text)
    try:
        call = ast.parse(text, mode="eval").body
        training = True
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "eval":
            training, plain = False, not call.args and not call.keywords
            call = call.func.value if plain else call
        if not isinstance(call, ast.Call):
            raise _refused(text)
        prefix, _, name = ast.unparse(call.func).rpartition(".")
        if prefix != "torch.nn" or name not in CLASSES:
            raise _refused(text)
        kwargs = {str(k.arg): _literal(k.value) for k in call.keywords if k.arg is not None}
        if len(kwargs) != len(call.keywords):
            raise _refused(text)
        return Constructor(name, tuple(_literal(a) for a in call.args), kwargs, training)
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        raise _refused(text) from None


def _literal(node: ast.expr) -> Any:
    if isinstance(node, ast.Name) and node.id in _WORDS:
        return node.id
    if isinstance(node, ast.Call) and ast.unparse(node) in ("torch.Size([])", "torch.Size(())"):
        return ()
    return ast.literal_eval(node)


def show(constructor: Constructor) -> str:
    arguments = [*map(repr, constructor.args), *(f"{k}={v!r}" for k, v in constructor.kwargs.items())]
    mode = "" if constructor.training else ".eval()"
    return f"torch.nn.{constructor.name}({', '.join(arguments)}){mode}"


def _refused(text: str) -> UnsafeGraph:
    return UnsafeGraph(f"The Case builds a module by {text[:80]!r}, which is no layer of torch.nn. Nothing was run.")
