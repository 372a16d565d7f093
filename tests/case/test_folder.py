"""A Case on disk: what is saved is what is loaded, and what was damaged is said to be, whatever the damage."""

from __future__ import annotations

import contextlib
import copy
import json
import os
import random
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from case_helpers import exactly, relu_case, relu_graph

from torchsleuth.case import folder, tensors
from torchsleuth.case.failure import Failure, Fingerprint, Kind, Phase
from torchsleuth.case.ir import Graph, Name, Node, Op, Ref, Source, Value
from torchsleuth.case.model import (
    Autocast,
    Backend,
    Case,
    Code,
    Level,
    Opaque,
    Role,
    Scalar,
    Storage,
    Surroundings,
)
from torchsleuth.errors import DamagedCase, NewerSchema, OutputUnwritable, SleuthError

ROUNDS = 1000
FILES = [folder.META, folder.GRAPH, folder.TENSORS]


def rich_case(home: Path) -> Case:
    """A Case that has some of everything, saved in `home`."""
    x = torch.randn(4, 6)
    described = tensors.describe([x.t()[1:], x, torch.arange(5), torch.randn(2).conj()], look=True)
    first, second, third, constant = described.tensors
    storages = tensors.save(described, home, 10_000)
    f32 = Value("torch.float32", (5, "s77"), (1, "2*s77 + 1"))
    source = Source("/home/me/model.py", 12, "forward", "y = x.relu()", "layers[0]")
    body = relu_graph()
    graph = Graph(
        (
            Node("x", Op.PLACEHOLDER, "L_x_", value=f32),
            Node("y", Op.PLACEHOLDER, "y", (None,)),
            Node("i", Op.PLACEHOLDER, "i"),
            Node("n", Op.PLACEHOLDER, "n"),
            Node("o", Op.PLACEHOLDER, "o"),
            Node("w", Op.GET_ATTR, "layers.0.weight"),
            Node("true", Op.GET_ATTR, "true_graph_0"),
            Node(
                "cond", Op.CALL_FUNCTION, "torch.ops.higher_order.cond", (True, Ref("true"), Ref("true"), (Ref("x"),))
            ),
            Node(
                "relu", Op.CALL_METHOD, "relu", (Ref("x"),), {}, f32, source, {"recompute": 2, "custom": {"a": [1.0]}}
            ),
            Node("drop", Op.CALL_MODULE, "drop", (Ref("relu"),)),
            Node("to", Op.CALL_METHOD, "to", (Ref("drop"), Name("torch.float16")), {"copy": True}),
            Node("add", Op.CALL_FUNCTION, "torch.add", (Ref("to"), float("-inf")), {"alpha": -0.0}),
            Node("output", Op.OUTPUT, "output", ((Ref("add"), slice(None, 3)),)),
        ),
        {"true_graph_0": body},
        {"layers.0.weight": 0},
        {"drop": "torch.nn.Dropout(p=0.5).eval()"},
        {"script": "torch.ScriptObject"},
    )
    failure = Failure(
        Kind.COMPILE_ERROR,
        Phase.COMPILE_FORWARD,
        Fingerprint("AssertionError", "NAME is bad", ("graph.py:run",)),
        "Trace…",
    )
    surroundings = Surroundings(
        Backend("mine", False, {"a": 1}, None, Code("backend", "mine", "def mine(gm, x): return gm", ("math",))),
        True, False, True, (Autocast("cpu", "torch.bfloat16"),),
        (("torch._inductor.config", "triton.cudagraphs", True),),
        {"TORCH_LOGS": "+dynamo"}, {"default_dtype": "torch.float64", "threads": 1, "matmul_precision": "high"},
        (Code("operator a::b", "b", "", ("mymodels",), False, "it needs a file"),), ("a hook",), True,
    )  # fmt: skip
    inputs = (
        replace(first, role=Role.PARAMETER, source="L['self'].w", dynamic=(0,), requires_grad=True),
        second,
        third,
        Scalar(3, "s77", "L['n']"),
        Opaque("torch.Generator", "L['g']"),
    )
    output = {"original_output_strides": [["s77", 1], None]}
    case = Case(
        Level.DYNAMO, graph, inputs, (constant,), storages, surroundings, Phase.RUN_BACKWARD, failure,
        {"torch": "2.13"}, "3/0", {"kwargs": {"is_inference": True}, "output": output, "symbols": {}},
    )  # fmt: skip
    folder.save(case, home)
    return case


def test_a_case_comes_back(tmp_path: Path) -> None:
    case = rich_case(tmp_path)
    loaded = folder.load(tmp_path)
    assert loaded == case
    assert exactly(loaded.graph) == exactly(case.graph)
    assert folder.load(tmp_path, ours=True) == case
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(FILES)
    [*_, constant] = tensors.load(tmp_path, [*loaded.inputs[:3], *loaded.constants], loaded.storages)  # type: ignore[list-item]
    assert constant.dtype is torch.float32


