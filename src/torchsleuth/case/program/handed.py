"""Forms `backend` and `inner`: the graph built node by node and handed over as it is."""

from __future__ import annotations

import re
from collections.abc import Mapping

from torchsleuth.case.ir import Node
from torchsleuth.case.model import Case, Input, Opaque, Scalar, Tensor
from torchsleuth.case.program import compared, frame, nodes
from torchsleuth.case.program.names import short_name
from torchsleuth.case.program.render import Script
from torchsleuth.case.program.statements import CannotRender

_OFF = 'if os.environ.get("TORCH_COMPILE_DISABLE") == "1":'
_FAKE = """def fake(tensor, *dynamic):
    sizes = [DimDynamic.DUCK if d in dynamic else DimDynamic.STATIC for d in range(tensor.dim())]
    return mode.from_tensor(tensor, symbolic_context=StatelessSymbolicContext(sizes))"""
_SYMBOL = """def symbol(name, value, low=2, high=None):
    env, source, size = mode.shape_env, ConstantSource(name), low is not None and low >= 2
    # The same name as in the program, because sums and products are ordered by it.
    env._generate_unique_id = lambda _: int("".join(c for c in name if c.isdigit()))
    made = env.create_symbol(
        value, source, DimDynamic.DYNAMIC, positive=size or None, do_not_specialize_zero_one=not size
    )
    if (low, high) not in ((2, None), (None, None)):
        bounds = (-int_oo if low is None else low, int_oo if high is None else high)
        env.var_to_range[made] = ValueRanges(*bounds)
    return env.create_symintnode(made, hint=value, source=source)"""
_SYMBOL_IMPORTS = {
    "from torch._dynamo.source import ConstantSource",
    "from torch.fx.experimental.symbolic_shapes import DimDynamic",
    "from torch.utils._sympy.numbers import int_oo",
    "from torch.utils._sympy.value_ranges import ValueRanges",
}


def write_backend(script: Script) -> None:
    """The Dynamo graph, given to the backend as Dynamo would."""
    case = script.case
    script.imports.add("import os")
    nodes.build(case.graph, script, name="build")
    arguments = [_input(script, n, v) for n, v in zip(case.graph.placeholders, case.inputs, strict=True)]
    if case.check is not None:
        _write_compared(script, arguments)
        return
    script.inputs += ["graph = build()", f"inputs = [{', '.join(arguments)}]"]
    lines = _compiling(script, arguments)
    call = "out = compiled(*inputs)" if case.phase.backward else "compiled(*inputs)"
    script.run += frame.within(frame.contexts(case.surroundings), [*lines, call])
    if case.phase.backward:
        script.run += [
            "out = [o for o in out if isinstance(o, torch.Tensor) and o.requires_grad]",
            "torch.autograd.backward(out, [torch.ones_like(o) for o in out])",
        ]


def _write_compared(script: Script, arguments: list[str]) -> None:
    """Compiled anew for each run: a backend sees the inputs."""
    case = script.case
    made, script.inputs = script.inputs, []
    lines = ["graph = build()", *_compiling(script, arguments), "return compiled(*inputs)"]
    script.definitions += ["def compile_and_run(*inputs):", *(f"    {line}" for line in lines), "", ""]
    placed = tuple(
        compared.Placed(name, n.name, name, v)
        for name, n, v in zip(arguments, case.graph.placeholders, case.inputs, strict=True)
        if isinstance(v, Tensor)
    )
    target = compared.Callable("build()", "compile_and_run", tuple(arguments), placed, keeps_tuple=True)
    compared.write_runs(script, target, made)


def _compiling(script: Script, arguments: list[str]) -> list[str]:
    """From `graph` and `inputs` to `compiled`."""
    case = script.case
    symbols = any(v.dynamic if isinstance(v, Tensor) else isinstance(v, Scalar) and v.symbol for v in case.inputs)
    # Loops are traced with numbers that nobody knows yet; the mode that AOTAutograd makes by itself has none.
    symbols = symbols or any(n.target.startswith("torch.ops.higher_order.while_loop") for n in case.graph.nodes)
    compile_line = f"compiled = {_backend_call(script, 'fakes' if symbols else 'inputs')}"
    lines = [_OFF, "    compiled = graph", "else:"]
    if symbols:
        lines += [f"    {line}" for line in _fakes(script, arguments)]
        lines += ["    with tracing(TracingContext(mode)):", f"        {compile_line}"]
    else:
        lines.append(f"    {compile_line}")
    return lines


