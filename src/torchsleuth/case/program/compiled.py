"""Form `torch.compile`: the graph as a plain function, or a small module where it has parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from torchsleuth.case import user_kernels
from torchsleuth.case.ir import Graph, Node, Op, Ref, inputs_of
from torchsleuth.case.model import Case, Opaque, Role, Scalar, Tensor
from torchsleuth.case.program import compared, frame, higher_order
from torchsleuth.case.program.autograd_functions import write_classes
from torchsleuth.case.program.names import short_name
from torchsleuth.case.program.render import Script
from torchsleuth.case.program.statements import Body, CannotRender, only_result, write_nodes

_CHANGE_SHAPE = set("as_strided_ resize_ resize_as_ set_ squeeze_ swapaxes_ swapdims_ t_ transpose_ unsqueeze_".split())


@dataclass
class Signature:
    """How each placeholder of the graph is reached in the script."""

    names: dict[str, str] = field(default_factory=dict)  # node -> expression inside the function
    parameters: list[str] = field(default_factory=list)  # of the function
    arguments: list[str] = field(default_factory=list)  # at the call, module-level names
    tensors: dict[str, Tensor] = field(default_factory=dict)  # arguments that are tensors, by name
    members: list[tuple[str, str, Tensor]] = field(default_factory=list)  # attribute, node, tensor
    sizes: dict[str, tuple[str, str]] = field(default_factory=dict)  # symbolic size -> its tensor, the line binding it
    floats: set[str] = field(default_factory=set)  # placeholders passed as Python floats
    whole_dynamic: bool = False  # some symbol is no tensor's size: only dynamic=True makes it symbolic


def write(script: Script) -> None:
    case = script.case
    signature = _signature(script)
    arguments, script.inputs = script.inputs, []
    is_module = _is_module(case, signature)
    functions = _bodies(case.graph, script)
    main = _main(case.graph, script, signature, functions, is_module)
    script.definitions += main
    dynamic = True if signature.whole_dynamic else case.surroundings.dynamic
    if dynamic:
        arguments += _keep_static(script, signature)
    if case.check is None:
        script.inputs = arguments + script.inputs
        _write_call(script, signature, is_module, dynamic)
    else:
        compared.write_runs(script, _callable(case, signature, is_module, dynamic), arguments)


def observed(case: Case) -> list[str]:
    """Names of what is compared with eager in a script of this form."""
    signature = _signature(Script(case, data=False))
    return compared.names(case, _callable(case, signature, _is_module(case, signature), None))


def _is_module(case: Case, signature: Signature) -> bool:
    return bool(signature.members or case.graph.tensors or case.graph.modules)


def _signature(script: Script) -> Signature:
    case, found = script.case, Signature()
    pairs = list(zip(case.graph.placeholders, case.inputs, strict=True))
    sized = {
        str(size): (node.name, dim)
        for node, value in reversed(pairs)
        if isinstance(value, Tensor) and node.value
        for dim, size in enumerate(node.value.shape)
        if isinstance(size, str)
    }
    for node, value in pairs:
        if isinstance(value, Opaque):
            raise CannotRender(f"the input {node.name} is a {value.what}, which was not kept")
        if isinstance(value, Tensor):
            _tensor(script, found, node, value)
    for node, value in pairs:
        if isinstance(value, Scalar):
            _scalar(script, found, node, value, sized)
    return found


def _tensor(script: Script, found: Signature, node: Node, value: Tensor) -> None:
    member = value.role in (Role.PARAMETER, Role.BUFFER)
    name = script.names.fresh(short_name(value.source, node.name))
    if member:
        found.names[node.name] = f"self.{name}"
        found.members.append((name, node.name, value))
        return
    found.names[node.name] = name
    found.parameters.append(name)
    found.arguments.append(name)
    found.tensors[name] = value
    script.inputs.append(f"{name} = {script.tensor(value, name, script.inputs)}")
    if value.dynamic and script.case.surroundings.dynamic is not True:
        script.imports.add("import torch._dynamo")
        script.inputs += [f"torch._dynamo.maybe_mark_dynamic({name}, {dim})" for dim in value.dynamic]


def _scalar(script: Script, found: Signature, node: Node, value: Scalar, sized: Mapping[str, tuple[str, int]]) -> None:
    if value.symbol in sized:
        tensor, dim = sized[value.symbol]
        name = script.names.fresh(value.symbol if value.symbol.isidentifier() else node.name)
        found.names[node.name] = name
        found.sizes[node.name] = (tensor, f"{name} = {found.names[tensor]}.size({dim})")
        return
    name = script.names.fresh(short_name(value.source, node.name))
    found.names[node.name] = name
    found.parameters.append(name)
    found.arguments.append(repr(value.value))
    if value.symbol or value.as_tensor:
        found.whole_dynamic = True
    if value.as_tensor:
        found.floats.add(node.name)


def _float_aliases(graph: Graph, signature: Signature) -> dict[str, str]:
    """`.item()` of a float that came as a 0-d tensor is the float."""
    return {
        n.name: signature.names[n.args[0].name]
        for n in graph.nodes
        if n.op is Op.CALL_METHOD
        and n.target == "item"
        and isinstance(n.args[0], Ref)
        and n.args[0].name in signature.floats
    }


def _bodies(graph: Graph, script: Script) -> dict[str, str]:
    """Functions for the bodies of higher-order operators, innermost first: path -> function name."""
    names: dict[str, str] = {}
    regions = higher_order.regions(graph)
    for path, body in graph.bodies.items():
        inner = _bodies(body, script)
        if body.modules:
            raise CannotRender("a body with modules in it")
        name = names[path] = script.names.fresh(path.replace(".", "_"))
        tensors = {}
        for attribute, index in body.tensors.items():
            constant = tensors[attribute] = script.names.fresh(attribute.replace(".", "_"))
            value = script.tensor(script.case.constants[index], constant, script.inputs)
            script.inputs.append(f"{constant} = {value}")
        aliases = _attribute_aliases(body, {**inner, **tensors})
        text = Body(
            {**aliases, **{p.name: p.name for p in body.placeholders}}, _tensor_names(body), kernels=_kernels(script),
            classes=write_classes(body, inner, script),
        )  # fmt: skip
        write_nodes(body, text, aliases)
        script.imports |= text.imports
        parameters = ", ".join(p.name for p in body.placeholders)
        mark = [higher_order.REGION_MARK] if path in regions else []
        script.definitions += [*mark, f"def {name}({parameters}):", *text.lines, "", ""]
    return names


def _kernels(script: Script) -> dict[str, str]:
    return user_kernels.expressions(script.case.surroundings.code)


def _tensor_names(graph: Graph) -> frozenset[str]:
    return frozenset(n.name for n in graph.nodes if n.value)


def _attribute_aliases(graph: Graph, known: Mapping[str, str]) -> dict[str, str]:
    return {n.name: known[n.target] for n in graph.nodes if n.op is Op.GET_ATTR and n.target in known}


def _main(
    graph: Graph, script: Script, signature: Signature, functions: Mapping[str, str], is_module: bool
) -> list[str]:
    attributes = {path: f"self.{_flat(path)}" for path in graph.tensors}
    aliases = {**_attribute_aliases(graph, {**functions, **attributes}), **_float_aliases(graph, signature)}
    names = {**signature.names, **aliases}
    body = Body(
        names, _tensor_names(graph), indent=2 if is_module else 1, kernels=_kernels(script),
        classes=write_classes(graph, functions, script), plain_end=True,
    )  # fmt: skip
    used = {name for node in graph.nodes for name in inputs_of(node)}
    early = _before_parameters(graph, signature)
    for size, (of, line) in signature.sizes.items():
        if size in used and of in early:
            body.add(line)
        elif size in used:
            body.late[size] = line
    write_nodes(graph, body, aliases)
    script.imports |= body.imports
    if not is_module:
        return [f"def f({', '.join(signature.parameters)}):", *body.lines, "", ""]
    setup: list[str] = []
    for name, _, tensor in signature.members:
        value = script.tensor(tensor, name, setup)
        buffer = tensor.role is Role.BUFFER
        setup.append(f'self.register_buffer("{name}", {value})' if buffer else f"self.{name} = {value}")
    for path, constructor in graph.modules.items():
        setup.append(f"self.{_flat(path)} = {constructor}")
    for path, index in graph.tensors.items():
        value = script.tensor(script.case.constants[index], _flat(path), setup)
        owner = next((m for m in graph.modules if path.startswith(f"{m}.")), None)
        place = f"{_flat(owner)}{path[len(owner) :]}" if owner else _flat(path)
        setup.append(f"self.{place} = {value}")
    if script.data:
        setup = ['data = torch.load("repro_data.pt", weights_only=True)', *setup]
    elif any("rand" in line for line in setup) and not script.case.phase.compiling:
        setup = ["torch.manual_seed(0)", *setup]
    return [
        "class Model(torch.nn.Module):",
        "    def __init__(self):",
        "        super().__init__()",
        *(f"        {line}" for line in setup),
        "",
        f"    def forward({', '.join(['self', *signature.parameters])}):",
        *body.lines,
        "",
        "",
    ]


def _before_parameters(graph: Graph, signature: Signature) -> set[str]:
    """The placeholders in front of the first parameter.

    Dynamo makes inputs in the order in which it comes across them, and kernels follow it: asking an argument for its
    size where the program came across a parameter first would turn that order round.  Where the graph changes shapes
    in place, all count as in front: a size is what it was at the beginning.
    """
    if any(n.op is Op.CALL_METHOD and n.target in _CHANGE_SHAPE for n in graph.nodes):
        return {p.name for p in graph.placeholders}
    members = {node for _, node, _ in signature.members}
    names = [p.name for p in graph.placeholders]
    first = next((i for i, name in enumerate(names) if name in members), len(names))
    return set(names[:first])


def _flat(path: str) -> str:
    return path.replace(".", "_")


def _callable(case: Case, signature: Signature, is_module: bool, dynamic: bool | None) -> compared.Callable:
    placed = [compared.Placed(name, node, f"f.{name}", tensor) for name, node, tensor in signature.members] + [
        compared.Placed(name, "", name, tensor) for name, tensor in signature.tensors.items()
    ]
    maker = "Model()" if is_module else "f"
    options = ", ".join([maker, *frame.compile_arguments(case.surroundings.backend, dynamic)])
    return compared.Callable(maker, f"torch.compile({options})", tuple(signature.arguments), tuple(placed))


def _write_call(script: Script, signature: Signature, is_module: bool, dynamic: bool | None) -> None:
    surroundings, backward = script.case.surroundings, script.case.phase.backward
    if is_module:
        script.inputs.append("model = Model()")
    arguments = frame.compile_arguments(surroundings.backend, dynamic)
    compiled = f"torch.compile({', '.join(['model' if is_module else 'f', *arguments])})"
    call = f"{compiled}({', '.join(signature.arguments)})"
    script.run += frame.within(frame.contexts(surroundings), [f"out = {call}" if backward else call])
    if backward and only_result(script.case.graph.output.args[0]) is not None:
        script.run.append("out.backward(torch.ones_like(out))")
    elif backward:
        script.run += [
            "out = [o for o in out if isinstance(o, torch.Tensor) and o.requires_grad]",
            "torch.autograd.backward(out, [torch.ones_like(o) for o in out])",
        ]


def _keep_static(script: Script, signature: Signature) -> list[str]:
    """dynamic=True would make every size symbolic: say which the program had fixed itself."""
    lines = []
    for name, tensor in signature.tensors.items():
        fixed = [dim for dim, size in enumerate(tensor.shape) if dim not in tensor.dynamic and size > 1]
        if fixed:
            script.imports.add("import torch._dynamo")
            dims = "" if not tensor.dynamic else f", {fixed[0] if len(fixed) == 1 else fixed}"
            lines.append(f"torch._dynamo.mark_static({name}{dims})")
    return lines