def test_a_case_without_memory_needs_no_tensor_file(tmp_path: Path) -> None:
    folder.save(relu_case(), tmp_path)
    assert folder.load(tmp_path) == relu_case()


def test_paths_that_are_not_utf8_survive(tmp_path: Path) -> None:
    source = Source("/tmp/\udc80.py", 3, "f\n", "x = '\ud800'\n# body: a", "\u2028")
    graph = relu_graph()
    graph = replace(graph, nodes=(*graph.nodes[:1], replace(graph.nodes[1], source=source), graph.nodes[2]))
    folder.save(replace(relu_case(), graph=graph), tmp_path)
    assert folder.load(tmp_path).graph == graph


def test_saving_again_replaces_the_whole(tmp_path: Path) -> None:
    rich_case(tmp_path)
    folder.save(relu_case(), tmp_path)
    assert folder.load(tmp_path) == relu_case()
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")]


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises((OutputUnwritable, OSError)):
        folder.save(relu_case(), tmp_path / "file" / "case")


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    rich_case(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(DamagedCase, match=name.replace(".", r"\.")):
        folder.load(tmp_path)


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(DamagedCase, match="is not a Case"):
        folder.load(tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    with pytest.raises(DamagedCase):
        folder.load(tmp_path / "file")
    (tmp_path / folder.META).mkdir()
    with pytest.raises(DamagedCase):
        folder.load(tmp_path)


@pytest.mark.parametrize(
    ("schema", "error"), [(2, NewerSchema), (10**9, NewerSchema), (0, DamagedCase), (-1, DamagedCase)]
)
def test_schemas(tmp_path: Path, schema: int, error: type[SleuthError]) -> None:
    data = folder.to_json(relu_case())
    with pytest.raises(error):
        folder.from_json({**data, "schema": schema}, "")
    for odd in (None, "1", True, 1.0, [1]):
        with pytest.raises(DamagedCase):
            folder.from_json({**data, "schema": odd}, "")


def test_a_newer_schema_says_to_upgrade() -> None:
    with pytest.raises(NewerSchema, match="Upgrade torchsleuth"):
        folder.from_json({"schema": 99}, "")


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.9, 0.999])
def test_a_truncated_tensor_file_is_refused(tmp_path: Path, share: float) -> None:
    rich_case(tmp_path)
    path = tmp_path / folder.TENSORS
    os.truncate(path, int(path.stat().st_size * share))
    with pytest.raises(DamagedCase, match="is damaged"):
        folder.load(tmp_path)


@pytest.mark.parametrize(
    "header",
    [b"[]", b"{}", b"1", b'"x"', b"null", b"\xff\xff", b'{"storage_0": 1}', b'{"storage_0": {"data_offsets": [0]}}',
     b'{"storage_0": {"data_offsets": ["a", "b"]}}', b"{" * 5000],
)  # fmt: skip
def test_a_header_that_lies_is_refused(tmp_path: Path, header: bytes) -> None:
    rich_case(tmp_path)
    (tmp_path / folder.TENSORS).write_bytes(len(header).to_bytes(8, "little") + header + b"\0" * 500)
    with pytest.raises(DamagedCase, match="is damaged"):
        folder.load(tmp_path)


@pytest.mark.parametrize(
    "text", ["", "null", "[]", "1", '"case"', "{", "{}", '{"schema": 1}', "[" * 100_000, "1" * 10_000, "\ufeff{}"]
)
def test_json_that_is_no_case(tmp_path: Path, text: str) -> None:
    folder.save(relu_case(), tmp_path)
    (tmp_path / folder.META).write_text(text, encoding="utf-8")
    with pytest.raises(DamagedCase):
        folder.load(tmp_path)


@pytest.mark.parametrize("key", list(folder.to_json(relu_case())))
@pytest.mark.parametrize(
    "value", [None, 0, -1, 10**400, 1e400, "", "x", [], [[]], {}, {"": None}, True], ids=lambda v: repr(v)[:9]
)
def test_any_field_with_anything_in_it(key: str, value: Any) -> None:
    data = {**folder.to_json(relu_case()), key: value}
    never_another_error(data, "def forward(self, x):\n    relu = torch.relu(x)\n    return (relu,)\n")


def never_another_error(data: Any, text: str) -> None:
    with contextlib.suppress(SleuthError):
        assert isinstance(folder.from_json(data, text), Case)


# --- the fuzz: a thousand damaged folders -------------------------------------------------------------------------

ODD: list[Any] = [
    None, True, False, 0, -1, 1, 2**63, 10**30, 1.5, float("nan"), float("inf"), "", "x", "os.system", "self",
    "__import__('os').system('x')", "\x00", "\ud800", "torch.load", [], [[]], {}, {"a": 1}, [None], "9" * 5000,
    [1] * 50,
]  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(p for key, part in inner for p in places(part, (*path, key)))]


