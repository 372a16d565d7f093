"""Scripts whose numbers are wrong, as text."""

from __future__ import annotations

from dataclasses import replace

import pytest

from torchsleuth.case.failure import Phase
from torchsleuth.case.ir import Graph, Node, Op, Ref, Value
from torchsleuth.case.model import Backend, Case, Check, Level, Role, Storage, Surroundings, Tensor
from torchsleuth.case.program import Form, observed, render

SIX = Value("torch.float32", (2, 3), (3, 1))


def case(target: str = "torch.sin", *, op: Op = Op.CALL_FUNCTION, phase: Phase = Phase.RUN_FORWARD) -> Case:
    nodes = (
        Node("x", Op.PLACEHOLDER, "x", value=SIX),
        Node("w", Op.PLACEHOLDER, "w", value=SIX),
        Node("y", op, target, (Ref("x"),), value=SIX),
        Node("z", Op.CALL_FUNCTION, "operator.mul", (Ref("y"), Ref("w")), value=SIX),
        Node("output", Op.OUTPUT, "output", ((Ref("z"),),)),
    )
    gradient = phase.backward
    tensors = (
        Tensor("torch.float32", (2, 3), (3, 1), storage=0, requires_grad=gradient),
        Tensor("torch.float32", (2, 3), (3, 1), storage=1, requires_grad=gradient, role=Role.PARAMETER),
    )
    return Case(
        Level.DYNAMO, Graph(nodes), tensors, storages=(Storage(0), Storage(0)), phase=phase, check=Check(),
    )  # fmt: skip


def test_a_forward_is_run_twice_with_inputs_of_its_own() -> None:
    plain = replace(case(), inputs=tuple(replace(t, role=Role.ARGUMENT) for t in case().inputs))  # type: ignore[type-var]
    assert render(plain).source == (
        "import torch\n"
        "\n"
        "def f(x, w):\n"
        "    y = torch.sin(x)\n"
        "    return y * w\n"
        "\n"
        "def run(f):\n"
        "    torch.manual_seed(0)\n"
        "    x = torch.randn(2, 3)\n"
        "    w = torch.randn(2, 3)\n"
        "    return f(x, w)\n"
        "\n"
        "compiled, eager = run(torch.compile(f)), run(f)\n"
        "torch.testing.assert_close(compiled, eager, equal_nan=True)\n"
    )


def test_a_backward_shows_gradients_of_arguments_and_parameters() -> None:
    text = render(replace(case(phase=Phase.RUN_BACKWARD), check=Check(tangents="ones"))).source
    assert "    out.sum().backward()\n    return out, f.w.grad, x.grad\n" in text
    assert "run(torch.compile(Model())), run(Model())" in text


def test_a_graph_that_writes_shows_what_is_left_in_its_inputs() -> None:
    assert "return out, f.w, x\n" in render(case("add_", op=Op.CALL_METHOD)).source
    assert observed(case("add_", op=Op.CALL_METHOD)) == ["out", "w", "x"]


def test_only_what_is_asked_for_is_compared() -> None:
    assert "    return x\n" in render(replace(case("add_", op=Op.CALL_METHOD), check=Check(only=("x",)))).source
    assert "    return f(x)\n" in render(replace(case(), check=Check(only=("out[0]",)))).source
    assert "    return f(x)\n" in render(replace(case(), check=Check(only=("gone",)))).source


def two_results() -> Case:
    whole = case()
    output = replace(whole.graph.output, args=((Ref("y"), Ref("z")),))
    return replace(whole, graph=replace(whole.graph, nodes=(*whole.graph.nodes[:-1], output)), check=Check())


def test_what_is_called_under_a_mode_is_returned_from_there() -> None:
    text = render(replace(case(), surroundings=Surroundings(grad=False))).source
    assert "    with torch.no_grad():\n        return f(x)\n" in text


def test_of_several_results_the_one_that_is_asked_for_is_compared() -> None:
    text = render(replace(two_results(), check=Check(only=("out[1]",)))).source
    assert "        return (y, z)\n" in text
    assert "    return out[1]\n" in text


