"""Texts that somebody might send: refused with an error of ours, and nothing is run on the way."""

from __future__ import annotations

import builtins
import importlib
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from case_helpers import graph_of, relu_case, relu_graph

from torchsleuth.case import allowed, checks, constructors, folder, graph_text
from torchsleuth.case.ir import Graph, Node, Op, Ref, Value
from torchsleuth.case.model import Autocast, Backend, Case, Code, Scalar, Surroundings, Tensor
from torchsleuth.errors import DamagedCase, SleuthError, UnsafeGraph

ROW = {"output": "output", "nodes": {}, "tensors": {}, "modules": {}, "unknown": {}, "bodies": []}


@pytest.fixture(autouse=True)
def nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """What an attack would use ends the test: processes from anywhere, `eval` and `exec` from code of ours."""

    def caught(holder: Any, name: str, *, from_ours: bool = False) -> None:
        real = getattr(holder, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            caller = str(sys._getframe(1).f_globals.get("__name__"))
            if not from_ours or caller.startswith("torchsleuth"):
                pytest.fail(f"{name}{args!r} was called by {caller}")
            return real(*args, **kwargs)

        monkeypatch.setattr(holder, name, call)

    for name in ("system", "popen", "execv", "fork", "posix_spawn"):
        caught(os, name)
    caught(subprocess, "Popen")
    for name in ("eval", "exec"):
        caught(builtins, name, from_ours=True)
    caught(importlib, "import_module", from_ours=True)


def parse(text: str, rows: dict[str, Any] | None = None) -> Graph:
    return graph_text.parse(text, rows or {"": ROW})


def refused(statement: str, rows: dict[str, Any] | None = None) -> None:
    with pytest.raises(DamagedCase):
        parse(f"def forward(self, x, y):\n    z = {statement}\n    return z\n", rows)


@pytest.mark.parametrize(
    "call",
    [
        "os.system('touch /tmp/pwned')",
        "torch.load('x.pt')",
        "torch.save(x, 'x.pt')",
        "torch.hub.load('a/b', 'c')",
        "torch.ops.load_library('evil.so')",
        "torch.ops.aten.load_library('evil.so')",
        "torch._ops.ops.load_library('evil.so')",
        "torch.ops.aten.save(x, '/tmp/x')",
        "torch.ops.aten.from_file('/etc/passwd', True, 10)",
        "torch.ops.aten.from_file.default('/etc/passwd', True, 10)",
        "torch.ops.debugprims.load_tensor.default('x', [1], [1])",
        "torch.ops.image.write_file('x', y)",
        "torch.from_file('/etc/passwd')",
        "torch.utils.cpp_extension.load('x', ['evil.cpp'])",
        "torch.utils.cpp_extension.load_inline('x', 'evil')",
        "torch.os.system('x')",
        "torch.nn.functional.importlib.import_module('os')",
        "torch.jit.load('x.pt')",
        "torch.jit._load_for_lite_interpreter('x')",
        "torch._import_dotted_name('os.system')",
        "torch._preload_cuda_lib('x', 'y')",
        "torch._load_global_deps()",
        "torch._register_device_module('os', x)",
        "torch.package.PackageImporter('x')",
        "torch.compile(x)",
        "torch.import_ir_module(x, 'y')",
        "torch._refs.partial(torch.relu, x)",
        "torch._prims._make_prim(x)",
        "torch._C._distributed_c10d.FileStore('x', 1)",
        "torch._C.PyTorchFileWriter('x')",
        "torch.get_device_module('cpu')",
        "torch.set_default_device('cuda')",
        "__import__('os')",
        "builtins.__import__('os')",
        "builtins.eval('1')",
        "eval('1')",
        "exec('1')",
        "open('/etc/passwd')",
        "compile('1', '', 'exec')",
        "globals()",
        "operator.attrgetter('__class__')(x)",
        "operator.methodcaller('system', 'x')",
        "operator.call(x, y)",
        "operator.__import__('os')",
        "torch.__class__('x')",
        "torch.ops.__class__.x(y)",
        "torch.ops.aten.add.__class__(x)",
        "torch.ops.aten.__init__(x)",
        "torch.Tensor.__reduce_ex__(x, 2)",
        "x.__class__()",
        "x.__reduce_ex__(2)",
        "x.__getattribute__('__class__')",
        "x.__setattr__('a', 1)",
        "x.__dict__.get('a')",
        "x.__array__()",
        "x.tofile('/tmp/x')",
        "x.numpy()",
        "x.dump('/tmp/x')",
        "x.register_hook(torch.relu)",
        "x.shape.__class__()",
        "getattr(x, '__class__')",
        "getattr(x, '__dict__')",
        "getattr(x, 'register_hook')",
        "getattr(x, y)",
        "getattr(x, 'a b')",
        "getattr(torch.os, 'system')",
        "getattr(torch.relu, 'shape')",
        "getattr(torch.nn.functional.importlib, 'import_module')",
        "getattr(getattr(torch, 'os'), 'system')('x')",
        "getattr(torch, 'load')('x')",
        "getattr(x, '__class__')()",
        "getattr(x)",
        "getattr()",
        "torch.utils.checkpoint.checkpoint(torch.os.system, 'x')",
        "torch.ops.higher_order.wrap(torch.hub, 'x')",
        "torch.relu(torch.nn.functional.importlib.import_module)",
        "torch.relu(torch.Tensor.__reduce_ex__)",
        "value(torch.os).system('x')",
        "value(torch.relu).x()",
        "value(torch.nn.functional.importlib).import_module('os')",
        "value(value)('x')",
        "value(x)()",
    ],
)
def test_calls_that_are_no_operators(call: str) -> None:
    refused(call)


@pytest.mark.parametrize(
    "value",
    [
        "lambda: 1",
        "torch.relu(lambda: 1)",
        "[v for v in x]",
        "torch.relu([v for v in x])",
        "torch.relu({v for v in x})",
        "torch.relu({v: v for v in x})",
        "torch.relu(v for v in x)",
        "torch.relu(f'{x}')",
        "torch.relu(f'x')",
        "torch.relu(y := x)",
        "torch.relu(*x)",
        "torch.relu(**x)",
        "torch.relu(**{**x})",
        "torch.relu(**{1: x})",
        "torch.relu(a=x, **{'a': x})",
        "torch.relu(x if x else y)",
        "torch.relu(x + y)",
        "torch.relu(x[0])",
        "torch.relu(x.shape)",
        "torch.relu(not x)",
        "torch.relu(-x)",
        "torch.relu(~1)",
        "torch.relu(b'x')",
        "torch.relu({1, 2})",
        "torch.relu({[]: 1})",
        "torch.relu({**x})",
        "torch.relu(await x)",
        "torch.relu(complex('1', '2'))",
        "torch.relu(complex(x, 1.0))",
        "torch.relu(float('1e9'))",
        "torch.relu(unknown(x))",
        "torch.relu(torch.device('cpu', index=0))",
        "torch.relu(set(x, y)(x))",
        "torch.relu(torch.Tensor([1]))",
        "torch.relu(self)",
        "torch.relu(self.w)",
        "torch.relu(later)",
        "torch.relu",
        "x",
        "x.shape",
        "1",
        "(yield)",
        "x()",
        "torch.relu(x)(y)",
        "(lambda: 1)()",
    ],
)
def test_python_that_is_no_graph(value: str) -> None:
    refused(value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "import os",
        "import os\ndef forward(self):\n    return None\n",
        "x = 1",
        "class forward:\n    pass",
        "@torch.compile\ndef forward(self, x):\n    return x\n",
        "async def forward(self, x):\n    return x\n",
        "def other(self, x):\n    return x\n",
        "def forward():\n    return None\n",
        "def forward(self, *args):\n    return args\n",
        "def forward(self, **kwargs):\n    return kwargs\n",
        "def forward(self, *, x):\n    return x\n",
        "def forward(self, /, x):\n    return x\n",
        "def forward(self, x=__import__('os').system('x')):\n    return x\n",
        "def forward(self, x=torch.load('x')):\n    return x\n",
        "def forward(self, x=[].append(1)):\n    return x\n",
        "def forward(self, x: __import__('os').system('x')):\n    pass\n",
        "def forward(self, x):\n    pass\n",
        "def forward(self, x):\n    return x\n    return x\n",
        "def forward(self, x):\n    y = torch.relu(x)\n",
        "def forward(self, x):\n    x = torch.relu(x)\n    return x\n",
        "def forward(self, x):\n    torch = torch.relu(x)\n    return x\n",
        "def forward(self, x, x):\n    return x\n",
        "def forward(self, self):\n    return self\n",
        "def forward(self, x):\n    y, z = torch.relu(x)\n    return y\n",
        "def forward(self, x):\n    y = z = torch.relu(x)\n    return y\n",
        "def forward(self, x):\n    x.y = torch.relu(x)\n    return x\n",
        "def forward(self, x):\n    x[0] = torch.relu(x)\n    return x\n",
        "def forward(self, x):\n    y: int\n    return x\n",
        "def forward(self, x):\n    y += torch.relu(x)\n    return x\n",
        "def forward(self, x):\n    torch.relu(x)\n    return x\n",
        "def forward(self, x):\n    if x:\n        return x\n",
        "def forward(self, x):\n    with x:\n        return x\n",
        "def forward(self, x):\n    import os\n    return x\n",
        "def forward(self, x):\n    global os\n    return x\n",
        "def forward(self, x):\n    del x\n    return x\n",
        "def forward(self, x):\n    def f(): pass\n    return x\n",
        "def forward(self, x):\n    'docstring'\n    return x\n",
        "def forward(self, x):\n    assert x\n    return x\n",
        "def forward(self, x):\n    try:\n        return x\n    finally:\n        pass\n",
        "def forward(self, x):\n    return torch.relu(x)\n",
        "def forward(self, x):\n    return x\ndef forward(self, x):\n    return x\n",
        "# body: a\ndef forward(self, x):\n    return x\n",
        "def forward(self, x):\n    return x\n\x00",
        "\x00",
        "\ufeff\ufeff",
        "def forward(self, x):\n    return '\ud800",
        "def forward(self, x:\n",
    ],
)
def test_texts_that_are_no_graph(text: str) -> None:
    with pytest.raises(DamagedCase):
        parse(text)


