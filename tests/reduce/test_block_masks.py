"""flex_attention with a mask of many blocks becomes one with a mask of one block."""

from __future__ import annotations

from dataclasses import replace

from toys import case_of, reduced

from torchsleuth.case.ir import Graph, Node, Op, Ref, Value
from torchsleuth.case.model import Case, Storage, Tensor
from torchsleuth.case.program.higher_order import FLEX_ATTENTION
from torchsleuth.reduce.passes import block_masks

ROWS = Value("torch.float32", (1, 1, 256, 16), (4096, 4096, 16, 1))
COUNTS, INDICES = Value("torch.int32", (1, 1, 2), (2, 2, 1)), Value("torch.int32", (1, 1, 2, 2), (4, 4, 2, 1))
LISTS = ("n", "i", "full_n", "full_i", "qn", "qi", "full_qn", "full_qi")
BODY = Graph((Node("output", Op.OUTPUT, "output", (True,)),))


def attention(*, made_inside: bool = False) -> Case:
    values = [ROWS, *[COUNTS, INDICES] * 4]
    nodes = [Node(n, Op.PLACEHOLDER, n, value=v) for n, v in zip(("q", *LISTS), values, strict=True)]
    lists = tuple(map(Ref, LISTS))
    if made_inside:
        nodes.append(Node("made", Op.CALL_FUNCTION, "torch.neg", (Ref("n"),), value=COUNTS))
        lists = (Ref("made"), *lists[1:])
    blocks = (256, 256, *lists, None, None, None, None, 128, 128, Ref("mask"))
    call = Node(
        "call", Op.CALL_FUNCTION, FLEX_ATTENTION,
        (Ref("q"), Ref("q"), Ref("q"), Ref("score"), blocks, 0.25, {}, (), ()),
    )  # fmt: skip
    nodes += [
        Node("score", Op.GET_ATTR, "score_0"),
        Node("mask", Op.GET_ATTR, "mask_0"),
        call,
        Node("output", Op.OUTPUT, "output", ((Ref("call"),),)),
    ]
    given = [v for n in nodes if n.op is Op.PLACEHOLDER and isinstance(v := n.value, Value)]
    inputs = tuple(
        Tensor(v.dtype, tuple(map(int, v.shape)), tuple(map(int, v.stride or ())), storage=i, low=0, high=2)
        for i, v in enumerate(given)
    )
    plain = case_of(nodes, len(inputs))
    graph = replace(plain.graph, bodies={"score_0": BODY, "mask_0": BODY})
    return replace(plain, graph=graph, inputs=inputs, storages=tuple(Storage(4, kept=True) for _ in inputs))


def test_one_block_and_lists_that_are_made() -> None:
    (found,) = block_masks.propose(attention())
    call = next(n for n in found.graph.nodes if n.name == "call")
    whole = 1 << 30
    none = (None,) * 4
    assert call.args[4] == (
        *(1, 1, Ref("n"), Ref("i"), None, None, Ref("qn"), Ref("qi"), None, None), *none, whole, whole, Ref("mask"),
    )  # fmt: skip
    made = {
        n.name: (v.shape, v.fill)
        for n, v in zip(found.graph.placeholders, found.inputs, strict=True)
        if isinstance(v, Tensor)
    }
    assert made == {
        "q": ((1, 1, 256, 16), ""),
        "n": ((1, 1, 1), "ones"),
        "i": ((1, 1, 1, 1), "zeros"),
        "qn": ((1, 1, 1), "ones"),
        "qi": ((1, 1, 1, 1), "zeros"),
    }
    kept = [found.storages[v.storage].kept for v in found.inputs if isinstance(v, Tensor)]
    assert kept == [True, False, False, False, False]


def test_it_is_asked_once() -> None:
    (found,) = block_masks.propose(attention())
    assert list(block_masks.propose(found)) == []


def test_the_function_is_searched_once_there_is_one_block() -> None:
    """Of many blocks, only the whole function is legal."""
    at = Value("torch.int64", (), ())
    function = Graph(
        (
            Node("p", Op.PLACEHOLDER, "p", value=at),
            Node("a", Op.CALL_FUNCTION, "torch.neg", (Ref("p"),), value=at),
            Node("b", Op.CALL_FUNCTION, "torch.bug", (Ref("a"),), value=at),
            Node("c", Op.CALL_FUNCTION, "torch.abs", (Ref("b"),), value=at),
            Node("output", Op.OUTPUT, "output", (Ref("c"),)),
        )
    )
    case = attention()
    case = replace(case, graph=replace(case.graph, bodies={"score_0": BODY, "mask_0": function}))

    def fails(candidate: Case) -> bool:
        call = next((n for n in candidate.graph.nodes if n.name == "call"), None)
        mask = candidate.graph.bodies.get("mask_0")
        if call is None or mask is None or "torch.bug" not in {n.target for n in mask.nodes}:
            return False
        return 1 << 30 in call.args[4] or mask == function

    best, _ = reduced(case, fails)
    assert [n.target for n in best.graph.bodies["mask_0"].nodes if n.is_call] == ["torch.bug"]


def test_lists_that_the_graph_makes_are_left_alone() -> None:
    assert list(block_masks.propose(attention(made_inside=True))) == []