@pytest.mark.parametrize("phase", [Phase.RUN_FORWARD, Phase.RUN_BACKWARD])
def test_a_graph_that_is_handed_over_keeps_the_tuple_around_its_only_result(phase: Phase) -> None:
    text = render(replace(case(phase=phase), check=Check(tangents="ones")), Form.BACKEND).source
    assert "    (out,) = f(x, w)\n" in text
    assert ("    out.sum().backward()\n" in text) == phase.backward
    assert "    return f(x, w)\n" in render(two_results(), Form.BACKEND).source


def test_without_results_only_what_is_written_is_compared() -> None:
    whole = case("add_", op=Op.CALL_METHOD)
    written = replace(whole.graph.nodes[2], args=(Ref("x"), Ref("w")))
    output = replace(whole.graph.output, args=((),))
    silent = replace(whole, graph=replace(whole.graph, nodes=(*whole.graph.nodes[:2], written, output)))
    text = render(silent).source
    assert "    def forward(self, x):\n        x.add_(self.w)\n\n" in text
    assert "    f(x)\n    return f.w, x\n" in text
    assert observed(silent) == ["w", "x"]


def test_nans_are_called_equal_only_where_eager_gives_some() -> None:
    assert "assert_close(compiled, eager)\n" in render(replace(case(), check=Check(nans=False))).source


def test_strides_are_compared_where_they_are_what_is_wrong() -> None:
    asked = replace(case(), check=Check(nans=False, strides=True))
    assert "assert_close(compiled, eager, check_stride=True)\n" in render(asked).source
    assert ", strides=True)" in render(asked, refereed=True).source


def test_what_is_left_in_inputs_is_compared_where_it_was_seen_to_be_wrong() -> None:
    """Compiled code may write where no operator of the graph does."""
    assert observed(case()) == ["out"]
    assert observed(replace(case(), check=Check(inputs=True))) == ["out", "w", "x"]


def test_tolerances_are_said_where_they_are_needed() -> None:
    text = render(replace(case(), check=Check(rtol=3.3e-4, atol=1e-2))).source
    assert "equal_nan=True, rtol=0.0003, atol=0.01)" in text


def test_the_judged_script_asks_the_referee_instead() -> None:
    text = render(case(), refereed=True).source
    assert "assert_close" not in text
    assert 'check(run, lambda: Model(), lambda: torch.compile(Model()), ["out"])' in text.replace("'", '"')


@pytest.mark.parametrize("form", [Form.COMPILE, Form.BACKEND])
def test_another_backend_is_compared_in_the_same_way(form: Form) -> None:
    other = replace(case(), surroundings=Surroundings(Backend("aot_eager")))
    text = render(other, form).source
    assert 'backend="aot_eager"' in text if form is Form.COMPILE else 'lookup_backend("aot_eager")' in text
    assert "assert_close(compiled, eager" in text


def test_values_are_filled_as_the_case_says() -> None:
    x, w = case().inputs
    assert isinstance(x, Tensor)
    assert isinstance(w, Tensor)
    literal = replace(w, fill="literal", literal=(1.0, 2.0, 3.0, 4.0, 5.0, float("nan")))
    text = render(replace(case(), inputs=(replace(x, fill="arange"), literal))).source
    assert "x = torch.arange(6, dtype=torch.float32).reshape(2, 3)" in text
    assert 'torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, float("nan")]])' in text
    assert "manual_seed" not in text


def test_what_lost_its_nans_is_made_of_them() -> None:
    x, w = case().inputs
    assert isinstance(x, Tensor)
    text = render(replace(case(), inputs=(replace(x, fill="nan"), w))).source
    assert 'x = torch.full((2, 3), float("nan"))' in text


def test_what_was_never_negative_is_made_so() -> None:
    x, w = case().inputs
    assert isinstance(x, Tensor)
    assert "x = torch.rand(2, 3)" in render(replace(case(), inputs=(replace(x, low=0.0, high=2.5), w))).source