@pytest.mark.parametrize(
    "value",
    [
        "9" * 1_000_000,
        "0x" + "f" * 1_000_000,
        "0b" + "1" * 100_000,
        "(" * 100_000,
        "[" * 500 + "]" * 500,
        "[" * 90 + "]" * 90,
        "-" * 100_000 + "1",
        "(" * 150 + "1" + ",)" * 150,
        "x" + ".a" * 100_000,
        "x" + ".a" * 5_000,
        "+".join(["1"] * 20_000),
        "f(" * 1_000 + ")" * 1_000,
        "{1: " * 95 + "1" + "}" * 95,
        "torch.relu(" * 80 + "x" + ")" * 80,
        "getattr(" * 80 + "x" + ", 'a')" * 80,
        "not " * 50_000 + "x",
        "lambda: " * 5_000 + "1",
    ],
    ids=lambda v: f"{v[:12]}...{len(v)}",
)
@pytest.mark.parametrize("form", ["torch.relu({})", "{}"])
def test_texts_made_to_exhaust_are_refused_quickly(value: str, form: str) -> None:
    refused(form.format(value))


def test_bodies_nested_without_end() -> None:
    paths = ["", *("/".join(["b"] * n) for n in range(1, 2000))]
    text = "\n\n".join((f"# body: {p}\n" if p else "") + "def forward(self, x):\n    return x" for p in paths)
    with pytest.raises(DamagedCase):
        parse(text, {p: {**ROW, "bodies": ["b"]} for p in paths[:-1]} | {paths[-1]: ROW})


