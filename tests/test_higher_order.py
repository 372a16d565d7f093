"""Programs with higher-order operators: their graphs become scripts that torch.compile takes."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import pytest

from command_line import RunCli

pytestmark = pytest.mark.slow

_HIGHER_ORDER = {
    "scan": """
        from torch._higher_order_ops.scan import scan
        def f(xs, w):
            return scan(lambda c, x: (torch.tanh(c * w + x), c + x), torch.zeros(3), xs, dim=0)[1].relu()
        inputs = torch.randn(6, 3), torch.randn(3)
        """,
    "flex_attention": """
        from torch.nn.attention.flex_attention import flex_attention
        bias = torch.randn(4)
        def f(q):
            return flex_attention(q, q, q, score_mod=lambda s, batch, h, i, j: s + bias[h]).relu()
        inputs = (torch.randn(1, 4, 16, 16),)
        """,
    "nested_compile_region": """
        @torch.compiler.nested_compile_region
        def block(x, w):
            return torch.sin(x @ w)
        def f(x, w):
            return block(block(x, w), w).relu()
        inputs = torch.randn(4, 4), torch.randn(4, 4)
        """,
    "autograd_function": """
        class Sine(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x.sin()
            @staticmethod
            def backward(ctx, g):
                return g * ctx.saved_tensors[0].cos()
        def f(x):
            return Sine.apply(x).relu()
        inputs = (torch.randn(4, requires_grad=True),)
        """,
}


@pytest.mark.parametrize("name", sorted(_HIGHER_ORDER))
def test_it_compiles_again_from_python(name: str, tmp_path: Path, run_cli: RunCli) -> None:
    source = "import torch\nfrom torchsleuth.backends import faulty\n" + textwrap.dedent(_HIGHER_ORDER[name])
    source += 'torch.compile(f, backend=faulty("relu", "compile-error"))(*inputs)\n'
    (tmp_path / "train.py").write_text(source, encoding="utf-8")
    done = run_cli("run", "--no-minimize", "--out", "out", "train.py")
    assert done.returncode == 1, done.stderr
    [failure] = json.loads((tmp_path / "out" / "result.json").read_text(encoding="utf-8"))["failures"]
    assert failure["repro"]["verified"] is True
    assert failure["repro"]["form"] == "torch.compile"
