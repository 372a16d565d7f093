"""Higher-order operators and oddities, one small function each: its graphs come back node for node.

What cannot be kept is named in the graph, never left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from capture_helpers import round_trip, take
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.map import map as torch_map
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

from torchsleuth.case import from_torch
from torchsleuth.case.ir import Name
from torchsleuth.case.model import Level

pytestmark = pytest.mark.slow

x = torch.randn(4, 4)
w = torch.randn(4, 4, requires_grad=True)


def test_cond() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos() * 2, (x,))

    taken = take(f, w)
    assert "torch.ops.higher_order.cond" in taken.targets()
    [graph] = taken.level(Level.DYNAMO)
    assert len(graph.bodies) == 2


def test_cond_inside_cond() -> None:
    def inner(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.max() > 1, lambda x: x.sin(), lambda x: x.cos(), (x,))

    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, inner, lambda x: x + 1, (x,))

    [graph] = take(f, x).level(Level.DYNAMO)
    assert len(list(graph.all_graphs())) == 5


def test_while_loop() -> None:
    def f(n: torch.Tensor, x: torch.Tensor) -> Any:
        return while_loop(lambda n, x: n > 0, lambda n, x: (n - 1, x * 2), (n, x))

    assert "torch.ops.higher_order.while_loop" in take(f, torch.tensor(3), x).targets()


def test_scan() -> None:
    def f(init: torch.Tensor, xs: torch.Tensor) -> Any:
        return scan(lambda c, v: (c + v, c * v), init, xs, dim=0)

    assert "torch.ops.higher_order.scan" in take(f, x[0], x).targets()


def test_map() -> None:
    def f(xs: torch.Tensor, y: torch.Tensor) -> Any:
        return torch_map(lambda a, b: a.sin() + b, xs, y)

    assert "torch.ops.higher_order.map_impl" in take(f, x, torch.randn(4)).targets()


def test_associative_scan() -> None:
    def f(xs: torch.Tensor) -> Any:
        return associative_scan(lambda a, b: a + b, xs, 0, combine_mode="generic")

    take(f, x)


def test_flex_attention() -> None:
    q = torch.randn(1, 2, 128, 16)
    mask = create_block_mask(lambda b, h, i, j: i >= j, 1, 2, 128, 128, device="cpu")

    def f(q: torch.Tensor) -> Any:
        return flex_attention(q, q, q, score_mod=lambda s, b, h, i, j: s + (i - j), block_mask=mask)

    assert "torch.ops.higher_order.flex_attention" in take(f, q, aot=False).targets()


def test_checkpoint_keeps_its_tags() -> None:
    def f(x: torch.Tensor) -> Any:
        return checkpoint(lambda x: (x @ x).sin().cos(), x, use_reentrant=False)

    taken = take(f, w)
    assert "torch.ops.higher_order.tag_activation_checkpoint" in taken.targets()
    tags = [n.tags for graph in taken.level(Level.ATEN) for n in graph.nodes]
    assert {t["recompute"] for t in tags if "recompute" in t} >= {CheckpointPolicy.PREFER_RECOMPUTE.value}
    assert any("ac_graph_id" in t for t in tags)


def test_selective_checkpoint_names_its_policy() -> None:
    def policy(ctx: Any, op: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
        return CheckpointPolicy.MUST_SAVE if op is torch.ops.aten.mm.default else CheckpointPolicy.PREFER_RECOMPUTE

    def contexts() -> Any:
        return create_selective_checkpoint_contexts(policy)

    def f(x: torch.Tensor) -> Any:
        return checkpoint(lambda x: (x @ x).sin().cos(), x, use_reentrant=False, context_fn=contexts)

    [what] = take(f, w).unknown
    assert "_checkpoint_context_fn: function " in what
    assert what.endswith(".contexts")


def test_autograd_function() -> None:
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            (x,) = ctx.saved_tensors
            return grads[0] * 2 + x

    take(lambda x: Double.apply(x).sin(), w)


def test_invoke_subgraph() -> None:
    @torch.compiler.nested_compile_region
    def block(x: torch.Tensor) -> torch.Tensor:
        return x.sin() + 1

    taken = take(lambda x: block(block(x)), x)
    assert "torch.ops.higher_order.invoke_subgraph" in taken.targets()


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (lambda x: torch.vmap(lambda r: r.sin().sum())(x), (x,)),
        (lambda x: torch.vmap(lambda r, s: r @ s, in_dims=(0, None), out_dims=0)(x, x), (x,)),
        (lambda x: torch.vmap(torch.vmap(torch.sin))(x), (x,)),
        (lambda x: torch.func.grad(lambda v: v.sin().sum())(x), (x,)),
        (lambda x: torch.func.grad_and_value(lambda v: (v * v).sum())(x), (x,)),
        (lambda x: torch.func.jacfwd(torch.sin)(x), (x[0],)),
        (lambda x: torch.func.jacrev(torch.sin)(x), (x[0],)),
        (lambda x: torch.func.jvp(torch.sin, (x,), (x,)), (x,)),
        (lambda x: torch.func.vjp(torch.sin, x)[1](x), (x,)),
        (lambda x: torch.func.hessian(lambda v: v.sin().sum())(x), (x[0],)),
        (lambda x: torch.vmap(lambda r: r + torch.randn_like(r), randomness="different")(x), (x,)),
    ],
    ids="vmap vmap-dims vmap-vmap grad grad_and_value jacfwd jacrev jvp vjp hessian vmap-random".split(),
)
def test_function_transforms(function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    assert take(function, *args).unknown == set()


def test_autocast_inside_autocast() -> None:
    def f(x: torch.Tensor) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = x @ x
            with torch.autocast("cpu", enabled=False):
                z = y.float() @ x
        return y, z

    taken = take(f, w)
    assert "torch.amp.autocast_mode._enter_autocast" in taken.targets()
    assert taken.unknown == set()


def test_grad_modes() -> None:
    def f(x: torch.Tensor) -> Any:
        with torch.no_grad():
            y = x.sin()
            with torch.enable_grad():
                y = y + x
        with torch.set_grad_enabled(False):
            z = x.cos()
        return y, z

    assert "torch._C._set_grad_enabled" in take(f, w).targets()


def test_inference_mode() -> None:
    def f(x: torch.Tensor) -> Any:
        return (x @ x).relu()

    with torch.inference_mode():
        take(f, torch.randn(4, 4))


def test_saved_tensors_hooks_disabled() -> None:
    def f(x: torch.Tensor) -> Any:
        with torch.autograd.graph.disable_saved_tensors_hooks("not here"):
            return x.sin() * x

    assert "torch._C._autograd._saved_tensors_hooks_disable" in take(f, x).targets()


def test_in_place_views_and_setitem() -> None:
    def f(x: torch.Tensor, i: torch.Tensor) -> Any:
        y = x.clone()
        y[1:3, ::2] = 0.0
        y[..., None][0] = 5
        y[i] += 1
        y.t().view(-1)[::3].mul_(2) if y.t().is_contiguous() else y.t().add_(1)
        y.unsqueeze_(0).relu_()
        x.add_(1)
        y[y > 3] = -1
        del y
        return x.as_strided((2, 2), (1, 2), 1), x.view(torch.int32)

    taken = take(f, torch.randn(4, 4), torch.tensor([0, 2]))
    assert {"operator.setitem", "_operator.setitem"} & taken.targets()


def test_custom_operator() -> None:
    @torch.library.custom_op("sleuth_zoo::double", mutates_args=())
    def double(x: torch.Tensor, names: list[int], scale: float = 2.0) -> torch.Tensor:
        return x * scale

    @double.register_fake
    def _(x: torch.Tensor, names: list[int], scale: float = 2.0) -> torch.Tensor:
        return torch.empty_like(x)

    taken = take(lambda x: double(x, [1, 2], scale=3.0).sin(), x)
    assert {"torch.ops.sleuth_zoo.double.default", "torch.ops.sleuth_zoo.double"} & taken.targets()


def test_out_arguments() -> None:
    def f(x: torch.Tensor, out: torch.Tensor) -> Any:
        torch.add(x, x, out=out)
        values, indices = torch.empty(4), torch.empty(4, dtype=torch.int64)
        torch.max(x, 0, out=(values, indices))
        return out + values

    take(f, x, torch.empty(4, 4))


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (lambda x: torch.view_as_complex(x).conj().mul(1j + 2).abs(), (torch.randn(4, 2),)),
        (lambda x: x * complex(0.0, -0.0) + complex("nan"), (torch.randn(3, dtype=torch.complex64),)),
        (lambda x: x.to(torch.float8_e4m3fn).to(torch.float32), (x,)),
        (lambda x: x.to(torch.float8_e5m2).view(torch.uint8), (x,)),
        (lambda x: x.to(torch.bfloat16, memory_format=torch.preserve_format), (x,)),
        (
            lambda x: torch.empty_like(x, dtype=torch.float64, device="cpu", layout=torch.strided).fill_(float("inf")),
            (x,),
        ),
        (lambda x: x.masked_fill(x > 0, float("-inf")).nan_to_num(nan=float("nan"), posinf=-0.0), (x,)),
        (lambda x: x.contiguous(memory_format=torch.channels_last) * 2, (torch.randn(1, 2, 3, 4),)),
        (lambda x: torch.einsum("ij,jk->ik", x, x), (x,)),
        (lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True, dropout_p=0.0), (torch.randn(1, 2, 8, 4),)),
        (lambda x: torch.fft.rfft(x, norm="ortho").abs(), (x,)),
        (lambda x: torch.stft(x.flatten(), 8, return_complex=True).abs(), (x,)),
        (lambda x: F.interpolate(x, scale_factor=2.0, mode="bilinear"), (torch.randn(1, 1, 4, 4),)),
        (lambda x: F.pad(x, (1, 2), mode="constant", value=-0.0), (x,)),
        (lambda x: torch.stack(x.split([1, 3])[0].unbind(0)), (x,)),
        (lambda x: torch.where(x > 0, x, 2**40), (x,)),
        (lambda x: x.sum((0, 1), keepdim=True, dtype=torch.float64), (x,)),
        (lambda x: torch.ops.aten.random_.to(x.clone(), 10), (x,)),
        (lambda x: F.embedding_bag(torch.tensor([[0, 1]]), x, mode="max"), (x,)),
        (lambda x: torch.linalg.svd(x, full_matrices=False), (x,)),
        (lambda x: x.new_zeros(torch.Size([2, 3])) + torch.arange(3), (x,)),
        (lambda x: torch.histc(x, bins=4) + torch.topk(x.flatten(), 4)[0], (x,)),
        (lambda x: torch.utils._pytree.tree_map(torch.sin, {"a": x, "b": [x]})["b"][0], (x,)),
        (lambda x: (F.dropout(x, 0.5), torch.bernoulli(x.sigmoid()), torch.randint(0, 5, (2,))), (x,)),
    ],
    ids=(
        "complex complex-literal fp8 fp8-view cast device-layout inf channels_last einsum sdpa fft stft interpolate "
        "pad split where keepdim random embedding_bag svd size histc pytree random-ops"
    ).split(),
)
def test_oddities(function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    assert take(function, *args).unknown == set()


def test_the_overload_named_from() -> None:
    taken = take(lambda x: torch.ops.aten.random_(x.clone(), 0, 10), x, execute=False)
    assert "torch.ops.aten.random.from" in taken.targets()


def test_a_sparse_value_has_sizes_and_no_strides() -> None:
    value = from_torch.describe(x.relu().to_sparse())
    assert (value.shape, value.stride, value.dtype) == ((4, 4), None, "torch.float32")


@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
def test_recurrent_layers(kind: type[torch.nn.Module]) -> None:
    with torch._dynamo.config.patch(allow_rnn=True):
        layer = kind(4, 4, 2, batch_first=True)
        with torch.no_grad():  # a backward of LSTM fails in AOTAutograd itself
            assert take(layer, torch.randn(2, 3, 4)).unknown == set()


LAYERS = [
    torch.nn.Dropout(0.5).eval(),
    torch.nn.Dropout(0.5),
    torch.nn.Linear(4, 2, bias=False),
    torch.nn.Conv2d(1, 2, 3, padding="same", padding_mode="reflect"),
    torch.nn.ConvTranspose2d(1, 2, 3, stride=2, output_padding=1),
    torch.nn.LayerNorm(4),
    torch.nn.RMSNorm(4, eps=1e-3),
    torch.nn.BatchNorm2d(1).eval(),
    torch.nn.GroupNorm(1, 1, affine=False),
    torch.nn.Embedding(3, 4, padding_idx=0),
    torch.nn.MaxPool2d(2, ceil_mode=True),
    torch.nn.Upsample(scale_factor=2.0, mode="nearest"),
    torch.nn.Softmax(dim=-1),
    torch.nn.GELU(approximate="tanh"),
    torch.nn.LSTM(4, 4, 2, batch_first=True),
    torch.nn.PReLU(2),
    torch.nn.Identity(),
]


@pytest.mark.parametrize("layer", LAYERS, ids=repr)
def test_layers_that_are_called_as_modules(layer: torch.nn.Module) -> None:
    class Root(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = torch.nn.ModuleList([torch.nn.ReLU(), layer])

        def forward(self, x: torch.Tensor) -> Any:
            return self.layers[1](self.layers[0](x))

    taken = round_trip(torch.fx.symbolic_trace(Root()))
    assert taken.unknown == set()
    [(_, graph)] = taken.graphs
    [text] = [t for p, t in graph.modules.items() if p == "layers.1"]
    assert text.endswith(".eval()") is not layer.training


@pytest.mark.parametrize(
    "layer",
    [
        torch.nn.MultiheadAttention(4, 2),
        torch.nn.TransformerEncoderLayer(4, 2),
        type("Mine", (torch.nn.Linear,), {})(3, 4),
        torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(3, 4)),
    ],
    ids="attention transformer subclass parametrized".split(),
)
def test_layers_that_are_more_than_their_constructor_are_named(layer: torch.nn.Module) -> None:
    graph = torch.fx.Graph()
    value = graph.placeholder("x")
    graph.output(graph.create_node("call_module", "layer", (value,)))
    root = torch.nn.Module()
    root.layer = layer
    taken = round_trip(torch.fx.GraphModule(root, graph))
    assert taken.unknown == {f"layer: {type(layer).__module__}.{type(layer).__qualname__}"}


def test_a_layer_with_a_hook_is_named() -> None:
    layer = torch.nn.ReLU()
    layer.register_forward_hook(lambda module, args, out: out + 1)
    assert from_torch.constructor(torch.nn.ReLU()) == "torch.nn.ReLU()"
    assert from_torch.constructor(layer) == ""


def test_data_dependent_sizes() -> None:
    def f(x: torch.Tensor) -> Any:
        n = x.sum().item()
        torch._check(n >= 0)
        torch._check(n < 100)
        return torch.zeros(n + 1), x.nonzero() * 2, torch.ones(3)[: x.max().item()]

    with torch._dynamo.config.patch(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True):
        taken = take(f, torch.tensor([0, 1, 1]))
    assert taken.unknown == set()
    sizes = {s for _, g in taken.graphs for n in g.nodes if n.value for s in n.value.shape if isinstance(s, str)}
    assert any("u" in s for s in sizes)


def test_derived_sizes() -> None:
    def f(x: torch.Tensor, n: int, scale: float) -> Any:
        half = x.shape[0] // 2
        y = torch.cat([x, x[:half]]).repeat(n, 1) * scale
        return y.view(-1, x.shape[1] * 2) if y.shape[0] % 2 == 0 else y, torch.full((max(n, half),), scale)

    taken = take(f, torch.randn(6, 4), 3, 0.5, dynamic=True)
    assert taken.unknown == set()
    sizes = {s for _, g in taken.graphs for n in g.nodes if n.value for s in n.value.shape if isinstance(s, str)}
    assert any("//" in s or "+" in s for s in sizes)


def test_symbolic_floats_and_conditions() -> None:
    def f(x: torch.Tensor, n: int, a: float) -> Any:
        return x * (n + 0.5) * a + torch.sym_max(n, x.shape[0]) + int(n**0.5), n * 2

    take(f, x, 7, 2.5, dynamic=True)


def test_tensor_constants() -> None:
    table = torch.arange(4.0)

    def f(x: torch.Tensor) -> Any:
        return x + table + torch.tensor([1.0, float("nan"), -0.0, 4.0])

    taken = take(f, x)
    assert any(g.tensors for g in taken.level(Level.ATEN))


def test_a_function_without_a_name_is_named_unknown() -> None:
    module = torch.fx.symbolic_trace(lambda x: x + 1)
    node = next(n for n in module.graph.nodes if n.op == "call_function")
    node.target = lambda a, b: a
    taken = round_trip(module)
    assert taken.unknown == {"unknown_function.<lambda>"}


def test_objects_that_text_cannot_hold_are_named() -> None:
    module = torch.fx.symbolic_trace(lambda x: x + 1)
    node = next(n for n in module.graph.nodes if n.op == "call_function")
    node.kwargs = {
        "a": object(),
        "b": torch.Generator(),
        "c": {torch.Size([1]): 2},
        "d": 2**9999,
        "e": b"x",
        "f": {1, 2},
    }
    taken = round_trip(module)
    assert taken.unknown == {
        "builtins.object", "torch._C.Generator", "a dictionary with keys that text cannot hold", "an int of 10000 bits",
        "builtins.bytes", "builtins.set",
    }  # fmt: skip


def test_enums_of_torch_are_values() -> None:
    def f(q: torch.Tensor) -> Any:
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            return F.scaled_dot_product_attention(q, q, q)

    taken = take(f, torch.randn(1, 2, 8, 4), aot=False)
    assert not {leaf for leaf in taken.unknown if "SDPBackend" in leaf}
    assert Name("torch._C._SDPBackend.MATH").dotted.endswith("MATH")