def test_a_body_that_nobody_names() -> None:
    text = "def forward(self, x):\n    return x\n\n# body: b\ndef forward(self, x):\n    return x\n"
    with pytest.raises(DamagedCase, match="bodies that no operator names"):
        parse(text, {"": ROW, "b": ROW})


@pytest.mark.parametrize(
    "row",
    [
        {"nodes": {"z": {"target": "os.system"}}},
        {"nodes": {"z": {"name": "x"}}},
        {"nodes": {"q": {}}},
        {"nodes": {"z": {"tags": {"recompute": "__import__('os')"}}}},
        {"nodes": {"z": {"tags": {"recompute": 1}}}},
        {"nodes": {"x": {"default": "torch.load('x')"}}},
        {"nodes": {"z": {"value": {"dtype": 1}}}},
        {"nodes": {"z": {"source": {"file": [], "line": 1}}}},
        {"nodes": []},
        {"tensors": {"a": 1.5}},
        {"tensors": {"a": float("inf")}},
        {"bodies": [1]},
        {"bodies": "a"},
        {"output": "x"},
        None,
        [],
        7,
    ],
    ids=str,
)
def test_tables_that_lie(row: Any) -> None:
    text = "def forward(self, x, y):\n    z = torch.relu(x)\n    return z\n"
    rows = {"": {**ROW, **row} if isinstance(row, dict) else row}
    try:
        graph = graph_text.parse(text, rows)
    except DamagedCase:
        return
    assert [n.target for n in graph.nodes] == ["x", "y", "torch.relu", "output"]