def _backend_call(script: Script, inputs: str) -> str:
    backend = script.case.surroundings.backend
    if not backend.registered:
        return f"{backend.code.name if backend.code else backend.name}(graph, {inputs})"
    if backend.name == "inductor":
        script.imports.add("from torch._inductor.compile_fx import compile_fx")
        patches = f", config_patches={dict(backend.options)!r}" if backend.options else ""
        return f"compile_fx(graph, {inputs}{patches})"
    script.imports.add("from torch._dynamo.backends.registry import lookup_backend")
    return f'lookup_backend("{backend.name}")(graph, {inputs})'


def _input(script: Script, node: Node, value: Input) -> str:
    if isinstance(value, Opaque):
        raise CannotRender(f"the input {node.name} is a {value.what}, which was not kept")
    if isinstance(value, Scalar):
        number = repr(value.value)
        return f"torch.tensor({number}, dtype=torch.float64)" if value.as_tensor else number
    name = script.names.fresh(short_name(value.source, node.name))
    made = script.tensor(value, name, script.inputs)
    script.inputs.append(f"{name} = {made}")
    return name


def _fakes(script: Script, arguments: list[str]) -> list[str]:
    """Fake inputs whose dynamic sizes are symbols, as Dynamo's were."""
    case = script.case
    script.imports |= {
        "from torch._guards import TracingContext, tracing",
        "from torch._subclasses.fake_tensor import FakeTensorMode",
        "from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext",
    }
    script.definitions += [_FAKE, "", ""]
    sized: dict[str, tuple[int, int]] = {}
    pairs = list(zip(case.graph.placeholders, case.inputs, strict=True))
    for i, (node, value) in enumerate(pairs):
        if isinstance(value, Tensor) and node.value:
            for dim, size in enumerate(node.value.shape):
                if isinstance(size, str):
                    sized.setdefault(size, (i, dim))
    lines = [
        "mode = FakeTensorMode(shape_env=ShapeEnv())",
        f"ids = iter([{', '.join([*map(str, _numbers_of_symbols(case)), '*range(1000, 9000)'])}])",
        "mode.shape_env._generate_unique_id = lambda _: next(ids)  # names as in the program: sums are ordered by them",
        "fakes = list(inputs)",
    ]
    for i, (_, value) in enumerate(pairs):
        if isinstance(value, Tensor):
            lines.append(f"fakes[{i}] = fake({', '.join([f'inputs[{i}]', *map(str, value.dynamic)])})")
    free = False
    for i, (_, value) in enumerate(pairs):
        if isinstance(value, Scalar) and value.symbol in sized:
            tensor, dim = sized[value.symbol]
            lines.append(f"fakes[{i}] = fakes[{tensor}].size({dim})")
        elif isinstance(value, Scalar) and value.symbol:
            free = True
            lines.append(f'fakes[{i}] = symbol("{value.symbol}", {arguments[i]}, None)')
    if free:
        script.imports |= _SYMBOL_IMPORTS
        script.definitions += [_SYMBOL, "", ""]
    return lines


def _numbers_of_symbols(case: Case) -> list[int]:
    """70 for s70: the symbols of sizes in the order in which fake inputs make them, one for each distinct size."""
    found: dict[int, int] = {}
    for node, value in zip(case.graph.placeholders, case.inputs, strict=True):
        if isinstance(value, Tensor) and node.value:
            for dim in value.dynamic:
                name = re.fullmatch(r"s(\d+)", str(node.value.shape[dim]))
                if name and value.shape[dim] > 1:
                    found.setdefault(value.shape[dim], int(name.group(1)))
    return list(found.values())


