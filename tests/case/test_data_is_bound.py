"""A script that reads values has read the data file wherever it uses them, in all forms."""

from __future__ import annotations

import ast
from dataclasses import replace

import pytest

from torchsleuth.case.failure import Phase
from torchsleuth.case.ir import Graph, Node, Op, Ref, Value
from torchsleuth.case.model import Case, Check, Level, Role, Storage, Tensor
from torchsleuth.case.program import Form, render

VALUE = Value("torch.float32", (2,), (1,))
TENSOR = Tensor("torch.float32", (2,), (1,))


def adding(constant: str) -> tuple[Node, ...]:
    return (
        Node("x", Op.PLACEHOLDER, "x", value=VALUE),
        Node("c", Op.GET_ATTR, constant),
        Node("add", Op.CALL_FUNCTION, "torch.add", (Ref("x"), Ref("c")), value=VALUE),
        Node("output", Op.OUTPUT, "output", ((Ref("add"),),)),
    )


BODY = Graph(adding("kept"), tensors={"kept": 0})
IN_THE_GRAPH = Graph(adding("constant"), tensors={"constant": 0})
IN_A_BODY = Graph(
    (
        Node("x", Op.PLACEHOLDER, "x", value=VALUE),
        Node("body", Op.GET_ATTR, "body_0"),
        Node("wrap", Op.CALL_FUNCTION, "torch.ops.higher_order.invoke_subgraph", (Ref("body"), "body_0", Ref("x"))),
        Node("first", Op.CALL_FUNCTION, "operator.getitem", (Ref("wrap"), 0), value=VALUE),
        Node("output", Op.OUTPUT, "output", ((Ref("first"),),)),
    ),
    {"body_0": BODY},
)  # fmt: skip


def scopes_that_read(text: str) -> dict[str, bool]:
    """For each function, and the module itself, that uses `data`: whether it is bound there, or in the module."""

    def names(node: ast.AST, kind: type[ast.expr_context]) -> bool:
        return any(isinstance(n, ast.Name) and n.id == "data" and isinstance(n.ctx, kind) for n in ast.walk(node))

    tree = ast.parse(text)
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
    top = ast.Module([s for s in tree.body if not isinstance(s, (ast.FunctionDef, ast.ClassDef))], [])
    bound = names(top, ast.Store)
    found = {f.name: names(f, ast.Store) or bound for f in functions if names(f, ast.Load)}
    return {**found, **({"<module>": bound} if names(top, ast.Load) else {})}


@pytest.mark.parametrize("check", [None, Check()])
@pytest.mark.parametrize("form", [Form.COMPILE, Form.BACKEND])
@pytest.mark.parametrize("graph", [IN_THE_GRAPH, IN_A_BODY])
@pytest.mark.parametrize("role", [Role.ARGUMENT, Role.PARAMETER])
def test_data_is_read_where_it_is_used(graph: Graph, form: Form, check: Check | None, role: Role) -> None:
    case = Case(
        Level.DYNAMO, graph, (replace(TENSOR, role=role, storage=1),), (TENSOR,),
        (Storage(8, kept=True), Storage(8, kept=True)), phase=Phase.RUN_FORWARD, check=check,
    )  # fmt: skip
    text = render(case, form, data=True).source
    scopes = scopes_that_read(text)
    assert scopes, text
    assert all(scopes.values()), f"{scopes}\n{text}"