def test_the_table_does_not_choose_the_function() -> None:
    """The text is what a reader sees and what is checked; no row may put another function in its place."""
    rows = {"": {**ROW, "nodes": {"z": {"target": "os.system"}}}}
    graph = parse("def forward(self, x):\n    z = torch.relu(x)\n    return z\n", rows)
    assert graph.nodes[1].target == "torch.relu"


def with_modules(**named: str) -> Graph:
    return replace(relu_graph(), modules=named)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('x')",
        "os.system('x')",
        "torch.nn.Linear(__import__('os').system('x'), 1)",
        "torch.nn.Linear(3, 4, **{'a': 1})",
        "torch.nn.Module()",
        "torch.nn.DataParallel(3)",
        "torch.nn.Linear",
        "torch.nn.Linear(3, 4).train()",
        "torch.nn.Linear(3, 4).eval(1)",
        "torch.nn.Linear(3, 4)\nimport os",
        "torch.nn.functional.relu(1)",
        "torch.hub.load('x', 'y')",
        "[torch.nn.Linear(3, 4)]",
        "(" * 500,
        "torch.nn.Linear(" + "9" * 5000 + ")",
        "",
    ],
)
def test_modules_that_are_no_layers(text: str) -> None:
    with pytest.raises(UnsafeGraph):
        constructors.read(text)
    with pytest.raises(UnsafeGraph):
        checks.check_graph(with_modules(layer=text))


@pytest.mark.parametrize(
    "change",
    [
        lambda g: replace(g, tensors={"x = 1; import os": 0}),
        lambda g: replace(g, tensors={"a b": 0}),
        lambda g: replace(g, unknown={"a\nb": "x"}),
        lambda g: replace(g, bodies={"b()": relu_graph()}),
        lambda g: replace(g, nodes=(Node("a b", Op.PLACEHOLDER, "x"), *g.nodes[1:])),
        lambda g: replace(g, nodes=(Node("x", Op.PLACEHOLDER, "x=os.system('x')"), *g.nodes[1:])),
        lambda g: replace(g, nodes=(Node("x", Op.GET_ATTR, "w; import os"), *g.nodes[1:])),
        lambda g: replace(g, nodes=(Node("x", Op.GET_ATTR, 'w"); import os; ("'), *g.nodes[1:])),
        lambda g: replace(g, nodes=(Node("x", Op.PLACEHOLDER, "x", value=Value("torch.float32)#", ())), *g.nodes[1:])),
        lambda g: replace(g, nodes=(replace(g.nodes[0], value=Value("torch.os", ())), *g.nodes[1:])),
        lambda g: replace(g, nodes=(replace(g.nodes[0], value=Value("torch.int8", ("__f__(1)",))), *g.nodes[1:])),
        lambda g: replace(g, nodes=(replace(g.nodes[0], value=Value("torch.int8", ("exit ()",))), *g.nodes[1:])),
        lambda g: replace(g, nodes=(replace(g.nodes[0], value=Value("torch.int8", ("(exit)(1)",))), *g.nodes[1:])),
        lambda g: replace(g, nodes=(replace(g.nodes[0], value=Value("torch.int8", ("_f(1)",))), *g.nodes[1:])),
        lambda g: replace(g, nodes=(replace(g.nodes[0], value=Value("torch.int8", ("torch.os",))), *g.nodes[1:])),
        lambda g: replace(g, nodes=(replace(g.nodes[0], value=Value("torch.int8", (), None, 'cpu"')), *g.nodes[1:])),
        lambda g: replace(g, nodes=(g.nodes[0], replace(g.nodes[1], kwargs={"a=1, b": 1}), g.nodes[2])),
    ],
)  # fmt: skip
def test_names_that_would_be_code_in_a_script(change: Any) -> None:
    with pytest.raises(UnsafeGraph):
        checks.check_graph(change(relu_graph()))


