"""The lines around a graph: imports, switches, the user's carried code, contexts, the call of torch.compile."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torchsleuth.case.model import Backend, Case, Code, Surroundings

_SWITCHES = {
    "default_dtype": "torch.set_default_dtype({})",
    "deterministic": "torch.use_deterministic_algorithms(True)",
    "matmul_precision": 'torch.set_float32_matmul_precision("{}")',
    "threads": "torch.set_num_threads({})",
    "flush_denormal": "torch.set_flush_denormal(True)",
}


def switches(surroundings: Surroundings) -> list[str]:
    lines = [
        form.format(surroundings.switches[name]) for name, form in _SWITCHES.items() if name in surroundings.switches
    ]
    for module, entry, value in surroundings.configs:
        lines.append(f"{module}.{entry} = {value!r}")
    return lines


def config_imports(surroundings: Surroundings) -> set[str]:
    return {f"import {module}" for module, _, _ in surroundings.configs}


def environment(surroundings: Surroundings) -> list[str]:
    return [f'os.environ["{name}"] = {value!r}' for name, value in sorted(surroundings.environment.items())]


def carried(case: Case, *, with_backend: bool = True) -> list[Code]:
    backend = case.surroundings.backend.code
    found = [*case.surroundings.code, *([backend] if backend and with_backend else [])]
    return list({(c.source, () if c.source else c.imports): c for c in reversed(found)}.values())[::-1]


def compile_arguments(backend: Backend, dynamic: bool | None) -> list[str]:
    arguments = []
    if not backend.registered:
        arguments.append(f"backend={backend.code.name if backend.code else backend.name}")
    elif backend.name != "inductor":
        arguments.append(f'backend="{backend.name}"')
    if backend.mode:
        arguments.append(f'mode="{backend.mode}"')
    if backend.options:
        arguments.append(f"options={dict(backend.options)!r}")
    if dynamic is not None:
        arguments.append(f"dynamic={dynamic}")
    return arguments


def contexts(surroundings: Surroundings) -> list[str]:
    """`with` items that hold while the compiled code is called."""
    found = []
    if surroundings.inference:
        found.append("torch.inference_mode()")
    elif not surroundings.grad:
        found.append("torch.no_grad()")
    for cast in surroundings.autocast:
        cache = "" if cast.cache else ", cache_enabled=False"
        found.append(f'torch.autocast("{cast.device}", dtype={cast.dtype}{cache})')
    return found


def within(items: list[str], lines: Iterable[str]) -> list[str]:
    if not items:
        return list(lines)
    return [f"with {', '.join(items)}:", *(f"    {line}" for line in lines)]


def constant(value: Any) -> bool:
    """Whether a value can stand in a script as its repr."""
    if isinstance(value, (list, tuple, set, frozenset)):
        return all(constant(v) for v in value)
    if isinstance(value, dict):
        return all(constant(k) and constant(v) for k, v in value.items())
    return value is None or isinstance(value, (bool, int, float, str))
