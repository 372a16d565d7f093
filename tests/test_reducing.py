"""`torchsleuth run` to the end: the smallest program, with real torch."""

from __future__ import annotations

from pathlib import Path

import pytest

from test_run import torchsleuth_run

pytestmark = pytest.mark.slow

PAIR = """
    import torch
    from torchsleuth.backends.faulty import faulty

    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.up, self.down = torch.nn.LayerNorm(8), torch.nn.Linear(8, 16), torch.nn.Linear(16, 8)

        def forward(self, x):
            return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = torch.nn.ModuleList(Block() for _ in range(4))

        def forward(self, x):
            x = torch.tanh(x)
            for block in self.blocks:
                x = block(x)
            return torch.softmax(x, -1)

    model = Model()
    compiled = torch.compile(model, backend=faulty(("{first}", "{second}"), where="{where}"))
    compiled(torch.randn(2, 8, requires_grad=True)).sum().backward()
"""


@pytest.mark.parametrize(
    ("where", "first", "second"),
    [("forward", "tanh", "softmax"), ("backward", "softmax_backward_data", "tanh_backward")],
)
def test_two_operators_far_apart_that_are_both_needed(tmp_path: Path, where: str, first: str, second: str) -> None:
    program = PAIR.format(where=where, first=first, second=second)
    ran = torchsleuth_run(tmp_path, "train.py", options=(), train=program)
    assert ran.failure["repro"]["verified"]
    assert ran.failure["repro"]["ops"] == 2
    assert "torch.tanh(" in ran.repro
    assert "softmax(" in ran.repro
    assert ran.failure["reduction"]["ops_before"] > 20


def test_the_relu_of_a_fused_kernel_is_found_by_its_name(tmp_path: Path) -> None:
    ran = torchsleuth_run(
        tmp_path,
        "train.py",
        options=(),
        train="""
            import torch
            import torch._inductor.config
            torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "compile_error"

            def f(x, w):
                for _ in range(8):
                    x = torch.softmax(torch.sigmoid(x @ w) * 2 + torch.cos(x), -1)
                x = torch.relu(x @ w)
                for _ in range(8):
                    x = torch.tanh(x @ w) + torch.sin(x)
                return x

            torch.compile(f)(torch.randn(8, 8), torch.randn(8, 8))
        """,
    )
    assert ran.failure["repro"]["ops"] == 1
    assert "relu(" in ran.repro
    assert ran.failure["reduction"]["judged_to_smallest"] <= 10
    assert ran.failure["reduction"]["judged"] <= 30


def test_the_body_of_a_higher_order_operator_takes_its_place(tmp_path: Path) -> None:
    ran = torchsleuth_run(
        tmp_path,
        "train.py",
        options=(),
        train="""
            import torch
            import torch.utils.checkpoint
            from torchsleuth.backends.faulty import faulty

            def block(x, w):
                return torch.tanh(torch.sin(x @ w) + 1) * 2

            def f(x, w):
                x = torch.utils.checkpoint.checkpoint(block, torch.relu(x), w, use_reentrant=False)
                return torch.cond(x.sum() > 0, lambda x: x.cos(), lambda x: x.exp() + 1, (x,))

            torch.compile(f, backend=faulty("tanh"))(torch.ones(4, 4, requires_grad=True), torch.ones(4, 4))
        """,
    )
    assert ran.failure["repro"]["ops"] == 1
    assert ran.failure["repro"]["form"] == "torch.compile"
    assert "torch.tanh(" in ran.repro
    assert "cond" not in ran.repro


def test_of_a_graph_that_no_script_can_hold_the_operators_make_one(tmp_path: Path) -> None:
    """Compiled autograd hands Dynamo lists of tensors and functions without a name."""
    ran = torchsleuth_run(
        tmp_path,
        "train.py",
        options=(),
        train="""
            import torch
            import torch._inductor.config
            torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "compile_error"
            torch._dynamo.config.compiled_autograd = True
            weight = torch.randn(4, 4, requires_grad=True)
            weight.register_hook(torch.relu)

            @torch.compile
            def step(x):
                (x @ weight).sin().sum().backward()

            step(torch.randn(2, 4))
        """,
    )
    assert (ran.failure["repro"]["ops"], ran.failure["repro"]["form"]) == (1, "torch.compile")
    assert "torch.relu(" in ran.repro