def write_inner(script: Script) -> None:
    """The ATen graph, given to Inductor with everything AOTAutograd had told it."""
    if script.case.check is not None:
        raise CannotRender("numbers are compared in the other forms")
    case, context = script.case, script.case.context
    script.imports |= {
        "import os",
        "from torch._guards import TracingContext, tracing",
        "from torch._inductor.compile_fx import compile_fx_inner",
        "from torch._inductor.virtualized import V",
        "from torch._subclasses.fake_tensor import FakeTensorMode",
        "from torch.fx.experimental.symbolic_shapes import ShapeEnv",
        "from torch.fx.passes.fake_tensor_prop import FakeTensorProp",
    }
    nodes.build(case.graph, script, name="build")
    arguments = [_input(script, n, v) for n, v in zip(case.graph.placeholders, case.inputs, strict=True)]
    script.inputs += ["graph = build()", f"inputs = [{', '.join(arguments)}]"]
    symbols = _symbols(case)
    if symbols:
        script.imports |= _SYMBOL_IMPORTS
        script.definitions += [_SYMBOL, "", ""]
    setup = ["mode = FakeTensorMode(shape_env=ShapeEnv())"]
    setup += [f'{name} = symbol("{name}", {text})' for name, text in symbols.items()]
    fakes = [_fake_input(n, v) for n, v in zip(case.graph.placeholders, case.inputs, strict=True)]
    setup += ["with mode:", f"    fakes = [{', '.join(fakes)}]"]
    propagate = "FakeTensorProp(graph, mode).propagate_dont_convert_inputs(*fakes)"
    if symbols:  # as AOTAutograd traces: some operators find out symbolic sizes only so
        script.imports.add("from torch._dispatch.python import enable_python_dispatcher")
        setup += ["with enable_python_dispatcher():", f"    {propagate}"]
    else:
        setup.append(propagate)
    output = context.get("output") or {}
    if output:
        kept = ", ".join(f'"{k}": {_nested(v)}' for k, v in output.items())
        setup.append(f"graph.graph.output_node().meta.update({{{kept}}})")
    kwargs = {k: v for k, v in (context.get("kwargs") or {}).items() if v not in (None, False) and k != "cudagraphs"}
    options = "".join(f", {k}={v!r}" for k, v in kwargs.items())
    patches = [f"torch._inductor.config.patch({dict(case.surroundings.backend.options)!r})"]
    if not case.surroundings.backend.options:
        patches = []
    setup.append("context = TracingContext(mode)")
    if context.get("donated"):
        script.imports.add("from types import SimpleNamespace")
        setup.append(f"context.fw_metadata = SimpleNamespace(bw_donated_idxs={_numbers(context['donated'])})")
    items = ", ".join(["V.set_fake_mode(mode)", "tracing(context)", *patches])
    setup += [f"with {items}:", f"    compiled = compile_fx_inner(graph, fakes{options})"]
    lines = [_OFF, "    graph(*inputs)", "else:", *(f"    {line}" for line in setup), "    compiled(list(inputs))"]
    script.run += frame.within(["torch.no_grad()"], lines)


def _numbers(value: object) -> list[int]:
    """The whole numbers of what a Case's context holds: it may come from a file."""
    return [v for v in value if type(v) is int] if isinstance(value, list) else []


def _symbols(case: Case) -> dict[str, str]:
    """Symbols that some input names, with what each stood for and, where it is not a size's own, its range."""
    known = case.context.get("symbols", {})
    values = [n.value for n in case.graph.placeholders if n.value]
    sizes = [s for v in values for s in (*v.shape, *(v.stride or ())) if isinstance(s, str)]
    sizes += [v.symbol for v in case.inputs if isinstance(v, Scalar)]
    names = {w for s in sizes for w in re.findall(r"\b[su]\d+\b", s)}
    return {name: _stood_for(row) for name, row in sorted(known.items()) if name in names}


def _stood_for(row: Mapping[str, object]) -> str:
    value, low, high = (row.get(part) for part in ("value", "low", "high"))
    if type(value) is not int or not {type(low), type(high)} <= {int, type(None)}:
        raise CannotRender("a symbol stands for something that is no whole number")
    return f"{value}" if (low, high) == (2, None) else f"{value}, {low}, {high}"


def _fake_input(node: Node, value: Input) -> str:
    if isinstance(value, Scalar):
        return _expression(value.symbol) if value.symbol else repr(value.value)
    if not isinstance(value, Tensor) or node.value is None or node.value.stride is None:
        raise CannotRender(f"the input {node.name} is no plain tensor")
    device = "" if value.device == "cpu" else f', device="{value.device}"'
    dtype = "" if value.dtype == "torch.float32" else f", dtype={value.dtype}"
    return f"torch.empty_strided({_nested(node.value.shape)}, {_nested(node.value.stride)}{dtype}{device})"


def _nested(value: object) -> str:
    if isinstance(value, (list, tuple)):
        inside = ", ".join(map(_nested, value))
        return f"({inside},)" if len(value) == 1 else f"({inside})"
    return _expression(value) if isinstance(value, str) else repr(value)


def _expression(text: str) -> str:
    """A symbolic size as Python: sympy's Max and Min have other names in torch."""
    if not re.fullmatch(r"[\w\s+*/(),.-]+", text):
        raise CannotRender(f"the size {text} has no form in Python")
    unknown = set(re.findall(r"\b([A-Za-z]\w*)\(", text)) - {"Max", "Min"}
    if unknown:
        raise CannotRender(f"the size {text} has no form in Python")
    return re.sub(r"\bMax\(", "torch.sym_max(", re.sub(r"\bMin\(", "torch.sym_min(", text))