ATTACKS: list[dict[str, Any]] = [
    {"inputs": (Tensor("torch.float32); import os", (1,), (1,)),)},
    {"inputs": (Tensor("torch.float32", (1,), (1,), device='cpu"); import os; ("'),)},
    {"inputs": (Tensor("torch.float32", (1,), (1,), flags=("evil",)),)},
    {"inputs": (Tensor("torch.float32", (1,), (1,), dynamic=(5,)),)},
    {"inputs": (Scalar(1, 's0"); import os; ("'),)},
    {"surroundings": Surroundings(backend=Backend('inductor"); import os; ("'))},
    {"surroundings": Surroundings(backend=Backend(mode='x"); import os; ("'))},
    {"surroundings": Surroundings(autocast=(Autocast('cpu"', "torch.float16"),))},
    {"surroundings": Surroundings(autocast=(Autocast("cpu", "os.system('x')"),))},
    {"surroundings": Surroundings(configs=(("os", "x", 1),))},
    {"surroundings": Surroundings(configs=(("torch._inductor.config", "x = 1; y", 1),))},
    {"surroundings": Surroundings(environment={'A"] = 1; import os; os.environ["B': "1"})},
    {"surroundings": Surroundings(switches={"default_dtype": "os.system('x')"})},
    {"surroundings": Surroundings(switches={"matmul_precision": 'x"); import os; ("'})},
    {"surroundings": Surroundings(switches={"threads": "1); import os; (1"})},
    {"surroundings": Surroundings(code=(Code("x", "x", imports=("os; import sys",)),))},
    {"context": {"kwargs": {"is_inference=True, x": True}}},
    {"context": {"kwargs": ["x"]}},
    {"context": {"output": {"original_output_strides": [["__import__('os')"]]}}},
    {"context": {"symbols": {'s0"': {"value": 1}}}},
]


@pytest.mark.parametrize("attack", ATTACKS, ids=str)
def test_cases_whose_words_would_be_code_in_a_script(attack: dict[str, Any], tmp_path: Path) -> None:
    case: Case = replace(relu_case(), **attack)
    folder.save(case, tmp_path)
    for ours in (False, True):
        with pytest.raises(DamagedCase):
            folder.load(tmp_path, ours=ours)


@pytest.mark.parametrize("module", ["os", "subprocess", "torch", "builtins", "torch.hub", "importlib"])
def test_naming_a_module_as_the_users_does_not_open_it(module: str, tmp_path: Path) -> None:
    call = Node("relu", Op.CALL_FUNCTION, f"{module}.load", (Ref("x"),))
    graph = graph_of(relu_graph().nodes[0], call, relu_graph().nodes[2])
    code = Code("operator mine::f", "f", imports=(module,))
    folder.save(replace(relu_case(), graph=graph, surroundings=Surroundings(code=(code,))), tmp_path)
    with pytest.raises(UnsafeGraph):
        folder.load(tmp_path)


def test_a_module_that_is_the_users_is_read(tmp_path: Path) -> None:
    call = Node("relu", Op.CALL_FUNCTION, "mymodels.layers.f", (Ref("x"),))
    graph = graph_of(relu_graph().nodes[0], call, relu_graph().nodes[2])
    case = replace(relu_case(), graph=graph)
    folder.save(case, tmp_path)
    with pytest.raises(UnsafeGraph):
        folder.load(tmp_path)
    code = Code("operator mine::f", "f", imports=("mymodels",))
    folder.save(replace(case, surroundings=Surroundings(code=(code,))), tmp_path)
    assert folder.load(tmp_path).graph == graph
    assert "mymodels" not in sys.modules


def test_every_refusal_is_an_error_of_ours() -> None:
    assert issubclass(UnsafeGraph, DamagedCase)
    assert issubclass(DamagedCase, SleuthError)
    with pytest.raises(UnsafeGraph, match=r"'os\.system', which is not an operator\. Nothing was run"):
        allowed.check_function("os.system")


@pytest.mark.parametrize(
    "name", ["torch.relu\n", "torch.relu ", "torch..relu", ".torch", "torch.", "", "torch.\uff52elu"]
)
def test_names_that_are_nearly_names(name: str) -> None:
    with pytest.raises(UnsafeGraph):
        allowed.check_function(name)


def test_opening_imports_no_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.save(relu_case(), tmp_path)
    monkeypatch.undo()  # this one starts a process itself
    program = (
        "import sys, pathlib\nfrom torchsleuth.case import folder\n"
        "case = folder.load(pathlib.Path(sys.argv[1]))\nprint(len(case.graph.nodes), 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout == "3 False\n"