def damaged_json(data: Any, random_: random.Random) -> Any:
    data = copy.deepcopy(data)
    for _ in range(random_.choice([1, 1, 1, 2, 5])):
        path = random_.choice([p for p in places(data) if p])
        holder = data
        for key in path[:-1]:
            holder = holder[key]
        last = path[-1]
        how = random_.randrange(6)
        if how == 0:
            del holder[last]
        elif how == 1:
            holder[last] = copy.deepcopy(random_.choice(ODD))
        elif how == 2 and isinstance(holder, list):
            holder.insert(last, copy.deepcopy(holder[last]))
        elif how == 3 and isinstance(holder, dict):
            holder[random_.choice(["x", "", "relu", "kind", "os"])] = holder.pop(last)
        elif how == 4:
            other = random_.choice([p for p in places(data) if p])
            found = data
            for key in other:
                found = found[key]
            holder[last] = copy.deepcopy(found)
        elif isinstance(holder[last], str):
            holder[last] = scrambled(holder[last], random_)
        elif isinstance(holder[last], int):
            holder[last] = random_.choice([holder[last] + 1, -holder[last], holder[last] * 10**6, str(holder[last])])
    return data


SNIPPETS = [
    "torch.load('x')", "os.system('x')", "__class__", "(", ")", "\n", "    ", "lambda: 0", "self.", "return ", "*x",
    "=", "\x00", "getattr(x, '__class__')", "9" * 5000, "'", '"""', "# body: ", "def forward(self):", ".", ",",
    "import os", "\t",
]  # fmt: skip


def scrambled(text: str, random_: random.Random) -> str:
    at = random_.randrange(len(text) + 1)
    how = random_.randrange(5)
    if how == 0:
        return text[:at] + random_.choice(SNIPPETS) + text[at:]
    if how == 1:
        return text[:at]
    if how == 2:
        return text[:at] + chr(random_.randrange(1, 0x250)) + text[at + 1 :]
    if how == 3:
        end = at + random_.randrange(40)
        return text[:at] + text[end:]
    end = at + random_.randrange(60)
    return text[:at] + text[at:end] * 2 + text[end:]


def damaged_bytes(raw: bytes, random_: random.Random) -> bytes:
    changed = bytearray(raw)
    how = random_.randrange(4)
    if how == 0 or not changed:
        return bytes(changed[: random_.randrange(len(changed) + 1)])
    for _ in range(random_.choice([1, 2, 8])):
        at = random_.randrange(len(changed))
        if how == 1:
            changed[at] ^= 1 << random_.randrange(8)
        elif how == 2:
            changed[at] = random_.randrange(256)
        else:
            end = at + random_.randrange(30)
            changed[at:end] = changed[at:end] * 2
    return bytes(changed)


def test_a_thousand_damaged_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each loads as a Case, or raises an error of ours; nothing is run either way."""
    original = tmp_path / "original"
    case = rich_case(original)
    data = json.loads((original / folder.META).read_text())
    text = (original / folder.GRAPH).read_text()
    monkeypatch.setattr(os, "system", lambda *args: pytest.fail("os.system was called"))
    home = tmp_path / "damaged"
    random_ = random.Random(20260101)
    refused = 0
    for round_ in range(ROUNDS):
        shutil.rmtree(home, ignore_errors=True)
        shutil.copytree(original, home)
        how = round_ % 4
        if how == 0:
            (home / folder.META).write_text(json.dumps(damaged_json(data, random_)))
        elif how == 1:
            (home / folder.GRAPH).write_text(scrambled(text, random_), encoding="utf-8", errors="surrogatepass")
        elif how == 2:
            name = random_.choice(FILES)
            (home / name).write_bytes(damaged_bytes((home / name).read_bytes(), random_))
        else:
            (home / folder.META).write_text(json.dumps(damaged_json(data, random_)))
            (home / folder.GRAPH).write_text(scrambled(text, random_), encoding="utf-8", errors="surrogatepass")
        try:
            loaded = folder.load(home)
        except SleuthError:
            refused += 1
            continue
        assert isinstance(loaded, Case)
        wanted = [t for t in (*loaded.inputs, *loaded.constants) if isinstance(t, type(case.constants[0]))]
        sane = all(s.nbytes < 10**6 for s in loaded.storages) and all(
            max((0, *t.shape, *t.stride)) < 10**3 for t in wanted
        )
        with contextlib.suppress(SleuthError):
            tensors.load(home, wanted if sane else [], loaded.storages)
    assert ROUNDS / 2 < refused < ROUNDS


def test_storages_that_are_too_few(tmp_path: Path) -> None:
    case = replace(relu_case(), storages=(Storage(24, kept=True),))
    folder.save(case, tmp_path)
    with pytest.raises(DamagedCase):
        folder.load(tmp_path)
